#include "cli/weights.hpp"

#include <ATen/core/Tensor.h>
#include <torch/torch.h>

#include <algorithm>

#include "config/errors.hpp"
#include "model/clipbert.hpp"
#include "train/checkpoint.hpp"

namespace clipbert::cli {
namespace {

std::string shape_text(const at::Tensor& t) {
  std::string out = "[";
  for (const auto size : t.sizes()) out += (out.size() > 1 ? ", " : "") + std::to_string(size);
  return out + "]";
}

void copy(const at::Tensor& to, const at::Tensor& from, const std::string& name, const std::filesystem::path& file) {
  if (from.sizes() != to.sizes()) {
    throw content_error(file.string() + ": tensor " + name + " has shape " + shape_text(from) + ", the model wants " +
                        shape_text(to) + "; take the model_config and cnn that it was trained with");
  }
  if (from.is_floating_point() && !at::isfinite(from).all().item<bool>()) {
    throw content_error(file.string() + ": tensor " + name +
                        " holds NaN or infinity; take weights of an earlier step, or train again");
  }
  const torch::NoGradGuard no_grad;
  to.copy_(from);
}

std::string listed(const std::vector<std::string>& names) {
  constexpr std::size_t most = 3;
  std::string out;
  for (std::size_t i = 0; i < std::min(names.size(), most); ++i) out += (i == 0 ? "" : ", ") + names[i];
  return names.size() > most ? out + ", ..." : out;
}

}  // namespace

void load_weights(model::ClipBert& model, const std::filesystem::path& file) {
  const auto state = train::read_model(file);
  const auto own = model.named_tensors();
  for (const auto& [name, t] : state) {
    if (!own.contains(name)) {
      throw content_error(file.string() + ": holds tensor " + name +
                          ", which the model lacks; take the model_config and cnn that it was trained with");
    }
  }
  for (const auto& [name, t] : own) {
    const auto found = state.find(name);
    if (found == state.end()) {
      throw content_error(file.string() + ": lacks tensor " + name +
                          "; take the model_config and cnn that it was trained with");
    }
    copy(t, found->second, name, file);
  }
}

std::string LoadReport::text(const std::filesystem::path& file) const {
  std::string out = file.string() + ": " + std::to_string(loaded) + " tensors loaded";
  if (!missing.empty()) out += "; " + std::to_string(missing.size()) + " not in it: " + listed(missing);
  if (!unused.empty()) out += "; " + std::to_string(unused.size()) + " not used: " + listed(unused);
  return out;
}

LoadReport start_from(model::ClipBert& model, const std::filesystem::path& file, const std::string& prefix) {
  std::error_code failed;
  const auto target = std::filesystem::canonical(file, failed);  // ckpt/best is a link without an extension
  if ((failed ? file : target).extension() != ".safetensors") {
    throw content_error(file.string() + ": weights are read from .safetensors files only; save them in that format");
  }
  auto own = model.named_tensors();
  std::erase_if(own, [&](const auto& entry) { return !entry.first.starts_with(prefix); });
  LoadReport report;
  for (const auto& [raw, t] : train::read_model(file)) {
    const std::string name = prefix + (raw.starts_with("module.") ? raw.substr(7) : raw);
    const auto found = own.find(name);
    if (found == own.end()) {
      report.unused.push_back(raw);
      continue;
    }
    copy(found->second, t, name, file);
    own.erase(found);
    ++report.loaded;
  }
  for (const auto& [name, t] : own) report.missing.push_back(name);
  if (report.loaded < 9 * static_cast<std::int64_t>(report.missing.size())) {
    throw content_error(report.text(file) +
                        "; less than nine tenths of the model are in it, so it is of another model");
  }
  return report;
}

}  // namespace clipbert::cli
