/// Matrices with storage in any format and any stride, executors of every kind, and comparisons, for tests of layers.
#pragma once
#include <amp/apply/exec.hpp>
#include <amp/half_traits.hpp>
#include <amp/optim/executor.hpp>
#include <amp/simd/target.hpp>
#include <amp/tensor/matrix.hpp>
#include <amp/tensor/view.hpp>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

namespace test_nn {

using amp::dtype;

/// Repeatable values in [-1, 1).
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed * 2654435761u + 1) {}
  float uniform() {
    state_ = state_ * 6364136223846793005u + 1442695040888963407u;
    return static_cast<float>(static_cast<std::int32_t>(state_ >> 32)) * 0x1p-31f;
  }

 private:
  std::uint64_t state_;
};

/// Rows with `gap` elements between them, the first `shift` elements into a buffer of guard bytes.
class Matrix {
 public:
  Matrix(std::int64_t rows, std::int64_t columns, dtype type = dtype::fp32, std::int64_t gap = 0,
         std::int64_t shift = 0)
      : rows_(rows), columns_(columns), stride_(columns + gap), shift_(shift), type_(type) {
    bytes_.assign(static_cast<std::size_t>(shift + rows * stride_ + 1) * amp::size_of(type), 0x3a);
  }

  Matrix& random(std::uint64_t seed, float scale = 1.f, float offset = 0.f) {
    Random values(seed);
    for (std::int64_t r = 0; r < rows_; ++r) {
      for (std::int64_t c = 0; c < columns_; ++c) set(r, c, values.uniform() * scale + offset);
    }
    return *this;
  }
  Matrix& fill(float value) {
    for (std::int64_t r = 0; r < rows_; ++r) {
      for (std::int64_t c = 0; c < columns_; ++c) set(r, c, value);
    }
    return *this;
  }
  void set(std::int64_t r, std::int64_t c, float value) {
    amp::visit(type_, [&]<class T>(std::type_identity<T>) {
      const T low(value);
      std::memcpy(bytes_.data() + at_byte(r, c), &low, sizeof(T));
    });
  }
  [[nodiscard]] double at(std::int64_t r, std::int64_t c) const {
    return amp::visit(type_, [&]<class T>(std::type_identity<T>) -> double {
      T low{};
      std::memcpy(&low, bytes_.data() + at_byte(r, c), sizeof(T));
      return static_cast<double>(static_cast<float>(low));
    });
  }
  [[nodiscard]] double operator[](std::int64_t i) const { return at(i / columns_, i % columns_); }

  [[nodiscard]] amp::matrix_view view() {
    return {bytes_.data() + static_cast<std::size_t>(shift_) * amp::size_of(type_),
            rows_,
            columns_,
            stride_,
            type_,
            false,
            {}};
  }
  [[nodiscard]] amp::tensor_view vector() { return {view().data, columns_, type_, false, {}}; }
  [[nodiscard]] std::int64_t rows() const { return rows_; }
  [[nodiscard]] std::int64_t columns() const { return columns_; }
  /// Everything, with the guards: equal only if nothing else was written either.
  [[nodiscard]] const std::vector<unsigned char>& bytes() const { return bytes_; }
  [[nodiscard]] bool gaps_intact() const {
    std::vector<bool> written(bytes_.size(), false);
    for (std::int64_t r = 0; r < rows_; ++r) {
      for (std::size_t b = 0; b < static_cast<std::size_t>(columns_) * amp::size_of(type_); ++b)
        written[at_byte(r, 0) + b] = true;
    }
    for (std::size_t b = 0; b < bytes_.size(); ++b) {
      if (!written[b] && bytes_[b] != 0x3a) return false;
    }
    return true;
  }

 private:
  [[nodiscard]] std::size_t at_byte(std::int64_t r, std::int64_t c) const {
    return static_cast<std::size_t>(shift_ + r * stride_ + c) * amp::size_of(type_);
  }
  std::int64_t rows_, columns_, stride_, shift_;
  dtype type_;
  std::vector<unsigned char> bytes_;
};

/// Every target this processor has, and threads; the first is the scalar reference.
struct NamedExecutor {
  std::string name;
  amp::exec::any run;
};
inline std::vector<NamedExecutor> executors() {
  using amp::simd::target;
  std::vector<NamedExecutor> all{{"scalar", amp::exec::scalar{}}};
  for (const target t : {target::base, target::avx2, target::avx512}) {
    if (amp::simd::supported(t)) all.push_back({std::string(amp::simd::name(t)), amp::exec::vectorized{.target = t}});
  }
  all.push_back({"3 threads", amp::exec::threads(3)});
  return all;
}
inline amp::exec::any best() { return amp::exec::vectorized{}; }

/// Half a unit in the last place of a format, relative, with a little room.
inline double rounding(dtype type) {
  return amp::visit(
      type, [&]<class T>(std::type_identity<T>) { return 0.51 * static_cast<double>(amp::half_traits<T>::epsilon); });
}
/// The largest |got - expected| / (1 + |expected|).
template <class Expected>
double worst(const Matrix& got, const Expected& expected) {
  double most = 0;
  for (std::int64_t r = 0; r < got.rows(); ++r) {
    for (std::int64_t c = 0; c < got.columns(); ++c) {
      const double want = expected(r, c), off = std::abs(got.at(r, c) - want) / (1 + std::abs(want));
      most = off <= most ? most : (std::isnan(off) ? 1e300 : off);
    }
  }
  return most;
}

}  // namespace test_nn
