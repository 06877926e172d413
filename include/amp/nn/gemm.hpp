/// Matrix products of any formats with an epilogue: our own blocked kernel, and the interface of libraries in its
/// place.
#pragma once
#include <algorithm>
#include <amp/apply/exec.hpp>
#include <amp/nn/epilogue.hpp>
#include <amp/nn/gemm_kernels.hpp>
#include <amp/nn/rows.hpp>
#include <amp/simd/target.hpp>
#include <amp/tensor/matrix.hpp>
#include <concepts>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace amp::nn {

/// A factor of a product: a matrix, turned or not, and for fp8 the number that its values are to be multiplied by.
struct operand {
  matrix_view matrix;
  bool transposed = false;
  float scale = 1.f;  ///< dequantisation: inverse of the quantiser's scale

  [[nodiscard]] std::int64_t rows() const noexcept { return transposed ? matrix.columns : matrix.rows; }
  [[nodiscard]] std::int64_t columns() const noexcept { return transposed ? matrix.rows : matrix.columns; }
};
[[nodiscard]] inline operand plain(const matrix_view& m, float scale = 1.f) noexcept { return {m, false, scale}; }
[[nodiscard]] inline operand transposed(const matrix_view& m, float scale = 1.f) noexcept { return {m, true, scale}; }

/// How long one chain of fp32 additions may be before it is added to the result: 256, or 64 for long sums in fp8.
enum class accumulation : std::uint8_t { fast, split };

/// Scratch memory of products. One may be kept and passed to every call, of any size, from one thread at a time.
class Workspace {
 public:
  Workspace() = default;
  Workspace(const Workspace&) = delete;  // tasks hold its address
  Workspace& operator=(const Workspace&) = delete;

  /// At least `slots` buffers of `floats` floats: all memory is taken here, none while tasks run.
  void reserve(std::size_t slots, std::size_t floats) {
    if (floats > floats_) buffers_.clear(), floats_ = floats;
    while (buffers_.size() < slots) buffers_.emplace_back(new float[floats_]);
    free_.clear();
    free_.reserve(buffers_.size());
    for (const auto& buffer : buffers_) free_.push_back(buffer.get());
  }
  /// A free buffer; waits for one if more tasks run than were expected.
  float* take() {
    std::unique_lock lock(mutex_);
    returned_.wait(lock, [&] { return !free_.empty(); });
    float* const buffer = free_.back();
    free_.pop_back();
    return buffer;
  }
  void give(float* buffer) {
    {
      const std::lock_guard lock(mutex_);
      free_.push_back(buffer);
    }
    returned_.notify_one();
  }

 private:
  std::vector<std::unique_ptr<float[]>> buffers_;
  std::vector<float*> free_;
  std::size_t floats_ = 0;
  std::mutex mutex_;
  std::condition_variable returned_;
};

struct gemm_options {
  accumulation accumulate = accumulation::fast;
  Workspace* workspace = nullptr;  ///< null: memory of the call
};

/// op(a) [m, k] times op(b) [k, n].
struct gemm_problem {
  operand a, b;
  std::int64_t m, n, k;
};

/// A library's product: writes op(a) op(b), scales included, to an fp32 matrix, or returns false for what it does not
/// take (formats, shapes); then our own kernel does it.
template <class B>
concept GemmBackend = requires(const B& backend, const gemm_problem& problem, const matrix_view& c) {
  { backend.multiply(problem, c) } -> std::same_as<bool>;
};
/// Our own kernel, with the epilogue on each tile while it is in cache.
struct blocked {
  static constexpr bool multiply(const gemm_problem& /*problem*/, const matrix_view& /*c*/) noexcept { return false; }
};

namespace detail {
template <class E>
std::size_t concurrency(const E& executor) {
  if constexpr (std::same_as<E, exec::scalar> || std::same_as<E, exec::vectorized>) {
    return 1;
  } else if constexpr (requires { executor.size(); }) {
    return static_cast<std::size_t>(executor.size());
  } else {
    return std::max<std::size_t>(1, std::thread::hardware_concurrency());
  }
}
}  // namespace detail

template <class Epilogue>
struct gemm_tile {
  struct args {
    const gemm_problem& problem;
    matrix_view y;
    const Epilogue& epilogue;
    std::int64_t block_k, column_tiles;
    Workspace& workspace;
  };
  static constexpr std::int64_t a_floats = blocked_gemm::tile_rows * blocked_gemm::block_k,
                                b_floats = blocked_gemm::tile_columns * blocked_gemm::block_k,
                                c_floats = blocked_gemm::tile_rows * blocked_gemm::tile_columns;

