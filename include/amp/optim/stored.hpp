/// Arrays that lie beside the parameters of a group, in formats of their own, and the lists that a pass makes of them.
#pragma once
#include <algorithm>
#include <amp/apply/stored_lanes.hpp>
#include <amp/core/dtype.hpp>
#include <amp/half_traits.hpp>
#include <amp/optim/buffer.hpp>
#include <amp/optim/storage.hpp>
#include <amp/tensor/view.hpp>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

namespace amp::detail {

/// Where the tensors of a group lie in an array: element offsets, and offsets of their scales.
struct StoredLayout {
  std::vector<std::int64_t> element, scale;
  std::int64_t elements = 0, scales = 0;
  bool gaps = true;  ///< every tensor starts on a cache line
  scale_per per = scale_per::tensor;

  void add(std::int64_t size) {
    element.push_back(elements);
    scale.push_back(scales);
    elements += gaps ? (size + 15) / 16 * 16 : size;
    scales += scale_count(size);
  }
  [[nodiscard]] std::int64_t scale_count(std::int64_t size) const noexcept {
    return per == scale_per::tensor ? 1 : (size + apply::scale_block - 1) / apply::scale_block;
  }
  [[nodiscard]] std::int64_t block() const noexcept { return per == scale_per::tensor ? 0 : apply::scale_block; }
};

/// One array over the tensors of a group. It owns what it points at as a pointer does: const arrays give views that
/// may be written.
class StoredArray {
 public:
  StoredArray() = default;
  StoredArray(dtype type, const StoredLayout& layout, int shift, bool root = false)
      : type_(type), root_(root), bytes_(static_cast<std::size_t>(layout.elements) * size_of(type), shift) {
    if (!has_scale(type)) return;
    scale_count_ = static_cast<std::size_t>(layout.scales);
    scales_.reset(new float[scale_count_]);
    std::fill_n(scales_.get(), scale_count_, 1.f);
  }

  [[nodiscard]] bool empty() const noexcept { return bytes_.empty(); }
  [[nodiscard]] dtype type() const noexcept { return type_; }
  /// Whether roots are stored; only in formats whose range the values themselves would exceed.
  [[nodiscard]] bool root() const noexcept { return root_; }
  [[nodiscard]] bool scaled() const noexcept { return scales_ != nullptr; }
  [[nodiscard]] tensor_view view(const StoredLayout& at, std::size_t i, std::int64_t size,
                                 std::string_view name) const noexcept {
    return {bytes_.data() + static_cast<std::size_t>(at.element[i]) * size_of(type_), size, type_, false, name};
  }
  [[nodiscard]] float* scale(const StoredLayout& at, std::size_t i) const noexcept {
    return scaled() ? scales_.get() + at.scale[i] : nullptr;
  }
  /// What it takes of memory.
  [[nodiscard]] std::int64_t bytes() const noexcept {
    return static_cast<std::int64_t>(bytes_.size() + scale_count_ * sizeof(float));
  }

 private:
  dtype type_ = dtype::fp32;
  bool root_ = false;
  StateBuffer bytes_;
  std::unique_ptr<float[]> scales_;
  std::size_t scale_count_ = 0;
};

/// A list of stored tensors as lanes take it, with room for what a measuring pass finds.
class StoredList {
 public:
  std::vector<tensor_view> views;

  void clear() { views.clear(), present_.clear(); }
  void add(const tensor_view& view, float* scale) {
    views.push_back(view);
    if (scale != nullptr) present_.push_back(scale);
  }
  /// Whether scales are known only after a pass has measured.
  [[nodiscard]] bool needs_measuring(std::int64_t block) const noexcept { return !present_.empty() && block == 0; }
  [[nodiscard]] lane::scale_list scales(std::int64_t block, bool root, lane::pass work) {
    if (present_.empty()) return {};
    if (work == lane::pass::measure) peak_.assign(present_.size(), 0);
    return {present_, next_, peak_, block, root};
  }
  /// After the measuring pass: what the storing one divides by.
  void find_next(bool root) {
    next_.clear();
    for (std::size_t t = 0; t < present_.size(); ++t)
      next_.push_back(apply::scale_of_peak(peak_[t], apply::stored_range(views[t].type), root));
  }
  /// After the storing pass.
  void take_next() {
    for (std::size_t t = 0; t < next_.size(); ++t) *present_[t] = next_[t];
    next_.clear();
  }

 private:
  std::vector<float*> present_;
  std::vector<float> next_;
  std::vector<std::uint32_t> peak_;
};

/// The lists of one pass over a group: what is stepped with its low copies and completions, its moments, its gradients.
template <int States>
struct StepLists {
  StoredList weights;
  std::vector<tensor_view> copies, rest, grads;
  std::array<StoredList, static_cast<std::size_t>(States)> moments;
  std::vector<std::uint8_t> first;     ///< 1: this tensor has no state yet
  std::vector<std::size_t> parameter;  ///< index in the group
  std::vector<std::uint64_t> stream;   ///< of random bits

  void clear() {
    weights.clear(), copies.clear(), rest.clear(), grads.clear();
    first.clear(), parameter.clear(), stream.clear();
    for (auto& list : moments) list.clear();
  }
};

/// Elements of a lane at a time between stored tensors and plain floats, outside of kernels: state that is saved and
/// loaded.
using copy_vec = simd::vec<float, 4>;

template <class L>
void read_floats(const L& lane, std::int64_t t, std::span<float> to) {
  const simd::flush_scope flush;
  alignas(64) float buffer[apply::scratch_elements];
  const auto size = static_cast<std::int64_t>(to.size());
  for (std::int64_t done = 0; done < size; done += apply::scratch_elements) {
    const std::int64_t n = std::min(apply::scratch_elements, size - done);
    const float* from = lane.template stage<copy_vec>(t, done, n, buffer);
    std::copy_n(from, n, to.data() + done);
  }
}
template <class L>
void write_floats(const L& lane, std::int64_t t, std::span<const float> from) {
  const simd::flush_scope flush;
  alignas(64) float buffer[apply::scratch_elements];
  const auto size = static_cast<std::int64_t>(from.size());
  for (std::int64_t done = 0; done < size; done += apply::scratch_elements) {
    const std::int64_t n = std::min(apply::scratch_elements, size - done);
    float* to = lane.template stage<copy_vec>(t, done, n, buffer);
    std::copy_n(from.data() + done, n, to);
    lane.template unstage<copy_vec>(t, done, n, to);
  }
}

}  // namespace amp::detail
