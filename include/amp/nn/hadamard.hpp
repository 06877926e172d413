/// The 16-point Hadamard rotation: spreads an outlier over its block before rounding to few bits.
#pragma once
#include <amp/core/check.hpp>
#include <amp/core/config.hpp>
#include <cstdint>

namespace amp::nn {

/// x <- H D x / 4 for 16 values that lie `stride` apart; bit k of `signs` is set where D negates x[k]. H is the
/// Sylvester matrix, H / 4 is orthogonal and symmetric. Additions in a fixed order, fp32.
/// source  NVIDIA 2025 (arXiv:2509.25149), random Hadamard transforms
AMP_HD constexpr void hadamard16(float* x, std::int64_t stride = 1, std::uint16_t signs = 0) {
  for (int k = 0; k < 16; ++k) {
    if (((signs >> k) & 1u) != 0) x[k * stride] = -x[k * stride];
  }
  for (int half = 1; half < 16; half *= 2) {
    for (int k = 0; k < 16; ++k) {
      if ((k & half) != 0) continue;
      const float a = x[k * stride], b = x[(k + half) * stride];
      x[k * stride] = a + b;
      x[(k + half) * stride] = a - b;
    }
  }
  for (int k = 0; k < 16; ++k) x[k * stride] *= 0.25f;
}
/// Takes it back: x <- D H x / 4.
AMP_HD constexpr void inverse_hadamard16(float* x, std::int64_t stride = 1, std::uint16_t signs = 0) {
  hadamard16(x, stride);
  for (int k = 0; k < 16; ++k) {
    if (((signs >> k) & 1u) != 0) x[k * stride] = -x[k * stride];
  }
}

/// Rotates every 16 rows of a dense fp32 matrix; rows that are left over stay. Two matrices turned alike have the same
/// product over their rows.
inline void rotate_rows(float* x, std::int64_t rows, std::int64_t columns, std::uint16_t signs = 0) {
  for (std::int64_t r = 0; r + 16 <= rows; r += 16) {
    for (std::int64_t c = 0; c < columns; ++c) hadamard16(x + r * columns + c, columns, signs);
  }
}

}  // namespace amp::nn
