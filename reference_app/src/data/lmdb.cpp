#include "data/lmdb.hpp"

#include <string>

#include "config/errors.hpp"

namespace clipbert::data {

Lmdb::Lmdb(const std::filesystem::path& folder) : folder_(folder), keys_(sound_lmdb_keys(folder / data_file)) {
  MDB_env* environment = nullptr;
  check(mdb_env_create(&environment), "making room");
  environment_.reset(environment);
  // Else the size that its writer set aside is mapped: a terabyte is usual, and more than a limited process may have.
  check(mdb_env_set_mapsize(environment, std::filesystem::file_size(folder / data_file)), "sizing");
  constexpr unsigned flags = MDB_RDONLY | MDB_NOLOCK | MDB_NOTLS;
  check(mdb_env_open(environment, folder.c_str(), flags, 0), "opening");
  MDB_txn* transaction = nullptr;
  check(mdb_txn_begin(environment, nullptr, MDB_RDONLY, &transaction), "beginning to read");
  transaction_.reset(transaction);
  check(mdb_dbi_open(transaction, nullptr, 0, &values_), "opening its values");
}

void Lmdb::check(int code, const char* doing) const {
  if (code == MDB_SUCCESS) return;
  throw content_error(folder_.string() + ": " + doing + " of the LMDB failed: " + mdb_strerror(code));
}

std::optional<std::span<const std::byte>> Lmdb::value(const std::string& key) const {
  // liblmdb takes no empty key and none above its limit; neither can be there.
  if (key.empty() || key.size() > static_cast<std::size_t>(mdb_env_get_maxkeysize(environment_.get()))) return {};
  std::string bytes = key;
  MDB_val name{bytes.size(), bytes.data()}, value{};
  const std::scoped_lock lock(mutex_);
  const int code = mdb_get(transaction_.get(), values_, &name, &value);
  if (code == MDB_NOTFOUND) return {};
  check(code, ("reading key \"" + key + "\"").c_str());
  return std::span(static_cast<const std::byte*>(value.mv_data), value.mv_size);
}

}  // namespace clipbert::data
