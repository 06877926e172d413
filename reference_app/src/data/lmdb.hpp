/// LMDB, the key-value file that the original keeps its videos in. Private to this folder: the only header that names
/// it.
#pragma once
#include <lmdb.h>

#include <cstddef>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace clipbert::data {

/// The keys of an LMDB's data file, in its order, after every page that leads to a value was looked at.
/// liblmdb trusts its file: a damaged page lets it read outside its map or end the program, so this comes first.
/// throws  content_error (path, what is wrong) if the file is cut or damaged, or no LMDB
[[nodiscard]] std::vector<std::string> sound_lmdb_keys(const std::filesystem::path& data_file);

/// One LMDB directory, open for reading; any number of threads may ask. What it holds when it is opened is what it
/// gives. No lock is taken, so a folder that cannot be written will do, and several programs may read; nobody may write
/// to it meanwhile.
class Lmdb {
 public:
  static constexpr const char* data_file = "data.mdb";

  /// throws  content_error if it cannot be opened, or is damaged
  explicit Lmdb(const std::filesystem::path& folder);

  [[nodiscard]] const std::vector<std::string>& keys() const { return keys_; }
  /// The value of a key, valid as long as this object; none if the key is not there.
  /// throws  content_error if libmdb cannot read it
  [[nodiscard]] std::optional<std::span<const std::byte>> value(const std::string& key) const;

 private:
  struct EnvironmentCloser {
    void operator()(MDB_env* environment) const noexcept { mdb_env_close(environment); }
  };
  struct TransactionEnder {
    void operator()(MDB_txn* transaction) const noexcept { mdb_txn_abort(transaction); }
  };
  void check(int code, const char* doing) const;

  std::filesystem::path folder_;
  std::vector<std::string> keys_;
  std::unique_ptr<MDB_env, EnvironmentCloser> environment_;
  std::unique_ptr<MDB_txn, TransactionEnder> transaction_;  // one for all: what it showed once stays in place
  MDB_dbi values_ = 0;
  mutable std::mutex mutex_;
};

}  // namespace clipbert::data
