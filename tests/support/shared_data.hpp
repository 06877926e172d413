/// Where the shared test data lies: AMP_FIXTURES, AMP_CASES, else below AMP_SHARED, else below ../shared. Read at run time.
#pragma once
#include <cstdlib>
#include <filesystem>
#include <string>

#include "support/skip.hpp"

namespace test_support {

inline std::filesystem::path shared_folder(const char* variable, const char* name) {
  if (const char* direct = std::getenv(variable); direct != nullptr && *direct != '\0') return direct;
  const char* shared = std::getenv("AMP_SHARED");
  return std::filesystem::path(shared != nullptr && *shared != '\0' ? shared : "../shared") / name;
}
inline std::filesystem::path fixtures_folder() { return shared_folder("AMP_FIXTURES", "fixtures"); }
inline std::filesystem::path cases_folder() { return shared_folder("AMP_CASES", "cases"); }

/// True if `file` exists; else notes that the test is skipped.
inline bool have(const std::filesystem::path& file) {
  if (std::filesystem::exists(file)) return true;
  skip("no " + file.string() + ": set AMP_SHARED, AMP_FIXTURES or AMP_CASES");
  return false;
}

}  // namespace test_support
