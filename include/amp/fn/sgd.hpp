/// One step of SGD on fp32 lanes: (weight, gradient) without momentum, (weight, momentum, gradient) with it.
#pragma once
#include <amp/apply/plan.hpp>
#include <amp/core/config.hpp>
#include <cstdint>

namespace amp::fn {

/// d = g + wd*w (decay before momentum); b = d at the first use of a tensor, else b = momentum*b + (1 - dampening)*d;
/// nesterov: d += momentum*b, else d = b; then d += wd*w if the decay comes after; w -= lr*d.
/// source  Sutskever et al. 2013, in the form of torch::optim::SGD and apex FusedSGD
struct Sgd {
  float lr, momentum = 0.f, one_minus_dampening = 1.f, decay = 0.f;
  bool nesterov = false;
  bool decay_after = false;                ///< apex wd_after_momentum
  bool first = false;                      ///< the momentum buffer holds nothing yet
  const std::uint8_t* first_of = nullptr;  ///< `first` per tensor of the lists, where they differ

  [[nodiscard]] AMP_HD Sgd at(const apply::piece& p) const noexcept {
    Sgd f = *this;
    if (first_of != nullptr) f.first = first_of[p.tensor] != 0;
    return f;
  }

  template <class V>
  AMP_HD AMP_INLINE void operator()(V& w, const V& g) const {
    w = w - lr * (g + decay * w);
  }
  template <class V>
  AMP_HD AMP_INLINE void operator()(V& w, V& b, const V& g) const {
    V d = g;
    if (!decay_after) d = d + decay * w;
    if (first) {
      b = d;
    } else {
      b = momentum * b + one_minus_dampening * d;
    }
    d = nesterov ? d + momentum * b : b;
    if (decay_after) d = d + decay * w;
    w = w - lr * d;
  }
};

}  // namespace amp::fn
