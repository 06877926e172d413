/// Stochastic gradient descent with momentum.
#pragma once
#include <amp/core/check.hpp>
#include <amp/fn/sgd.hpp>
#include <amp/optim/concepts.hpp>
#include <cstdint>

namespace amp {

/// SGD in the form of torch.optim.SGD; `decay_after_momentum` is apex FusedSGD's wd_after_momentum.
/// source  Sutskever et al. 2013, "On the importance of initialization and momentum in deep learning"
struct Sgd {
  double lr = 1e-3;
  double momentum = 0.;
  double dampening = 0.;
  double weight_decay = 0.;
  bool nesterov = false;
  bool decay_after_momentum = false;

  static constexpr int states = 1;
  static constexpr const char* state_names[states] = {"momentum_buffer"};
  using group = StepGroup<Sgd>;

  static constexpr void next_step(group& g) noexcept { ++g.step; }
  /// `first_of` says per tensor of the lists whether its momentum holds nothing yet.
  [[nodiscard]] static constexpr fn::Sgd functor(const group& g, const std::uint8_t* first_of = nullptr) {
    const Sgd& o = g.options;
    fn::Sgd f{};
    f.lr = static_cast<float>(o.lr);
    f.momentum = static_cast<float>(o.momentum);
    f.one_minus_dampening = o.momentum == 0. ? 1.f : static_cast<float>(1. - o.dampening);  // as torch: d = g then
    f.decay = static_cast<float>(o.weight_decay);
    f.nesterov = o.nesterov;
    f.decay_after = o.decay_after_momentum;
    f.first_of = first_of;
    return f;
  }
  /// Without momentum the functor takes weight and gradient alone, and no state is made.
  [[nodiscard]] static constexpr bool stateless(const group& g) noexcept { return g.options.momentum == 0.; }

  /// throws  amp::error if an option is out of range
  constexpr void validate(where at) const {
    detail::check_options(*this, "Sgd", at);
    detail::option(detail::finite_from_zero(momentum), "Sgd", "momentum must be 0 or positive, and finite", at);
    detail::option(dampening >= -1e308 && dampening <= 1e308, "Sgd", "dampening must be finite", at);
    detail::option(!nesterov || (momentum > 0. && dampening == 0.), "Sgd",
                   "nesterov needs momentum > 0 and dampening 0", at);
  }
};

static_assert(Optimizer<Sgd>);

}  // namespace amp
