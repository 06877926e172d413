/// A matrix as the layers see it: rows of a format known at run time, any distance between them; owns nothing.
#pragma once
#include <amp/core/check.hpp>
#include <amp/core/dtype.hpp>
#include <amp/half_traits.hpp>
#include <amp/tensor/view.hpp>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

namespace amp {

/// Row-major: element (r, c) lies `r * stride + c` elements behind `data`. `name` (optional) appears in errors.
struct matrix_view {
  void* data = nullptr;
  std::int64_t rows = 0, columns = 0;
  std::int64_t stride = 0;  ///< elements from row to row, at least `columns`
  dtype type = dtype::fp32;
  bool readonly = false;
  std::string_view name = {};

  /// The whole storage as the engine takes it; offsets are `r * stride + c`.
  [[nodiscard]] tensor_view flat() const noexcept { return {data, rows * stride, type, readonly, name}; }
};

/// A matrix over `data`, of any type with the layout of one of our formats; const data is read-only. `stride` 0: dense.
template <class T>
requires LayoutCompatible<T>
[[nodiscard]] matrix_view as_matrix(T* data, std::int64_t rows, std::int64_t columns, std::int64_t stride = 0,
                                    std::string_view name = {}) noexcept {
  return {const_cast<std::remove_const_t<T>*>(data),
          rows,
          columns,
          stride == 0 ? columns : stride,
          dtype_of<std::remove_const_t<T>>,
          std::is_const_v<T>,
          name};
}
/// A dense matrix over a tensor whose size is a multiple of `columns`.
[[nodiscard]] inline matrix_view as_matrix(const tensor_view& t, std::int64_t columns) noexcept {
  return {t.data, columns > 0 ? t.size / columns : 0, columns, columns, t.type, t.readonly, t.name};
}

/// throws  amp::error unless the matrix has this shape, a stride of at least its columns, and is writable if asked
inline void expects_matrix(const matrix_view& m, std::int64_t rows, std::int64_t columns, std::string_view what,
                           bool written, where at) {
  const auto label = [&] { return std::string(m.name.empty() ? what : m.name); };
  const auto shape = [](std::int64_t r, std::int64_t c) { return std::to_string(r) + " x " + std::to_string(c); };
  expects(
      m.rows == rows && m.columns == columns,
      [&] { return label() + " is " + shape(m.rows, m.columns) + ", but " + shape(rows, columns) + " is needed"; }, at);
  expects(
      m.stride >= m.columns || m.rows < 2,
      [&] {
        return label() + " has stride " + std::to_string(m.stride) + " below its " + std::to_string(m.columns) +
               " columns; rows must not overlap";
      },
      at);
  expects(
      !written || !m.readonly, [&] { return label() + " is read-only, but it is an output"; }, at);
  expects(
      m.data != nullptr || rows == 0 || columns == 0, [&] { return label() + " has no data"; }, at);
}

}  // namespace amp
