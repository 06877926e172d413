/// Saved state: names to typed bytes, in the terms of the safetensors format.
#pragma once
#include <amp/core/check.hpp>
#include <amp/core/dtype.hpp>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace amp {

/// One saved array. `type` is safetensors' name of it: F32, F64, F16, BF16, F8_E4M3, I64.
struct SavedTensor {
  std::string type;
  std::vector<std::int64_t> shape;
  std::vector<std::byte> bytes;
  friend bool operator==(const SavedTensor&, const SavedTensor&) = default;
};
using StateDict = std::map<std::string, SavedTensor>;

/// The name of a storage format in saved state.
[[nodiscard]] constexpr std::string_view saved_name(dtype t) noexcept {
  switch (t) {
    case dtype::fp32:
      return "F32";
    case dtype::fp16:
      return "F16";
    case dtype::bf16:
      return "BF16";
    case dtype::e4m3:
      return "F8_E4M3";
    case dtype::e5m2:
      return "F8_E5M2";
    case dtype::e4m3fnuz:
      return "F8_E4M3FNUZ";
    case dtype::e5m2fnuz:
      return "F8_E5M2FNUZ";
  }
  return "";
}
/// The storage format of a name in saved state; none for doubles, integers and unknown names.
[[nodiscard]] constexpr std::optional<dtype> saved_dtype(std::string_view type) noexcept {
  for (const dtype t :
       {dtype::fp32, dtype::fp16, dtype::bf16, dtype::e4m3, dtype::e5m2, dtype::e4m3fnuz, dtype::e5m2fnuz})
    if (saved_name(t) == type) return t;
  return std::nullopt;
}

namespace detail {
template <class T>
inline constexpr std::string_view saved_name_of = "";
template <>
inline constexpr std::string_view saved_name_of<float> = "F32";
template <>
inline constexpr std::string_view saved_name_of<double> = "F64";
template <>
inline constexpr std::string_view saved_name_of<std::int64_t> = "I64";

/// The entry of a key, checked.
/// throws  amp::error naming key, what it holds and what is wanted
inline const SavedTensor& saved_entry(const StateDict& state, const std::string& key, std::string_view type,
                                      std::size_t bytes, where at) {
  const auto it = state.find(key);
  expects(
      it != state.end(), [&] { return "the saved state lacks \"" + key + "\"; is it of another model or optimizer?"; },
      at);
  expects(
      it->second.type == type && it->second.bytes.size() == bytes,
      [&] {
        return "saved \"" + key + "\" holds " + std::to_string(it->second.bytes.size()) + " bytes of " +
               it->second.type + ", " + std::to_string(bytes) + " bytes of " + std::string(type) + " are wanted";
      },
      at);
  return it->second;
}
}  // namespace detail

/// Adds `values` under `key`; an empty shape is a scalar.
template <class T>
void save_values(StateDict& state, const std::string& key, std::span<const T> values, std::vector<std::int64_t> shape) {
  const auto bytes = std::as_bytes(values);
  state[key] = {std::string(detail::saved_name_of<T>), std::move(shape), {bytes.begin(), bytes.end()}};
}
template <class T>
void save_value(StateDict& state, const std::string& key, T value) {
  save_values<T>(state, key, {&value, 1}, {});
}

/// Copies the entry of `key` to `out`, bit for bit.
/// throws  amp::error if it is missing or of another type or size
template <class T>
void load_values(const StateDict& state, const std::string& key, std::span<T> out, where at = where::here()) {
  const auto& entry = detail::saved_entry(state, key, detail::saved_name_of<T>, out.size_bytes(), at);
  if (!out.empty()) std::memcpy(out.data(), entry.bytes.data(), out.size_bytes());
}
template <class T>
[[nodiscard]] T load_value(const StateDict& state, const std::string& key, where at = where::here()) {
  T value{};
  load_values<T>(state, key, {&value, 1}, at);
  return value;
}

}  // namespace amp
