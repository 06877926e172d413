/// One optimizer at every level; a file of its own per optimizer, because each brings its own kernels.
#pragma once
#include <ATen/ops/from_blob.h>

#include <amp/scaling/bounded.hpp>
#include <amp_torch/session.hpp>
#include <amp_torch/state_dict.hpp>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/clipbert.hpp"
#include "train/precision.hpp"
#include "train/trainer.hpp"

namespace clipbert::train::detail {

/// A loss scale whose rules are chosen at run time; min_loss_scale and max_loss_scale hold for all of them.
using Scale = amp::Bounded<amp::AnyScale>;

/// What the sessions are made from. The model is cast already.
struct SessionParts {
  model::ClipBert& model;
  const TrainerSettings& settings;
  amp::OptLevel level;  ///< one that with_opt_level knows
  Scale scale;
  amp::storage_options storage;  ///< how masters and moments are kept
  std::span<const ParamGroup> groups;
  std::function<void(std::string_view)> log;
};

// Each is defined in a file of its own.
std::unique_ptr<Precision> make_adamw(SessionParts parts);
std::unique_ptr<Precision> make_adam(SessionParts parts);
std::unique_ptr<Precision> make_adamax(SessionParts parts);

template <class Opt>
Opt options_of(const TrainerSettings& s, const ParamGroup& group) {
  Opt o;
  o.lr = group.lr;
  o.beta1 = s.config.betas.at(0);
  o.beta2 = s.config.betas.at(1);
  o.weight_decay = group.weight_decay;
  if (s.eps) o.eps = *s.eps;
  if constexpr (requires { o.correct_bias; }) o.correct_bias = s.correct_bias;
  if constexpr (requires { o.mode; }) o.mode = decltype(o.mode)::l2;  // torch's Adam
  return o;
}

template <class Opt>
std::vector<amp_torch::ParamGroup<Opt>> param_groups(const std::map<std::string, at::Tensor>& tensors,
                                                     const TrainerSettings& settings,
                                                     std::span<const ParamGroup> groups) {
  std::vector<amp_torch::ParamGroup<Opt>> out;
  for (const ParamGroup& group : groups) {
    amp_torch::ParamGroup<Opt> g{{}, options_of<Opt>(settings, group), "group " + std::to_string(out.size())};
    for (const std::string& name : group.names) g.params.push_back({name, tensors.at(name)});
    out.push_back(std::move(g));
  }
  return out;
}

template <amp::OptLevel L, class Opt>
class SessionOf final : public Precision {
 public:
  explicit SessionOf(SessionParts parts)
      : tensors_(amp_torch::named_tensors(parts.model)),
        in_fp32_(!L.master_weights || parts.storage.masters == amp::masters::fp32),
        session_(amp_torch::initialize<L>(
            parts.model, param_groups<Opt>(tensors_, parts.settings, parts.groups),
            amp_torch::init_options<Scale>{
                .scale = parts.scale,
                .max_consecutive_skips = 0,  // the trainer counts, static scales included
                .log = std::move(parts.log),
                .storage = parts.storage,
                .keep_fp32 = [](const std::string&, const torch::nn::Module&) { return true; },  // cast already
                .allow_low = true})) {
    if (!parts.settings.config.original_init_step) return;
    for (std::size_t i = 0; i < parts.groups.size(); ++i) Opt::next_step(session_.optimizer().group(i));
  }

  [[nodiscard]] amp_torch::OpCast forward_region() const override { return amp_torch::forward_region<L>(); }
  void scale_loss(const at::Tensor& loss, bool delay, const std::function<void(const at::Tensor&)>& backward) override {
    amp::scale_loss(loss, session_, backward, {.delay_unscale = delay});
  }
  GradientCheck check(std::optional<double> max_norm) override {
    GradientCheck out;
    if (session_.scaler().skips() && !session_.overflow().empty()) {
      out.bad_tensor = session_.overflow();
    } else if (max_norm) {
      out.norm = amp::clip_grad_norm(session_, *max_norm);  // looks at every gradient
      out.bad_tensor = session_.overflow();
    } else if (!session_.scaler().skips()) {
      out.bad_tensor = session_.optimizer().check().first_bad;
    }
    return out;
  }
  [[nodiscard]] double loss_scale() const override { return session_.loss_scale(); }
  void set_rates(std::span<const double> rates) override {
    for (std::size_t i = 0; i < rates.size(); ++i) session_.set_lr(i, rates[i]);
  }
  void step() override { session_.step(); }
  void drop() override {
    if (session_.scaler().skips()) session_.step();  // takes the mark of the overflow off
  }
  void zero_grad() override { session_.zero_grad(); }

  void for_each_master(const std::function<void(const std::string&, const at::Tensor&)>& fn) override {
    if constexpr (L.cast == amp::casting::model && !L.master_weights) {
      for (const amp::Param& p : session_.optimizer().params()) fn(p.name, tensors_.at(p.name).detach().to(at::kFloat));
    } else if (!in_fp32_) {  // between steps, so that there are no gradients to write out
      session_.optimizer().for_each_master([&](const amp::MasterView& v) {
        const at::Tensor& like = tensors_.at(std::string(v.name));
        fn(std::string(v.name),
           at::from_blob(const_cast<float*>(v.value.data()), like.sizes(), like.strides(), at::kFloat));
      });
    } else {
      for (const amp::Param& p : session_.optimizer().master_params()) {
        const at::Tensor& like = tensors_.at(p.name);
        fn(p.name, at::from_blob(p.value, like.sizes(), like.strides(), at::kFloat));
      }
    }
  }
  [[nodiscard]] MemoryUse memory() override {
    MemoryUse use;
    for (const auto& [name, t] : tensors_) use.weights += static_cast<std::int64_t>(t.nbytes());
    for (const auto& [name, t] : tensors_) {
      if (t.grad().defined()) use.gradients += static_cast<std::int64_t>(t.grad().nbytes());
    }
    use.masters = session_.optimizer().master_bytes();
    use.optimizer = session_.optimizer().moment_bytes();
    return use;
  }
  [[nodiscard]] amp::StateDict state() const override { return session_.state(); }
  void load(const amp::StateDict& state) override { session_.load(state); }

 private:
  std::map<std::string, at::Tensor> tensors_;
  bool in_fp32_;  ///< masters can be handed out as they lie
  amp::Session<L, std::reference_wrapper<model::ClipBert>, Scale, Opt> session_;
};

template <class Opt>
std::unique_ptr<Precision> make_session(SessionParts parts) {
  std::unique_ptr<Precision> made;
  amp::with_opt_level(parts.level,
                      [&]<amp::OptLevel L>() { made = std::make_unique<SessionOf<L, Opt>>(std::move(parts)); });
  return made;
}

}  // namespace clipbert::train::detail
