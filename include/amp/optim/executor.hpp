/// An executor chosen at run time.
#pragma once
#include <amp/apply/exec.hpp>
#include <amp/simd/target.hpp>
#include <concepts>
#include <cstdint>
#include <functional>
#include <utility>

namespace amp::exec {

/// Any host executor behind one type, so that what holds one is no template of it: `exec::any e = exec::threads(4);`
/// The cost is one indirect call per pass over all tensors.
class any {
 public:
  template <HostExecutor E>
  requires(!std::same_as<E, any>) any(E executor)  // NOLINT: conversion is the purpose
      : chunk(executor.chunk), fused(executor.fused), isa_(executor.isa()) {
    run_ = [held = std::move(executor)](std::int64_t items, std::int64_t elements, apply::task_ref task) {
      held.run(items, elements, task);
    };
  }

  std::int64_t chunk;
  bool fused;

  [[nodiscard]] simd::target isa() const noexcept { return isa_; }
  void run(std::int64_t items, std::int64_t elements, apply::task_ref task) const { run_(items, elements, task); }

 private:
  simd::target isa_;
  std::function<void(std::int64_t, std::int64_t, apply::task_ref)> run_;
};

static_assert(HostExecutor<any>);

}  // namespace amp::exec
