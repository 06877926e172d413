#include "model/clipbert.hpp"

#include <torch/torch.h>

#include <algorithm>

#include "config/errors.hpp"

namespace clipbert::model {
namespace {

void check(const config::ModelConfig& model, const config::CnnConfig& cnn) {
  const auto refuse = [](const std::string& what) { throw usage_error(what); };
  if (model.num_labels != 1 && model.num_labels != 2) {
    refuse("model_config.num_labels is " + std::to_string(model.num_labels) + "; use 2 for ce, 1 for rank");
  }
  if (model.num_attention_heads < 1 || model.hidden_size % model.num_attention_heads != 0) {
    refuse("model_config.hidden_size " + std::to_string(model.hidden_size) +
           " is not a multiple of num_attention_heads " + std::to_string(model.num_attention_heads));
  }
  if (model.hidden_act != "gelu")
    refuse("model_config.hidden_act: \"" + model.hidden_act + "\" is not known; use gelu");
  if (cnn.depths.empty() || std::ranges::any_of(cnn.depths, [](auto n) { return n < 1; })) {
    refuse("cnn.depths needs one count of at least 1 per stage");
  }
}

at::Tensor widen(const at::Tensor& logits) {
  return logits.scalar_type() == at::kDouble ? logits : logits.to(at::kFloat);
}

}  // namespace

ClipBert::ClipBert(const config::ModelConfig& model, const config::CnnConfig& cnn)
    : labels_(model.num_labels), norms_train_(cnn.norm == "bn") {
  check(model, cnn);
  cnn_ = register_module("cnn", std::make_shared<Cnn>(cnn, model.hidden_size));
  transformer_ = register_module("transformer", std::make_shared<Transformer>(model));
}

at::Tensor ClipBert::forward(const at::Tensor& frames, const at::Tensor& ids, const at::Tensor& mask,
                             std::span<const std::int64_t> n_examples, Activations* keep) {
  const auto grid = encode_frames(frames, keep);
  if (keep != nullptr) (*keep)["grid"] = grid;
  const auto length = keep != nullptr ? ids.size(1) : used_length(mask);
  const auto visual = repeat_rows(embed_grid(grid), n_examples);
  return match(embed_text(ids.narrow(1, 0, length)), visual, mask.narrow(1, 0, length), keep);
}

at::Tensor ClipBert::forward_clips(const at::Tensor& frames, std::int64_t clips, const at::Tensor& ids,
                                   const at::Tensor& mask, std::span<const std::int64_t> n_examples) {
  const auto by_clip = frames.unflatten(1, {clips, -1}).transpose(0, 1);  // (clips, V, F, 3, H, W)
  at::Tensor grid;
  if (norms_train_ && is_training()) {
    std::vector<at::Tensor> features;
    for (std::int64_t c = 0; c < clips; ++c) features.push_back(cnn_->trunk(by_clip[c].to(type())));
    grid = cnn_->grid(at::cat(features)).unflatten(0, {clips * frames.size(0), -1});
  } else {
    grid = encode_frames(by_clip.flatten(0, 1));
  }
  std::vector<std::int64_t> counts;
  for (std::int64_t c = 0; c < clips; ++c) counts.insert(counts.end(), n_examples.begin(), n_examples.end());
  const auto visual = repeat_rows(embed_grid(grid), counts);
  const auto length = used_length(mask);
  const auto text = embed_text(ids.narrow(1, 0, length));
  const auto repeat = [&](const at::Tensor& t) { return t.unsqueeze(0).expand({clips, -1, -1, -1}).flatten(0, 1); };
  const auto masks = mask.narrow(1, 0, length).repeat({clips, 1});
  return match(repeat(text), visual, masks).unflatten(0, {clips, -1});
}

at::Tensor ClipBert::encode_frames(const at::Tensor& frames, Activations* keep) {
  return cnn_->forward(frames.to(type()), keep);
}

at::Tensor ClipBert::embed_grid(const at::Tensor& grid) { return transformer_->bert().embed_grid(grid); }

at::Tensor ClipBert::embed_text(const at::Tensor& ids) { return transformer_->bert().embed_text(ids); }

at::Tensor ClipBert::match(const at::Tensor& text, const at::Tensor& visual, const at::Tensor& mask,
                           Activations* keep) {
  return widen(transformer_->forward(text, visual, mask, keep));
}

void ClipBert::cast(at::ScalarType type, NormTypes norms) {
  const torch::NoGradGuard no_grad;
  for (const auto& module : modules(false)) {
    if (norms.trained_fp32 && module->as<BatchNorm>() != nullptr) continue;
    if (norms.frozen_fp32 && module->as<FrozenBatchNorm>() != nullptr) continue;
    const auto cast_one = [&](at::Tensor& t) {
      if (t.is_floating_point()) t.set_data(t.to(type));
    };
    for (auto& parameter : module->parameters(false)) cast_one(parameter);
    for (auto& buffer : module->buffers(false)) cast_one(buffer);
  }
}

void ClipBert::freeze_cnn() {
  for (auto& item : cnn_->named_parameters()) {
    if (item.key().starts_with("feature.")) item.value().requires_grad_(false);
  }
}

at::Device ClipBert::device() const { return parameters().front().device(); }

std::map<std::string, at::Tensor> ClipBert::named_tensors() const {
  std::map<std::string, at::Tensor> all;
  for (const auto& item : named_parameters()) all.emplace(item.key(), item.value());
  for (const auto& item : named_buffers()) all.emplace(item.key(), item.value());
  return all;
}

at::Tensor repeat_rows(const at::Tensor& rows, std::span<const std::int64_t> n_examples) {
  const auto first = n_examples.empty() ? 1 : n_examples.front();
  if (std::ranges::all_of(n_examples, [&](auto n) { return n == first; })) {
    if (first == 1) return rows;
    // Summed in fp32 by the gradient of expand(), where index_select would add up in the low type.
    auto shape = rows.unsqueeze(1).sizes().vec();
    shape[1] = first;
    return rows.unsqueeze(1).expand(shape).flatten(0, 1);
  }
  std::vector<std::int64_t> from;
  for (std::size_t i = 0; i < n_examples.size(); ++i) {
    from.insert(from.end(), static_cast<std::size_t>(n_examples[i]), static_cast<std::int64_t>(i));
  }
  return rows.index_select(0, at::tensor(from, at::kLong).to(rows.device()));
}

std::int64_t used_length(const at::Tensor& mask) {
  const auto used = mask.ne(0).any(0).to(at::kCPU).contiguous();
  const auto* flags = used.const_data_ptr<bool>();
  auto length = mask.size(1);
  while (length > 1 && !flags[length - 1]) --length;
  return length;
}

}  // namespace clipbert::model
