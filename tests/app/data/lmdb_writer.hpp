/// Writes an LMDB as the original's scripts do: a folder, key = video id, value = the file's bytes.
#pragma once
#include <doctest/doctest.h>
#include <lmdb.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

namespace test_support {

class LmdbWriter {
 public:
  explicit LmdbWriter(const std::filesystem::path& folder, unsigned flags = 0) {
    std::filesystem::create_directories(folder);
    REQUIRE(mdb_env_create(&environment_) == 0);
    mdb_env_set_mapsize(environment_, std::size_t{1} << 30);
    mdb_env_set_maxdbs(environment_, 2);
    REQUIRE(mdb_env_open(environment_, folder.c_str(), 0, 0644) == 0);
    begin(nullptr, flags);
  }
  ~LmdbWriter() {
    if (transaction_ != nullptr) mdb_txn_abort(transaction_);
    mdb_env_close(environment_);
  }
  LmdbWriter(const LmdbWriter&) = delete;
  LmdbWriter& operator=(const LmdbWriter&) = delete;

  /// What follows goes to the values of this name; null: to those without one.
  void begin(const char* name, unsigned flags = 0) {
    if (transaction_ == nullptr) REQUIRE(mdb_txn_begin(environment_, nullptr, 0, &transaction_) == 0);
    REQUIRE(mdb_dbi_open(transaction_, name, flags, &values_) == 0);
  }
  void put(std::string key, std::string value) {
    MDB_val name{key.size(), key.data()}, bytes{value.size(), value.data()};
    REQUIRE(mdb_put(transaction_, values_, &name, &bytes, 0) == 0);
  }
  void remove(std::string key) {
    MDB_val name{key.size(), key.data()};
    REQUIRE(mdb_del(transaction_, values_, &name, nullptr) == 0);
  }
  void commit() { REQUIRE(mdb_txn_commit(std::exchange(transaction_, nullptr)) == 0); }

 private:
  MDB_env* environment_ = nullptr;
  MDB_txn* transaction_ = nullptr;
  MDB_dbi values_ = 0;
};

inline void write_lmdb(const std::filesystem::path& folder,
                       const std::vector<std::pair<std::string, std::string>>& entries) {
  LmdbWriter writer(folder);
  for (const auto& [key, value] : entries) writer.put(key, value);
  writer.commit();
}

}  // namespace test_support
