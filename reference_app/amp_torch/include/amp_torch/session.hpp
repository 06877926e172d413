/// initialize: a session of the toolkit over a LibTorch module.
#pragma once
#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <amp/session.hpp>
#include <amp_torch/cast.hpp>
#include <amp_torch/exec.hpp>
#include <amp_torch/forward.hpp>
#include <amp_torch/models.hpp>
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
  std::function<bool(bool)> any_reduce = {};       ///< the overflow flag over ranks, see amp::init_options
  amp::storage_options storage = {};               ///< how masters and moments are kept
  bool count_overflow = true;                      ///< after an overflow, count inf and NaN per parameter
  /// Modules that stay in fp32 at O2 and O3, besides the batch norms that the level keeps.
  std::function<bool(const std::string& name, const torch::nn::Module&)> keep_fp32 = {};
  bool allow_low = false;  ///< accept a model that comes in fp16 or bf16 already

  [[nodiscard]] amp::init_options<Policy> toolkit() const {
    return {.scale = scale,
            .num_losses = num_losses,
            .max_consecutive_skips = max_consecutive_skips,
            .log = log,
            .exec = exec,
            .any_reduce = any_reduce,
            .after_backward = [] { OpCast::clear_cache(); },
            .storage = storage,
            .count_overflow = count_overflow};
  }
};

namespace detail {

/// One optimizer argument of initialize as groups of named parameters; a plain optimizer takes all of `all`.
template <class Opt>
std::vector<ParamGroup<Opt>> named_groups(const std::vector<NamedParam>& all, Opt optimizer) {
  static_assert(amp::Optimizer<Opt>, "amp: not an optimizer: it needs states, next_step(group) and functor(group)");
  return {{all, std::move(optimizer)}};
}
template <amp::Optimizer Opt>
std::vector<ParamGroup<Opt>> named_groups(const std::vector<NamedParam>&, std::vector<ParamGroup<Opt>> groups) {
  return groups;
}
template <amp::Optimizer Opt>
std::vector<ParamGroup<Opt>> named_groups(const std::vector<NamedParam>&, ParamGroup<Opt> group) {
  return {std::move(group)};
}

template <class Opt>
struct optimizer_of : std::type_identity<Opt> {};
template <class Opt>
struct optimizer_of<ParamGroup<Opt>> : std::type_identity<Opt> {};
template <class Opt>
struct optimizer_of<std::vector<ParamGroup<Opt>>> : std::type_identity<Opt> {};

template <class Opt>
std::vector<amp::GroupSpec<Opt>> group_specs(std::vector<ParamGroup<Opt>> groups, amp::where at) {
  std::vector<amp::GroupSpec<Opt>> specs;
  for (auto& group : groups) {
    specs.push_back({std::move(group.optimizer), std::make_shared<TorchParams>(std::move(group.params), at),
                     std::move(group.name)});
  }
  return specs;
}

/// The parameters that the I-th of several plain optimizers steps: those of the I-th model.
template <std::size_t Optimizers, class Models>
std::vector<NamedParam> trained_by(std::size_t index, const Models& models, amp::where at) {
  const ModelList all = list_of(models);
  if (Optimizers == 1) return trained_parameters(all);
  amp::expects(all.size() == Optimizers,
               "several optimizers over another number of models: give ParamGroups that say whose parameters are whose",
               at);
  return trained_parameters({all[index]});
}

}  // namespace detail

/// Casts the models in place as the level says.
/// throws  amp::error naming the parameter that is low already, or the model that is wrapped
template <amp::OptLevel L, class Models, class Options>
void prepare_models(const Models& models, const Options& options, amp::where at = amp::where::here()) {
  for (const auto& [prefix, module] : detail::list_of(models)) {
    detail::expect_unwrapped(*module, at);
    if constexpr (L.enabled && L.cast != amp::casting::none) {
      if (!options.allow_low) detail::expect_fp32(*module, at, prefix);
    }
    if constexpr (L.enabled && L.cast == amp::casting::model) {
      cast_model(*module, to_torch(L.compute), {.keep_batchnorm_fp32 = L.fp32_norms, .keep_fp32 = options.keep_fp32});
    }
  }
}

/// Casts the models in place as the level says and gives the session that trains them. They come in fp32, before any
/// wrapper for parallel work, and must outlive the session.
/// models      a module, `std::tie(a, b)`, or a std::vector of std::shared_ptr: session.model() gives the same back
/// optimizers  an amp::Optimizer for all trained parameters, a ParamGroup, a vector of them, or a std::tuple of these;
///             plain optimizers in a tuple belong to the models at the same places
/// Usage: `auto session = amp_torch::initialize<amp::O2>(*net, amp::Adam{.lr = 1e-3});`
/// throws  amp::error naming the parameter: low already, of a type that is not stepped, none of the models', or in two
///         groups
template <amp::OptLevel L, class Models, class Opt, class Options = init_options<amp::level_policy<L>>>
requires ModelArgument<Models> &&(!std::derived_from<std::remove_cvref_t<Opt>, torch::optim::Optimizer>)auto initialize(
    Models&& models, Opt optimizers, Options options = {}, amp::where at = amp::where::here()) {
  static_assert(!is_parallel_wrapper<std::remove_cvref_t<Models>>,
                "amp: initialize takes the model before any wrapper for parallel work; wrap it afterwards");
  auto tuple = [&] {
    if constexpr (detail::is_std_tuple<Opt>) {
      return std::move(optimizers);
    } else {
      return std::tuple<Opt>(std::move(optimizers));
    }
  }();
  auto held = detail::held_models(models);
  return [&]<class... One, std::size_t... I>(std::tuple<One...>& given, std::index_sequence<I...>) {
    auto groups = std::tuple{
        detail::named_groups(detail::trained_by<sizeof...(One)>(I, held, at), std::move(std::get<I>(given)))...};
    detail::OwnParameters own(detail::list_of(held));
    (own.claim(std::get<I>(groups), at), ...);
    prepare_models<L>(held, options, at);
    const auto build = [&](auto&) { return std::tuple{detail::group_specs(std::move(std::get<I>(groups)), at)...}; };
    return amp::Session<L, decltype(held), typename Options::policy_type, typename detail::optimizer_of<One>::type...>(
        std::move(held), options.toolkit(), build, at);
  }(tuple, std::make_index_sequence<std::tuple_size_v<decltype(tuple)>>{});
}

}  // namespace amp_torch
