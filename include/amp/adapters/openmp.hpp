/// exec::openmp: work items on OpenMP threads. A program that links another library on the same OpenMP runtime
/// (LibTorch on libgomp) then has one set of threads. Opt-in: needs -fopenmp, which the target amp::openmp brings.
#pragma once
#include <amp/apply/exec.hpp>
#include <amp/apply/plan.hpp>
#include <amp/core/check.hpp>
#include <amp/simd/target.hpp>
#include <cstdint>

#if !defined(_OPENMP)
#error "amp: <amp/adapters/openmp.hpp> needs OpenMP: link amp::openmp or compile with -fopenmp"
#endif
#include <omp.h>

namespace amp::exec {

/// Vectors on OpenMP threads: one parallel region per call, chunks handed out dynamically; small lists stay serial.
struct openmp {
  int threads = 0;  ///< 0: what omp_get_max_threads says at the call
  std::int64_t chunk = apply::default_chunk;
  simd::target target = simd::target::best;
  bool fused = true;

  [[nodiscard]] simd::target isa() const noexcept { return target; }
  void run(std::int64_t items, std::int64_t elements, apply::task_ref task) const {
    const int team = threads > 0 ? threads : omp_get_max_threads();
    if (elements < serial_below || items < 2 || team < 2) {
      for (std::int64_t i = 0; i < items; ++i) task(i);
      return;
    }
#pragma omp parallel for schedule(dynamic) num_threads(team)
    for (std::int64_t i = 0; i < items; ++i) task(i);
  }
};

}  // namespace amp::exec
