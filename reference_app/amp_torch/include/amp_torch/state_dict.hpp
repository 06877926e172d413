/// A module's tensors by name, always in fp32, and loading them into a module of any level.
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/core/GradMode.h>
#include <torch/nn/module.h>

#include <amp/core/check.hpp>
#include <map>
#include <string>
#include <vector>

namespace amp_torch {

/// Tensors by name.
using StateDict = std::map<std::string, at::Tensor>;

/// Parameters and buffers of a module by name, aliasing the module's own tensors.
[[nodiscard]] inline StateDict named_tensors(const torch::nn::Module& module) {
  StateDict out;
  for (const auto& p : module.named_parameters()) out.emplace(p.key(), p.value());
  for (const auto& b : module.named_buffers()) out.emplace(b.key(), b.value());
  return out;
}

/// The module's state as every level shows it: copies, low tensors widened to fp32, names unchanged, integers as they
/// are. A file made of it loads into a model of any level.
[[nodiscard]] inline StateDict state_dict(const torch::nn::Module& module) {
  StateDict out;
  for (const auto& [name, t] : named_tensors(module)) {
    const bool low = t.scalar_type() == at::kHalf || t.scalar_type() == at::kBFloat16;
    out.emplace(name, t.detach().to(low ? at::kFloat : t.scalar_type(), /*non_blocking=*/false, /*copy=*/true,
                                    at::MemoryFormat::Contiguous));
  }
  return out;
}

/// What did not find its counterpart.
struct load_report {
  std::vector<std::string> missing;     ///< tensors of the module that the state lacks
  std::vector<std::string> unexpected;  ///< tensors of the state that the module lacks
  std::size_t loaded = 0;
};

/// Copies a state into a module, rounding each tensor to the module's type.
/// With `strict` nothing may be missing or unexpected, and nothing is written before that is known.
/// throws  amp::error naming the tensor: a shape that differs; with `strict` a name without counterpart
inline load_report load_state_dict(torch::nn::Module& module, const StateDict& state, bool strict = true,
                                   amp::where at = amp::where::here()) {
  const StateDict own = named_tensors(module);
  load_report report;
  for (const auto& [name, t] : own) {
    const auto found = state.find(name);
    if (found == state.end()) {
      report.missing.push_back(name);
      continue;
    }
    amp::expects(
        found->second.sizes() == t.sizes(), [&] { return "state_dict: the shape of \"" + name + "\" differs"; }, at);
  }
  for (const auto& [name, t] : state) {
    if (!own.contains(name)) report.unexpected.push_back(name);
  }
  amp::expects(
      !strict || report.missing.empty(),
      [&] { return "state_dict lacks \"" + report.missing.front() + "\"; load with strict = false to allow that"; },
      at);
  amp::expects(
      !strict || report.unexpected.empty(),
      [&] {
        return "state_dict holds \"" + report.unexpected.front() +
               "\", which the module lacks; load with strict = false to allow that";
      },
      at);
  const c10::AutoGradMode no_grad(false);
  for (const auto& [name, t] : own) {
    const auto found = state.find(name);
    if (found == state.end()) continue;
    t.copy_(found->second);
    ++report.loaded;
  }
  return report;
}

}  // namespace amp_torch
