/// Stored tensors in a saved state: their keys, their bits, and their values where another form wants them.
#pragma once
#include <algorithm>
#include <amp/half_traits.hpp>
#include <amp/optim/state.hpp>
#include <amp/optim/stored.hpp>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace amp::detail {

inline SavedTensor save_view(const tensor_view& v) {
  const auto* bytes = static_cast<const std::byte*>(v.data);
  return {
      std::string(saved_name(v.type)), {v.size}, {bytes, bytes + static_cast<std::size_t>(v.size) * size_of(v.type)}};
}
/// The optimizer's name for its k-th moment, or its number.
template <class Opt>
std::string moment_name(int k) {
  if constexpr (requires { Opt::state_names[0]; }) {
    return Opt::state_names[k];
  } else {
    return "moment" + std::to_string(k);
  }
}
template <class Opt>
std::string moment_key(const std::string& prefix, int k, const std::string& name) {
  return prefix + moment_name<Opt>(k) + '.' + name;
}

/// The keys of one stored tensor: values, and the scales beside them; roots have a key of their own for these.
struct SavedKeys {
  std::string values, scales, root_scales;
  SavedKeys(const std::string& prefix, const std::string& what, const std::string& name)
      : values(prefix + what + '.' + name),
        scales(prefix + what + "_scale." + name),
        root_scales(prefix + what + "_root_scale." + name) {}
};

/// One stored tensor of a saved state, checked against the number of elements.
struct SavedValues {
  tensor_view values;  ///< in the format that it was saved in
  std::vector<float> scales;
  std::int64_t block = 0;
  bool root = false;

  /// throws  amp::error naming the entry that is missing or does not fit
  SavedValues(const StateDict& state, const SavedKeys& keys, std::int64_t size, where at) {
    const auto it = state.find(keys.values);
    const auto type = it == state.end() ? std::nullopt : saved_dtype(it->second.type);
    const dtype format = type.value_or(dtype::fp32);
    const SavedTensor& entry =
        saved_entry(state, keys.values, saved_name(format), static_cast<std::size_t>(size) * size_of(format), at);
    values = {const_cast<std::byte*>(entry.bytes.data()), size, format, true, {}};
    if (!has_scale(format)) return;
    root = state.contains(keys.root_scales);
    const std::string& key = root ? keys.root_scales : keys.scales;
    const auto found = state.find(key);
    if (found == state.end() && format == dtype::fp16) return;  // low weights without masters have no scale
    const auto blocks = static_cast<std::size_t>((size + apply::scale_block - 1) / apply::scale_block);
    const bool per_block = found != state.end() && found->second.bytes.size() == blocks * 4 && blocks != 1;
    scales.resize(per_block ? blocks : 1);
    block = per_block ? apply::scale_block : 0;
    load_values<float>(state, key, scales, at);
  }

  [[nodiscard]] std::vector<float> floats() {
    std::vector<float> all(static_cast<std::size_t>(values.size));
    float* const present[] = {scales.data()};
    const tensor_view list[] = {values};
    lane::moments lane{list};
    lane.work = lane::pass::read;
    if (!scales.empty()) lane.scales = {present, {}, {}, block, root};
    read_floats(lane, 0, all);
    return all;
  }
  /// Whether the bits can be taken as they are.
  [[nodiscard]] bool fits(const StoredArray& array, const StoredLayout& layout) const noexcept {
    const std::int64_t wanted = array.scaled() ? layout.scale_count(values.size) : 0;
    return values.type == array.type() && root == array.root() && static_cast<std::int64_t>(scales.size()) == wanted;
  }
  void take(const tensor_view& to, float* scale) const {
    if (values.size > 0)
      std::memcpy(to.data, values.data, static_cast<std::size_t>(values.size) * size_of(values.type));
    std::copy(scales.begin(), scales.end(), scale);
  }
};
inline void save_stored(StateDict& state, const SavedKeys& keys, const tensor_view& values, const StoredArray& array,
                        const StoredLayout& layout, std::size_t i) {
  state[keys.values] = save_view(values);
  const float* scale = array.scale(layout, i);
  if (scale == nullptr || values.type != array.type()) return;
  const std::int64_t count = layout.scale_count(values.size);
  save_values<float>(state, array.root() ? keys.root_scales : keys.scales,
                     std::span(scale, static_cast<std::size_t>(count)), {count});
}
/// Rounds values into a low tensor.
inline void write_low(std::span<const float> values, const tensor_view& to) {
  const tensor_view list[] = {to};
  write_floats(lane::moments{list}, 0, values);
}
/// The compensations that bring weights to values.
inline void settle_ties(std::span<const float> values, const tensor_view& weight, const tensor_view& rest) {
  std::vector<float> difference(values.size());
  const tensor_view list[] = {weight};
  read_floats(lane::moments{list}, 0, difference);
  for (std::size_t k = 0; k < values.size(); ++k)
    difference[k] = std::isfinite(difference[k]) ? values[k] - difference[k] : 0.f;
  write_low(difference, rest);
}
/// Optimizers that keep numbers per tensor beside the moments.
template <class Opt>
concept HasTensorState = requires {
  Opt::tensor_state_names[0];
};
/// One number per parameter of a group, or none before the first step.
inline std::vector<float> saved_tensor_state(const StateDict& state, const std::string& key, std::size_t parameters,
                                             where at) {
  const auto it = state.find(key);
  const bool empty = it != state.end() && it->second.bytes.empty();
  std::vector<float> values(empty ? 0 : parameters);
  load_values<float>(state, key, values, at);
  return values;
}

}  // namespace amp::detail
