/// Low floats as text: a short decimal that reads back as the same value. (A stream prints them as the float that
/// they convert to.)
#pragma once
#include <amp/formats/convert.hpp>
#include <array>
#include <charconv>
#include <limits>
#include <string>
#include <system_error>

namespace amp {

/// Writes `0.1` for the half nearest to it, `448`, `-inf`, `nan`; as std::to_chars does for float.
template <class T>
requires detail::LowFloat<T>
inline std::to_chars_result to_chars(char* first, char* last, T value) {
  const float exact = value;
  const bool small_integer = exact > -1e6f && exact < 1e6f && exact == static_cast<float>(static_cast<int>(exact));
  if (!(exact - exact == 0.f) || small_integer) return std::to_chars(first, last, exact);  // 448, not 450; inf, nan
  for (int digits = 1;; ++digits) {
    const auto result = std::to_chars(first, last, exact, std::chars_format::general, digits);
    if (result.ec != std::errc{} || digits == std::numeric_limits<T>::max_digits10) return result;
    double back = 0;
    std::from_chars(first, result.ptr, back);
    if (T(back) == value) return result;
  }
}
template <class T>
requires detail::LowFloat<T>
[[nodiscard]] inline std::string to_string(T value) {
  std::array<char, 32> buffer;
  return {buffer.data(), to_chars(buffer.data(), buffer.data() + buffer.size(), value).ptr};
}

}  // namespace amp
