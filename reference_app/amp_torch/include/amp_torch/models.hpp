/// One LibTorch module or several, as initialize takes them.
#pragma once
#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <algorithm>
#include <amp/core/check.hpp>
#include <amp_torch/params.hpp>
#include <concepts>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace amp_torch {

/// True for a wrapper for parallel work, which initialize refuses: it takes the model inside. Specialise for yours;
/// classes named DataParallel or DistributedDataParallel are refused at run time besides.
template <class Net>
inline constexpr bool is_parallel_wrapper = false;

namespace detail {

template <class>
inline constexpr bool is_std_tuple = false;
template <class... T>
inline constexpr bool is_std_tuple<std::tuple<T...>> = true;
template <class>
inline constexpr bool is_module_list = false;
template <class... T>
inline constexpr bool is_module_list<std::tuple<T&...>> = (std::derived_from<T, torch::nn::Module> && ...);
template <std::derived_from<torch::nn::Module> T>
inline constexpr bool is_module_list<std::vector<std::shared_ptr<T>>> = true;

/// A module with what its parameters' names begin with: nothing, or its number where there are several.
struct NamedModel {
  std::string prefix;
  torch::nn::Module* module;
};
using ModelList = std::vector<NamedModel>;

/// What the session holds: a reference for one module, the list itself for several.
template <std::derived_from<torch::nn::Module> Net>
std::reference_wrapper<Net> held_models(Net& net) {
  return net;
}
template <class List>
requires is_module_list<List> List held_models(const List& list) { return list; }

template <class Net>
ModelList list_of(const std::reference_wrapper<Net>& net) {
  return {{"", &net.get()}};
}
inline ModelList numbered(std::vector<torch::nn::Module*> modules) {
  ModelList all;
  for (auto* m : modules) all.push_back({modules.size() == 1 ? "" : std::to_string(all.size()) + '.', m});
  return all;
}
template <class... Net>
ModelList list_of(const std::tuple<Net&...>& nets) {
  return std::apply([](auto&... net) { return numbered({static_cast<torch::nn::Module*>(&net)...}); }, nets);
}
template <class Net>
ModelList list_of(const std::vector<std::shared_ptr<Net>>& nets) {
  std::vector<torch::nn::Module*> modules;
  for (const auto& net : nets) modules.push_back(net.get());
  return numbered(std::move(modules));
}

/// throws  amp::error naming the class of a wrapper
inline void expect_unwrapped(const torch::nn::Module& module, amp::where at) {
  amp::expects(
      module.name().find("DataParallel") == std::string::npos,
      [&] { return "the model is wrapped in " + module.name() + "; initialize the model inside, then wrap it"; }, at);
}
/// throws  amp::error naming the first floating parameter that is low already
inline void expect_fp32(const torch::nn::Module& module, amp::where at, const std::string& prefix = {}) {
  for (const auto& p : module.named_parameters()) {
    const auto type = p.value().scalar_type();
    amp::expects(
        type != at::kHalf && type != at::kBFloat16,
        [&] {
          return "the model comes in " + std::string(c10::toString(type)) + " already (" + quoted(prefix + p.key()) +
                 "); initialize casts it, so give it in fp32, or set allow_low";
        },
        at);
  }
}

}  // namespace detail

/// What initialize takes as models.
template <class Models>
concept ModelArgument = std::derived_from<std::remove_cvref_t<Models>, torch::nn::Module> ||
    detail::is_module_list<std::remove_cvref_t<Models>>;

/// The parameters of models that take a gradient, by name; one that is registered twice (tied) comes once.
[[nodiscard]] inline std::vector<NamedParam> trained_parameters(const detail::ModelList& models) {
  std::vector<NamedParam> out;
  for (const auto& [prefix, module] : models) {
    for (const auto& p : module->named_parameters()) {
      const auto same = [&](const NamedParam& other) { return other.tensor.is_same(p.value()); };
      if (p.value().requires_grad() && std::none_of(out.begin(), out.end(), same))
        out.push_back({prefix + p.key(), p.value()});
    }
  }
  return out;
}
[[nodiscard]] inline std::vector<NamedParam> trained_parameters(torch::nn::Module& module) {
  return trained_parameters(detail::ModelList{{"", &module}});
}

namespace detail {

/// The models' parameters, of which groups claim theirs.
class OwnParameters {
 public:
  explicit OwnParameters(const ModelList& models) {
    for (const auto& m : models)
      for (const auto& p : m.module->named_parameters()) own_.push_back(p.value().unsafeGetTensorImpl());
    std::sort(own_.begin(), own_.end());
  }
  /// throws  amp::error naming a parameter that is none of the models', or that a group has claimed before
  template <class Groups>
  void claim(const Groups& groups, amp::where at) {
    for (const auto& group : groups) {
      for (const auto& [name, tensor] : group.params) {
        const void* impl = tensor.unsafeGetTensorImpl();
        amp::expects(
            std::binary_search(own_.begin(), own_.end(), impl),
            [&, n = name] {
              return quoted(n) + " of the optimizer is none of the module's: was the module copied or moved since?";
            },
            at);
        amp::expects(
            std::find(claimed_.begin(), claimed_.end(), impl) == claimed_.end(),
            [&, n = name] { return quoted(n) + " stands in two groups"; }, at);
        claimed_.push_back(impl);
      }
    }
  }

 private:
  std::vector<const void*> own_, claimed_;
};

}  // namespace detail

}  // namespace amp_torch