  template <class V>
  AMP_INLINE static void run(const args& g, std::int64_t item) {
    using namespace blocked_gemm;
    using shape = register_tile<V>;
    const gemm_problem& p = g.problem;
    const std::int64_t i = item / g.column_tiles * tile_rows, j = item % g.column_tiles * tile_columns;
    const std::int64_t rows = std::min(tile_rows, p.m - i), columns = std::min(tile_columns, p.n - j);
    float* const a = g.workspace.take();
    float *const b = a + a_floats, *const c = b + b_floats;
    if (p.k == 0) std::fill(c, c + c_floats, 0.f);
    for (std::int64_t k = 0; k < p.k; k += g.block_k) {
      const std::int64_t depth = std::min(g.block_k, p.k - k);
      simd::call_kernel<V, pack_kernel, const pack_args&>(
          pack_args{p.a.matrix, !p.a.transposed, i, rows, k, depth, shape::rows, a});
      simd::call_kernel<V, pack_kernel, const pack_args&>(
          pack_args{p.b.matrix, p.b.transposed, j, columns, k, depth, shape::columns, b});
      simd::call_kernel<V, multiply_kernel, const multiply_args&>(
          multiply_args{a, b, rows, columns, depth, c, tile_columns, k > 0});
    }
    const float scale = p.a.scale * p.b.scale;
    for (std::int64_t r = 0; r < rows; ++r) {
      float* const row = c + r * tile_columns;
      if (scale != 1.f) scaled{scale}.run<V>(row, i + r, j, columns);
      g.epilogue.template run<V>(row, i + r, j, columns);
      apply::encode<V>(row, columns, g.y.flat(), (i + r) * g.y.stride + j);
    }
    g.workspace.give(a);
  }
};

/// y = epilogue(op(a) op(b)), by a library where it takes the problem, else by our own kernel.
/// shape   op(a) [m, k], op(b) [k, n], y [m, n]; any of them 0, any stride, any start. k = 0: the epilogue of zeros
/// types   any formats, all free; products and sums in fp32 (fma), one rounding at the store
/// bits    our own kernel: equal for every executor, target and thread count
/// throws  amp::error for shapes that do not fit. y must not overlap a or b; an epilogue may read y (`residual{y}`).
template <exec::HostExecutor E, class Epilogue = epilogue<>, GemmBackend B = blocked>
void gemm(const E& executor, const matrix_view& y, const operand& a, const operand& b, const Epilogue& f = {},
          const B& backend = {}, const gemm_options& options = {}, where at = where::here()) {
  const gemm_problem problem{a, b, a.rows(), b.columns(), a.columns()};
  expects_matrix(a.matrix, a.matrix.rows, a.matrix.columns, "a", false, at);
  expects_matrix(b.matrix, b.matrix.rows, b.matrix.columns, "b", false, at);
  expects(
      b.rows() == problem.k,
      [&] {
        return "a has " + std::to_string(problem.k) + " columns, but b has " + std::to_string(b.rows()) +
               " rows (after turning them)";
      },
      at);
  expects_matrix(y, problem.m, problem.n, "y", true, at);
  if (problem.m == 0 || problem.n == 0) return;
  if constexpr (!std::same_as<B, blocked>) {
    if (problem.k > 0) {
      const std::unique_ptr<float[]> product(new float[static_cast<std::size_t>(problem.m * problem.n)]);
      const matrix_view c = as_matrix(product.get(), problem.m, problem.n);
      if (backend.multiply(problem, c)) return apply_epilogue(executor, y, c, f, at);
    }
  }
  using tile = gemm_tile<Epilogue>;
  Workspace own;
  Workspace& workspace = options.workspace == nullptr ? own : *options.workspace;
  const std::int64_t columns = (problem.n - 1) / blocked_gemm::tile_columns + 1;
  const std::int64_t items = ((problem.m - 1) / blocked_gemm::tile_rows + 1) * columns;
  workspace.reserve(std::min(detail::concurrency(executor), static_cast<std::size_t>(items)),
                    static_cast<std::size_t>(tile::a_floats + tile::b_floats + tile::c_floats));
  run_items<tile>(
      executor, items, problem.m * problem.n * std::max<std::int64_t>(1, problem.k / 8),
      typename tile::args{problem, y, f, options.accumulate == accumulation::split ? 64 : blocked_gemm::block_k,
                          columns, workspace});
}

}  // namespace amp::nn
