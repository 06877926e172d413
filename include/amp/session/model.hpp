/// How a session takes a network without a tensor library: cast, parameters, groups.
#pragma once
#include <amp/core/check.hpp>
#include <amp/half_traits.hpp>
#include <amp/opt_level.hpp>
#include <amp/optim/concepts.hpp>
#include <amp/optim/param_source.hpp>
#include <amp/session/options.hpp>
#include <amp/tensor/param.hpp>
#include <array>
#include <concepts>
#include <cstddef>
#include <iterator>
#include <memory>
#include <ranges>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

namespace amp {

/// A network that says where its parameters lie; addresses stay put as long as the network does.
template <class Net>
concept Network = requires(Net net) {
  requires std::convertible_to<std::ranges::range_reference_t<decltype(net.parameters())>, Param>;
};
/// A network that can store its parameters as T. `cast<T>(fp32_norms)`, where it exists, is asked instead of
/// `cast<T>()`: it keeps its batch norms in fp32 if told so.
template <class Net, class T>
concept CastableNetwork = requires(Net net) {
  { net.template cast<T>() } -> Network;
}
|| requires(Net net) {
  { net.template cast<T>(true) } -> Network;
};

namespace detail {
template <dtype D>
struct storage_of;
template <>
struct storage_of<dtype::fp32> : std::type_identity<float> {};
template <>
struct storage_of<dtype::fp16> : std::type_identity<half> {};
template <>
struct storage_of<dtype::bf16> : std::type_identity<bfloat16> {};

template <class>
inline constexpr bool is_tuple = false;
template <class... T>
inline constexpr bool is_tuple<std::tuple<T...>> = true;
template <class>
inline constexpr bool is_list = false;
template <class T>
inline constexpr bool is_list<std::vector<T>> = true;
template <class T, std::size_t N>
inline constexpr bool is_list<std::array<T, N>> = true;

template <OptLevel L, class Net>
auto cast_network(Net net);
template <OptLevel L, class Net>
auto cast_list(std::vector<Net> nets) {
  std::vector<decltype(cast_network<L>(std::declval<Net>()))> cast;
  cast.reserve(nets.size());
  for (auto& net : nets) cast.push_back(cast_network<L>(std::move(net)));
  return cast;
}
template <OptLevel L, class Net, std::size_t N>
auto cast_list(std::array<Net, N> nets) {
  return std::apply([](auto&... one) { return std::array{cast_network<L>(std::move(one))...}; }, nets);
}

/// The network as the level stores it; several networks are a tuple or a list, and stay one.
template <OptLevel L, class Net>
auto cast_network(Net net) {
  if constexpr (is_tuple<Net>) {
    return std::apply([](auto&... one) { return std::tuple{cast_network<L>(std::move(one))...}; }, net);
  } else if constexpr (is_list<Net>) {
    return cast_list<L>(std::move(net));
  } else if constexpr (!L.enabled || L.cast == casting::none) {
    static_assert(Network<Net>, "amp: the network needs parameters() returning a range of amp::Param");
    return net;
  } else if constexpr (L.cast == casting::op) {
    static_assert(
        L.cast != casting::op,
        "amp: per-op casting (O1) wraps a tensor library's operations, and this network has none to wrap; use "
        "O2, or amp_torch");
  } else {
    using T = typename storage_of<L.compute>::type;
    static_assert(CastableNetwork<Net, T>,
                  "amp: the network needs cast<T>() returning itself with parameters stored as T");
    if constexpr (!CastableNetwork<Net, T>) {
      return net;  // the sentence above is the only error
    } else if constexpr (requires { net.template cast<T>(true); }) {
      return net.template cast<T>(L.fp32_norms);
    } else {
      return net.template cast<T>();
    }
  }
}

/// Appends the parameters of one network, or of several, whose names then begin with the network's number: "1.weight".
template <class Net>
void collect_parameters(Net& net, std::vector<Param>& all) {
  const auto numbered = [&](auto& one, std::size_t number, std::size_t count) {
    const std::size_t first = all.size();
    collect_parameters(one, all);
    if (count == 1) return;
    for (std::size_t i = first; i < all.size(); ++i) all[i].name = std::to_string(number) + '.' + all[i].name;
  };
  if constexpr (is_tuple<Net>) {
    std::size_t number = 0;
    std::apply([&](auto&... one) { (numbered(one, number++, sizeof...(one)), ...); }, net);
  } else if constexpr (is_list<Net>) {
    for (std::size_t i = 0; i < net.size(); ++i) numbered(net[i], i, net.size());
  } else if constexpr (Network<Net>) {
    for (const Param& p : net.parameters()) all.push_back(p);
  }
}

/// throws  amp::error naming the first parameter that is low already
template <class Net>
void expect_fp32(Net& networks, where at) {
  std::vector<Param> params;
  collect_parameters(networks, params);
  for (const Param& p : params) {
    expects(
        p.type == dtype::fp32,
        [&] {
          return "the network comes in " + std::string(name(p.type)) + " already (parameter \"" + p.name +
                 "\"); initialize casts it, so give it in fp32, or set allow_low";
        },
        at);
  }
}

/// One optimizer argument of initialize as a list of groups by rule.
template <class Opt>
auto groups_by_rule(Opt opt) {
  static_assert(Optimizer<Opt>, "amp: not an optimizer: it needs states, next_step(group) and functor(group)");
  if constexpr (Optimizer<Opt>) return std::vector<Group<Opt>>{{std::move(opt), {}, {}}};
}
template <Optimizer Opt>
auto groups_by_rule(Group<Opt> group) {
  return std::vector<Group<Opt>>{std::move(group)};
}
template <Optimizer Opt>
auto groups_by_rule(std::vector<Group<Opt>> groups) {
  return groups;
}

/// Hands each parameter to the first group that takes it.
template <Optimizer Opt>
std::vector<GroupSpec<Opt>> claim(std::vector<Group<Opt>> groups, std::vector<Param>& left) {
  std::vector<GroupSpec<Opt>> specs;
  for (auto& group : groups) {
    std::vector<Param> taken, rest;
    for (auto& p : left) (!group.takes || group.takes(p) ? taken : rest).push_back(std::move(p));
    left = std::move(rest);
    specs.push_back({std::move(group.options), std::make_shared<FixedParams>(std::move(taken)), std::move(group.name)});
  }
  return specs;
}
}  // namespace detail

}  // namespace amp
