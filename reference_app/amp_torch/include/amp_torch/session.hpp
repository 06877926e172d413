/// initialize: a session of the toolkit over a LibTorch module.
#pragma once
#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <amp/session.hpp>
#include <amp_torch/cast.hpp>
#include <amp_torch/exec.hpp>
#include <amp_torch/op_cast.hpp>
#include <amp_torch/params.hpp>
#include <concepts>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

/// A loss is widened before it is scaled: 65536 times a half would be infinite.
template <>
struct amp::loss_traits<at::Tensor> {
  [[nodiscard]] static at::Tensor scaled(const at::Tensor& loss, float scale) {
    const at::Tensor wide = loss.scalar_type() == at::kFloat ? loss : loss.to(at::kFloat);
    return scale == 1.F ? wide : wide.mul(scale);
  }
};

namespace torch::optim {
class Optimizer;  // torch_optim.hpp takes these
}

namespace amp_torch {

/// Options of initialize; with a policy other than the level's own: `init_options<amp::AnyScale>{.scale = ...}`.
template <amp::ScalePolicy Policy>
struct init_options {
  using policy_type = Policy;
  Policy scale = {};
  int num_losses = 1;
  std::int64_t max_consecutive_skips = 50;         ///< then scale_loss throws amp::diverged; 0: never
  std::function<void(std::string_view)> log = {};  ///< takes a line per change of a scale; else silence
  amp::exec::any exec = default_executor();        ///< where passes over the parameters run
  /// Modules that stay in fp32 at O2 and O3, besides the batch norms that the level keeps.
  std::function<bool(const std::string& name, const torch::nn::Module&)> keep_fp32 = {};
  bool allow_low = false;  ///< accept a model that comes in fp16 or bf16 already

