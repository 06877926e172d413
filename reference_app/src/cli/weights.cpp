#include "cli/weights.hpp"

#include <ATen/core/Tensor.h>
#include <torch/torch.h>

#include <algorithm>
#include <array>
#include <map>
#include <string_view>
#include <utility>

#include "config/errors.hpp"
#include "io/checkpoint_file.hpp"
#include "model/clipbert.hpp"
#include "train/checkpoint.hpp"

namespace clipbert::cli {
namespace {

using NamedTensors = std::map<std::string, at::Tensor>;

constexpr std::array<std::string_view, 2> not_in_bert{"transformer.bert.visual_embeddings.", "transformer.classifier."};

io::Shapes shapes_of(const NamedTensors& tensors) {
  io::Shapes shapes;
  for (const auto& [name, t] : tensors) shapes[name] = t.sizes().vec();
  return shapes;
}

/// What may stand before a name of the file to make it one of the model under `prefix`.
std::vector<std::string> prefixes_of(const std::string& prefix) {
  if (prefix == "cnn.feature.") return {prefix, "cnn.feature.backbone.", ""};
  if (prefix == "transformer.") return {prefix, "transformer.bert.", ""};
  return {prefix};
}

void refuse_nonfinite(const io::Tensors& tensors, const io::NameMatch& match, const std::filesystem::path& file) {
  std::map<std::string, std::string> names;
  for (const auto& [name, from] : match.loaded) names[from] = name;
  std::string bad;
  for (const auto& from : io::nonfinite_tensors(tensors))
    if (names.contains(from)) bad += (bad.empty() ? "" : ", ") + names.at(from);
  if (bad.empty()) return;
  throw content_error(file.string() + ": tensor " + bad +
                      " holds NaN or infinity; take weights of an earlier step, or train again");
}

void copy(const NamedTensors& own, io::Tensors tensors, const io::NameMatch& match) {
  const torch::NoGradGuard no_grad;
  for (const auto& [name, from] : match.loaded) {
    const auto found = tensors.find(from);
    own.at(name).copy_(train::to_torch(std::move(found->second)));
    tensors.erase(found);
  }
}

std::size_t of_16_bits(const io::Tensors& tensors) {
  return static_cast<std::size_t>(std::ranges::count_if(tensors, [](const auto& entry) {
    return entry.second.dtype == io::DType::f16 || entry.second.dtype == io::DType::bf16;
  }));
}

}  // namespace

void load_weights(model::ClipBert& model, const std::filesystem::path& file) {
  auto weights = io::read_weights(file);
  const auto own = model.named_tensors();
  auto match = io::match_names(io::shapes_of(weights.tensors), shapes_of(own), {""}, file);
  std::erase_if(match.unexpected, [](const std::string& name) { return name.ends_with(".position_ids"); });
  if (!match.complete())
    throw content_error(file.string() + ": " + match.report() +
                        "; take the model_config and cnn that it was trained with");
  refuse_nonfinite(weights.tensors, match, file);
  copy(own, std::move(weights.tensors), match);
}

std::string LoadReport::text(const std::filesystem::path& file) const {
  std::string out = file.string() + ": " + match.report();
  if (!fresh.empty())
    out +=
        "; " + std::to_string(fresh.size()) + " of the visual embeddings and the classifier keep their initial values";
  return remarks.empty() ? out : out + "; " + remarks;
}

LoadReport start_from(model::ClipBert& model, const std::filesystem::path& file, const std::string& prefix,
                      double least) {
  auto own = model.named_tensors();
  std::erase_if(own, [&](const auto& entry) { return !entry.first.starts_with(prefix); });
  auto weights = io::read_weights(file);
  LoadReport report;
  report.match = io::match_names(io::shapes_of(weights.tensors), shapes_of(own), prefixes_of(prefix), file);
  report.remarks = weights.remarks();
  if (const auto low = of_16_bits(weights.tensors); low > 0)
    report.remarks += (report.remarks.empty() ? "" : "; ") + std::to_string(low) +
                      " tensors are of 16 bits: what they lost by that stays lost";
  if (prefix == "transformer.") {
    const auto known = [](const std::string& name) {
      return std::ranges::any_of(not_in_bert, [&](auto part) { return name.starts_with(part); });
    };
    std::ranges::copy_if(report.match.missing, std::back_inserter(report.fresh), known);
    std::erase_if(report.match.missing, known);
  }
  if (report.match.loaded.empty())
    throw content_error(report.text(file) + "; nothing of the model is in it, so it is of another model");
  if (report.match.share() < least) {
    throw content_error(report.text(file) + "; less than the share that min_weights_matched asks for (" +
                        std::to_string(static_cast<int>(100 * least + 0.5)) +
                        " %) is in it, so it seems to be of another model");
  }
  refuse_nonfinite(weights.tensors, report.match, file);
  copy(own, std::move(weights.tensors), report.match);
  return report;
}

}  // namespace clipbert::cli
