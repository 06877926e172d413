/// The executor that shares LibTorch's threads.
#pragma once
#include <amp/apply/exec.hpp>
#include <amp/optim/executor.hpp>

#if AMP_TORCH_OPENMP  // set by the target amp::torch, so that all files of a program agree
#include <amp/adapters/openmp.hpp>
#endif

namespace amp_torch {

/// OpenMP, whose threads LibTorch's own kernels use; one thread where the toolkit was built without it.
[[nodiscard]] inline amp::exec::any default_executor() {
#if AMP_TORCH_OPENMP
  return amp::exec::openmp{};
#else
  return amp::exec::vectorized{};
#endif
}

}  // namespace amp_torch