  [[nodiscard]] amp::init_options<Policy> toolkit() const {
    return {.scale = scale,
            .num_losses = num_losses,
            .max_consecutive_skips = max_consecutive_skips,
            .log = log,
            .exec = exec};
  }
};

/// The parameters of a module that take a gradient, by name; one that is registered twice (tied) comes once.
[[nodiscard]] inline std::vector<NamedParam> trained_parameters(const torch::nn::Module& module) {
  std::vector<NamedParam> out;
  for (const auto& p : module.named_parameters()) {
    const auto same = [&](const NamedParam& other) { return other.tensor.is_same(p.value()); };
    if (p.value().requires_grad() && std::none_of(out.begin(), out.end(), same)) out.push_back({p.key(), p.value()});
  }
  return out;
}

namespace detail {

/// throws  amp::error naming the first floating parameter that is low already
inline void expect_fp32(const torch::nn::Module& module, amp::where at) {
  for (const auto& p : module.named_parameters()) {
    const auto type = p.value().scalar_type();
    amp::expects(
        type != at::kHalf && type != at::kBFloat16,
        [&] {
          return "the model comes in " + std::string(c10::toString(type)) + " already (" + quoted(p.key()) +
                 "); initialize casts it, so give it in fp32, or set allow_low";
        },
        at);
  }
}

/// One optimizer argument of initialize as groups of named parameters.
template <class Opt>
std::vector<ParamGroup<Opt>> named_groups(const torch::nn::Module& module, Opt optimizer) {
  static_assert(amp::Optimizer<Opt>, "amp: not an optimizer: it needs states, next_step(group) and functor(group)");
  return {{trained_parameters(module), std::move(optimizer)}};
}
template <amp::Optimizer Opt>
std::vector<ParamGroup<Opt>> named_groups(const torch::nn::Module&, std::vector<ParamGroup<Opt>> groups) {
  return groups;
}
template <amp::Optimizer Opt>
std::vector<ParamGroup<Opt>> named_groups(const torch::nn::Module&, ParamGroup<Opt> group) {
  return {std::move(group)};
}

template <class Opt>
struct optimizer_of : std::type_identity<Opt> {};
template <class Opt>
struct optimizer_of<ParamGroup<Opt>> : std::type_identity<Opt> {};
template <class Opt>
struct optimizer_of<std::vector<ParamGroup<Opt>>> : std::type_identity<Opt> {};

/// throws  amp::error naming a parameter that is no parameter of the module, or that two groups claim
template <class Opt>
void expect_own(const torch::nn::Module& module, const std::vector<ParamGroup<Opt>>& groups, amp::where at) {
  std::vector<const void*> own, seen;
  for (const auto& p : module.named_parameters()) own.push_back(p.value().unsafeGetTensorImpl());
  std::sort(own.begin(), own.end());
  for (const auto& group : groups) {
    for (const auto& [name, tensor] : group.params) {
      const void* impl = tensor.unsafeGetTensorImpl();
      amp::expects(
          std::binary_search(own.begin(), own.end(), impl),
          [&, n = name] {
            return quoted(n) + " of the optimizer is none of the module's: was the module copied or moved since?";
          },
          at);
      seen.push_back(impl);
    }
  }
  std::sort(seen.begin(), seen.end());
  amp::expects(std::adjacent_find(seen.begin(), seen.end()) == seen.end(), "a parameter stands in two groups", at);
}

template <class Opt>
std::vector<amp::GroupSpec<Opt>> group_specs(std::vector<ParamGroup<Opt>> groups, bool casts_ops, amp::where at) {
  std::vector<amp::GroupSpec<Opt>> specs;
  for (auto& group : groups) {
    specs.push_back({std::move(group.optimizer), std::make_shared<TorchParams>(std::move(group.params), casts_ops, at),
                     std::move(group.name)});
  }
  return specs;
}

}  // namespace detail

/// Casts the module in place as the level says.
/// throws  amp::error naming the parameter that is low already
template <amp::OptLevel L, class Options>
void prepare_model(torch::nn::Module& module, const Options& options, amp::where at = amp::where::here()) {
  if constexpr (L.enabled && L.cast != amp::casting::none) {
    if (!options.allow_low) detail::expect_fp32(module, at);
  }
  if constexpr (L.enabled && L.cast == amp::casting::model) {
    cast_model(module, to_torch(L.compute), {.keep_batchnorm_fp32 = L.fp32_norms, .keep_fp32 = options.keep_fp32});
  }
}

/// Casts the module in place as the level says and gives the session that trains it. The module comes in fp32 and must
/// outlive the session. `optimizer`: an amp::Optimizer for all trained parameters, a ParamGroup or a vector of them.
/// Usage: `auto session = amp_torch::initialize<amp::O2>(*net, amp::Adam{.lr = 1e-3});`
/// throws  amp::error naming the parameter: low already, of a type that is not stepped, or not the module's
template <amp::OptLevel L, std::derived_from<torch::nn::Module> Net, class Opt,
          class Options = init_options<amp::level_policy<L>>>
requires(!std::derived_from<Opt, torch::optim::Optimizer>) auto initialize(Net& module, Opt optimizer,
                                                                           Options options = {},
                                                                           amp::where at = amp::where::here()) {
  using Step = typename detail::optimizer_of<Opt>::type;
  auto groups = detail::named_groups(module, std::move(optimizer));
  detail::expect_own(module, groups, at);
  prepare_model<L>(module, options, at);
  const auto build = [&](std::reference_wrapper<Net>&) {
    return std::tuple{detail::group_specs(std::move(groups), L.cast == amp::casting::op, at)};
  };
  return amp::Session<L, std::reference_wrapper<Net>, typename Options::policy_type, Step>(
      std::ref(module), options.toolkit(), build, at);
}

/// The region in which a level's forward pass runs: casts per operation at O1, nothing elsewhere.
/// Usage: `const auto region = amp_torch::forward_region<amp::O1>();`
template <amp::OptLevel L>
[[nodiscard]] OpCast forward_region() {
  if constexpr (L.enabled && L.cast == amp::casting::op) {
    return OpCast(to_torch(L.compute));
  } else {
    return OpCast();
  }
}

}  // namespace amp_torch
