/// The declarative side of the settings: a row per key, from which reading, flags, help and writing all follow.
#pragma once
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/config.hpp"
#include "config/json.hpp"

namespace clipbert::config {

/// The largest count that a key or a flag takes: products of a few of them are checked where they are made.
inline constexpr std::int64_t largest_count = (std::int64_t{1} << 31) - 1;

/// What a value must keep to besides its type.
struct Rule {
  double low = -std::numeric_limits<double>::infinity(), high = std::numeric_limits<double>::infinity();
  bool above_low = false, below_high = false;                             ///< the bound itself is excluded
  double also = std::numeric_limits<double>::quiet_NaN();                 ///< allowed outside the range (-1: off)
  std::size_t least = 0, most = std::numeric_limits<std::size_t>::max();  ///< elements of a list
  std::vector<std::string_view> choices = {};
  bool any_case = false;  ///< of a choice; the spelling in `choices` is stored
  bool device = false;    ///< cpu, cuda or cuda:N
  bool any_size = false;  ///< a whole number above largest_count is taken too
};

/// How the words behind a flag become a value.
enum class Shape { boolean, number, text, list, json, text_or_json };

/// What a path key names; `none`: the key is no path that must exist.
enum class PathKind { none, file, folder, any };

/// Collects what is wrong, so that one report tells all of it.
class Faults {
 public:
  explicit Faults(const std::map<std::string, std::size_t, std::less<>>* lines = nullptr) : lines_(lines) {}
  void add(const std::string& path, const std::string& what);
  void add(const std::string& what) { all_.push_back(what); }
  [[nodiscard]] const std::vector<std::string>& all() const { return all_; }
  /// throws  usage_error with every fault, if there is one
  void raise(const std::string& name) const;

 private:
  const std::map<std::string, std::size_t, std::less<>>* lines_;
  std::vector<std::string> all_;
};

/// One key of the settings struct S.
template <class S>
struct Key {
  std::string_view name;
  std::string_view section;
  std::string_view help;
  std::string_view fallback;  ///< what an unset key means, in words; empty: the default of the struct
  Shape shape = Shape::text;
  bool nullable = false, required = false;
  PathKind path = PathKind::none;
  std::function<void(const Json&, S&, const std::string& path, Faults&)> read;
  std::function<Json(const S&)> write;
  std::function<std::string()> type;     ///< in words
  std::function<std::string*(S&)> text;  ///< the text that it holds, nullptr where it holds none
  std::function<void(S&, const S& defaults)> reset;
};

/// The table of S, in the order of help and args.json.
template <class S>
std::span<const Key<S>> keys() = delete;
template <>
std::span<const Key<Config>> keys();
template <>
std::span<const Key<ModelConfig>> keys();
template <>
std::span<const Key<CnnConfig>> keys();
template <>
std::span<const Key<DatasetConfig>> keys();

/// The row of `name`, or nullptr.
template <class S>
const Key<S>* find_key(std::string_view name) {
  for (const auto& key : keys<S>())
    if (key.name == name) return &key;
  return nullptr;
}

/// Reads an object into `out` by the table of S; unknown keys, types and ranges go to `faults`.
template <class S>
void read_object(const Json& json, S& out, const std::string& path, Faults& faults);

/// All keys of `value`, in the table's order.
template <class S>
Json write_object(const S& value);

/// What to write instead of the unknown `name`, among the keys of S first, as words for a message.
template <class S>
std::string suggestion(std::string_view name);

/// The changes of one letter (replace, drop, insert, swap) between two words.
[[nodiscard]] std::size_t edit_distance(std::string_view a, std::string_view b);

}  // namespace clipbert::config
