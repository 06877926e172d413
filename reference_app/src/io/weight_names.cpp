#include "io/weight_names.hpp"

#include <algorithm>
#include <array>
#include <optional>
#include <string_view>
#include <utility>

#include "config/errors.hpp"

namespace clipbert::io {
namespace {

/// "X.LayerNorm.gamma" as "X.LayerNorm.weight", the way TensorFlow's BERT names them; other layers' gamma stays.
std::optional<std::string> renamed_norm(const std::string& name) {
  for (const auto& [old_name, new_name] :
       std::array<std::pair<std::string_view, std::string_view>, 2>{{{".gamma", ".weight"}, {".beta", ".bias"}}}) {
    if (!name.ends_with(old_name)) continue;
    const std::string owner = name.substr(0, name.size() - old_name.size());
    const auto dot = owner.rfind('.');
    std::string layer = dot == std::string::npos ? owner : owner.substr(dot + 1);
    std::erase(layer, '_');
    std::ranges::transform(layer, layer.begin(),
                           [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; });
    if (layer.ends_with("layernorm")) return owner + std::string(new_name);
  }
  return std::nullopt;
}

bool is_detector(std::string_view name) {
  if (name.starts_with("cnn.feature.")) name.remove_prefix(12);
  return name.starts_with("proposal_generator.") || name.starts_with("roi_heads.") || name == "pixel_mean" ||
         name == "pixel_std";
}

std::string listed(const std::vector<std::string>& names, std::size_t most) {
  std::string out;
  for (std::size_t i = 0; i < std::min(names.size(), most); ++i) out += (i == 0 ? "" : ", ") + names[i];
  return names.size() > most ? out + ", ..." : out;
}

/// A name of the file on its way to one of the model.
struct Normalised {
  std::string name;
  bool module = false, norm = false, prefix = false, known = false;
};

Normalised normalise(const std::string& raw, const Shapes& model, const std::vector<std::string>& prefixes) {
  Normalised out{.name = raw};
  const auto look = [&] {
    for (const auto& prefix : prefixes) {
      if (!model.contains(prefix + out.name)) continue;
      out.prefix = !prefix.empty();
      out.name.insert(0, prefix);
      return out.known = true;
    }
    return false;
  };
  if (look()) return out;
  while (out.name.starts_with("module.")) {
    out.name.erase(0, 7);
    out.module = true;
    if (look()) return out;
  }
  if (auto renamed = renamed_norm(out.name)) {
    out.name = std::move(*renamed);
    out.norm = true;
    look();
  }
  return out;
}

}  // namespace

Shapes shapes_of(const Tensors& tensors) {
  Shapes shapes;
  for (const auto& [name, tensor] : tensors) shapes[name] = tensor.shape;
  return shapes;
}

NameMatch match_names(const Shapes& file, const Shapes& model, const std::vector<std::string>& prefixes,
                      const std::filesystem::path& where) {
  NameMatch out;
  std::map<std::string, std::string> seen;  // normalised -> raw
  for (const auto& [raw, shape] : file) {
    const auto found = normalise(raw, model, prefixes);
    if (const auto [other, fresh] = seen.emplace(found.name, raw); !fresh)
      throw content_error(where.string() + ": tensors " + other->second + " and " + raw + " are both " + found.name +
                          " of the model; remove one of them");
    out.dropped_module += found.module ? 1 : 0;
    out.renamed_norms += found.norm ? 1 : 0;
    out.added_prefix += found.prefix ? 1 : 0;
    if (!found.known) {
      (is_detector(found.name) ? out.detector : out.unexpected).push_back(found.name);
    } else if (const auto& wanted = model.at(found.name); wanted == shape) {
      out.loaded[found.name] = raw;
    } else {
      out.mismatched.push_back(found.name);
      out.shapes.push_back(found.name + ": " + shape_text(shape) + " in the file, " + shape_text(wanted) +
                           " in the model");
    }
  }
  for (const auto& [name, shape] : model)
    if (!seen.contains(name)) out.missing.push_back(name);
  for (auto* names : {&out.unexpected, &out.mismatched, &out.shapes, &out.detector}) std::ranges::sort(*names);
  return out;
}

double NameMatch::share() const {
  const auto all = loaded.size() + missing.size() + mismatched.size();
  return all == 0 ? 0 : static_cast<double>(loaded.size()) / static_cast<double>(all);
}

std::string NameMatch::report(std::size_t most) const {
  const auto all = loaded.size() + missing.size() + mismatched.size();
  std::string out = std::to_string(loaded.size()) + " of " + std::to_string(all) + " tensors loaded";
  const auto counted = [&](std::size_t count, const std::string& what) {
    if (count > 0) out += "; " + std::to_string(count) + " " + what;
  };
  counted(dropped_module, "names without their \"module.\"");
  counted(renamed_norms, "LayerNorm gamma and beta renamed to weight and bias");
  counted(added_prefix, "names with the model's prefix put before them");
  const auto named = [&](const std::vector<std::string>& names, const std::string& what) {
    if (!names.empty()) out += "; " + std::to_string(names.size()) + " " + what + ": " + listed(names, most);
  };
  named(missing, "missing, left as they were");
  named(unexpected, "unexpected, not used");
  named(shapes, "of another shape, left as they were");
  named(detector, "of the detector, which nothing uses");
  return out;
}

Tensors renamed(Tensors tensors, const NameMatch& match) {
  std::map<std::string, std::string> names;
  for (const auto& [model, file] : match.loaded) names[file] = model;
  Tensors out;
  for (auto& [name, tensor] : tensors) {
    const auto found = names.find(name);
    out.insert_or_assign(found == names.end() ? name : found->second, std::move(tensor));
  }
  return out;
}

}  // namespace clipbert::io
