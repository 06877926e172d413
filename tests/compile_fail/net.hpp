/// A smallest net for the programs of this folder: one weight, in any storage format.
#pragma once
#include <amp/half_traits.hpp>
#include <amp/optim/param_source.hpp>
#include <vector>

template <class T>
struct Net {
  std::vector<T> weight = std::vector<T>(4, T(1.f)), grad = std::vector<T>(4, T(0.f));

  template <class U>
  Net<U> cast() const {
    Net<U> net;
    for (std::size_t i = 0; i < weight.size(); ++i) net.weight[i] = U(static_cast<float>(weight[i]));
    return net;
  }
  std::vector<amp::Param> parameters() { return {amp::make_param("weight", weight, grad)}; }
};
