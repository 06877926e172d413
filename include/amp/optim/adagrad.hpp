/// Adagrad.
#pragma once
#include <amp/core/check.hpp>
#include <amp/fn/adagrad.hpp>
#include <amp/optim/concepts.hpp>

namespace amp {

/// Adagrad without a decay of the rate. A tensor whose gradients were all zero does not move, whatever eps is.
/// source  Duchi, Hazan & Singer 2011 (JMLR 12); defaults: apex FusedAdagrad
struct Adagrad {
  double lr = 1e-2;
  double eps = 1e-10;
  double weight_decay = 0.;
  decay mode = decay::l2;  ///< apex adagrad_w_mode

  static constexpr int states = 1;
  static constexpr const char* state_names[states] = {"sum"};
  static constexpr bool squares[states] = {true};
  using group = StepGroup<Adagrad>;

  static constexpr void next_step(group& g) noexcept { ++g.step; }
  [[nodiscard]] static constexpr fn::Adagrad functor(const group& g) {
    const Adagrad& o = g.options;
    return {static_cast<float>(o.lr), static_cast<float>(o.eps), static_cast<float>(o.weight_decay),
            o.mode == decay::decoupled};
  }

  /// throws  amp::error if an option is out of range
  constexpr void validate(where at) const {
    detail::check_options(*this, "Adagrad", at);
    // A first gradient of 0 gives 0/(0 + eps).
    detail::option(detail::finite_above_zero(eps), "Adagrad", "eps must be a normal fp32 number, at least 2^-126", at);
  }
};

static_assert(Optimizer<Adagrad>);

}  // namespace amp
