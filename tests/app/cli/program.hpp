/// Runs the program under test as a user does: in a folder of its own, with its exit code and what it wrote.
#pragma once
#include <sys/types.h>

#include <filesystem>
#include <string>
#include <vector>

#include "support/temp_folder.hpp"

namespace test_support {

struct Outcome {
  int code = 0;  ///< exit code, or 128 + signal
  std::string out, err;
};

/// A started program.
class Program {
 public:
  /// AMP_CLIPBERT names the program; `folder` is its current one.
  Program(const std::vector<std::string>& words, const std::filesystem::path& folder);
  ~Program();
  Program(const Program&) = delete;
  Program& operator=(const Program&) = delete;

  void signal(int number) const;
  /// True once it has ended.
  [[nodiscard]] bool ended();
  [[nodiscard]] Outcome wait();

 private:
  pid_t pid_ = -1;
  bool reaped_ = false;
  int status_ = 0;
  std::filesystem::path out_, err_;
};

/// A temporary folder to run the program in.
class Folder : public TempFolder {
 public:
  /// Runs the program in it to its end.
  [[nodiscard]] Outcome run(const std::vector<std::string>& words) const;
};

[[nodiscard]] std::string read_text(const std::filesystem::path& file);

/// True if `text` holds `part`.
[[nodiscard]] bool has(const std::string& text, const std::string& part);

/// True for one line of text and no more, as every error of the program is.
[[nodiscard]] bool one_line(const std::string& text);

}  // namespace test_support
