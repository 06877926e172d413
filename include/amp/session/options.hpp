/// What a session can be told: at its start, per loss, per clipping.
#pragma once
#include <amp/core/check.hpp>
#include <amp/master_weights.hpp>
#include <amp/opt_level.hpp>
#include <amp/optim/concepts.hpp>
#include <amp/optim/executor.hpp>
#include <amp/optim/storage.hpp>
#include <amp/scaling/policies.hpp>
#include <amp/tensor/param.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

namespace amp {

namespace detail {
template <scaling S>
struct policy_of;
template <>
struct policy_of<scaling::none> : std::type_identity<NoScale> {};
template <>
struct policy_of<scaling::constant> : std::type_identity<StaticScale> {};
template <>
struct policy_of<scaling::dynamic> : std::type_identity<DynamicScale> {};
template <>
struct policy_of<scaling::torch> : std::type_identity<TorchScale> {};
template <>
struct policy_of<scaling::hysteresis> : std::type_identity<HysteresisScale> {};
}  // namespace detail

/// The policy that a level asks for.
template <OptLevel L>
using level_policy = typename detail::policy_of<L.enabled ? L.scale : scaling::none>::type;

/// A loss_scale setting of a configuration as a policy; `dynamic` is what "dynamic" stands for. A constant of 1 is a
/// static scale too: where there are masters an overflow is still looked for, and reported.
[[nodiscard]] inline AnyScale scale_policy(const loss_scale_setting& setting, AnyScale dynamic = DynamicScale{}) {
  return setting.dynamic ? dynamic : AnyScale{StaticScale{setting.value}};
}

/// Options of initialize; with a policy other than the level's own: `init_options<AnyScale>{.scale =
/// StaticScale{128.f}}`.
template <ScalePolicy Policy>
struct init_options {
  using policy_type = Policy;
  Policy scale = {};
  int num_losses = 1;  ///< a scaler each
  /// Skips in a row after which scale_loss throws `diverged`; 0: never. A start from 2^16 that has to come down to
  /// 2^-24 needs 40.
  std::int64_t max_consecutive_skips = 50;
  std::function<void(std::string_view)> log = {};  ///< takes a line per change of a scale and per remark; else silence
  exec::any exec = exec::vectorized{};             ///< where passes over the parameters run
  /// Combines the overflow flag over ranks that hold different gradients (sharded ones): true if it is true on any.
  /// Called once per check on every rank; empty: all ranks see the same gradients.
  std::function<bool(bool)> any_reduce = {};
  std::function<void()> after_backward =
      {};                        ///< called after each backward of scale_loss, before its gradients are seen
  storage_options storage = {};  ///< how masters and moments are kept, where the level has masters
  bool count_overflow = true;  ///< after an overflow, count inf and NaN per parameter: one more read, on overflows only
  bool allow_low = false;      ///< accept a network that comes in a low type already, at the levels that cast it
};

/// Options of scale_loss.
struct scale_options {
  int loss_id = 0;                        ///< which scaler
  std::vector<std::size_t> optimizers{};  ///< those that this loss's gradients are for; none: all
  bool delay_unscale = false;             ///< more gradients will be summed: no check, no update
  bool delay_overflow_check = false;      ///< check, but leave the update of the scale to a later scope of this loss
};

/// Options of clip_grad_norm over a session.
struct clip_options {
  std::vector<std::size_t> optimizers{};  ///< none: all
  bool error_if_nonfinite = false;        ///< throw instead of scaling by a factor that is 0 or NaN
};

/// A parameter group by rule: the options, and which parameters are stepped with them. A parameter belongs to the first
/// group, in order over all optimizers, that takes it; none: it is not stepped.
template <Optimizer Opt>
struct Group {
  Opt options;
  std::function<bool(const Param&)> takes = {};  ///< empty: takes all
  std::string name = {};
};

/// Every one of the last max_consecutive_skips steps overflowed: not the scale is wrong but the numbers.
class diverged : public error {
 public:
  diverged(std::string_view message, std::string tensor, where at) : error(message, at), tensor_(std::move(tensor)) {}
  /// The first tensor whose gradient is not finite.
  [[nodiscard]] const std::string& tensor() const noexcept { return tensor_; }

 private:
  std::string tensor_;
};

/// How a loss is scaled: to fp32, times the scale. Specialise for a tensor class whose low values need a widening
/// first:
///   template <> struct amp::loss_traits<at::Tensor> { static at::Tensor scaled(const at::Tensor& loss, float scale);
///   };
template <class Loss>
struct loss_traits {
  [[nodiscard]] static auto scaled(const Loss& loss, float scale) {
    if constexpr (Storage<Loss> || std::is_arithmetic_v<Loss>) {
      return static_cast<float>(loss) * scale;
    } else {
      return loss * scale;
    }
  }
};

}  // namespace amp
