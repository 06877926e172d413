/// Cuts lists of tensors into work items: chunks of large tensors, groups of small ones. Shared by threads and thread
/// blocks.
#pragma once
#include <algorithm>
#include <amp/core/check.hpp>
#include <amp/tensor/list.hpp>
#include <cstdint>
#include <vector>

namespace amp::apply {

/// Elements per chunk where nothing else is asked: a chunk of five fp32 lists fits in L2.
inline constexpr std::int64_t default_chunk = 65536;

/// A contiguous range of one tensor; what a functor may know about where it is.
struct piece {
  std::int64_t tensor;  ///< index in the lists
  std::int64_t chunk;   ///< index within the tensor
  std::int64_t offset;  ///< first element
  std::int64_t length;  ///< elements, 1 <= length <= chunk size
};

/// Unit that one thread takes: one chunk of a tensor (`tensors` == 1), or `tensors` whole neighbours, empty ones
/// included.
struct work_item {
  std::int64_t tensor;
  std::int64_t tensors;
  std::int64_t offset;
  std::int64_t length;  ///< elements in all
};

/// The work items of a list, and its element count. Sizes and offsets are 64-bit; tensors without elements take no
/// slot.
class plan {
 public:
  /// throws  amp::error if chunk < 1 or a size is negative
  plan(tensor_list tensors, std::int64_t chunk, where at = where::here()) : chunk_(chunk) {
    expects(
        chunk >= 1, [&] { return "chunk size is " + std::to_string(chunk) + "; it must be at least 1"; }, at);
    items_.reserve(count_items(tensors, chunk));
    work_item open{0, 0, 0, 0};
    const auto close = [&] {
      if (open.length > 0) items_.push_back(open);
      open.length = 0;
    };
    for (std::int64_t t = 0; t < static_cast<std::int64_t>(tensors.size()); ++t) {
      const std::int64_t size = tensors[static_cast<std::size_t>(t)].size;
      if (size <= 0) continue;
      elements_ += size;
      if (open.length + size > chunk) close();
      if (size >= chunk) {
        for (std::int64_t offset = 0; offset < size; offset += chunk) {
          items_.push_back({t, 1, offset, std::min(chunk, size - offset)});
        }
        continue;
      }
      if (open.length == 0) open = {t, 0, 0, 0};
      open.tensors = t - open.tensor + 1;
      open.length += size;
    }
    close();
  }

  [[nodiscard]] const std::vector<work_item>& items() const noexcept { return items_; }
  [[nodiscard]] std::int64_t chunk() const noexcept { return chunk_; }
  [[nodiscard]] std::int64_t elements() const noexcept { return elements_; }

 private:
  /// An upper bound: groups are never more than their tensors.
  static std::size_t count_items(tensor_list tensors, std::int64_t chunk) noexcept {
    std::int64_t count = 0;
    for (const auto& tensor : tensors) count += tensor.size > 0 ? (tensor.size - 1) / chunk + 1 : 0;
    return static_cast<std::size_t>(count);
  }

  std::vector<work_item> items_;
  std::int64_t chunk_;
  std::int64_t elements_ = 0;
};

/// Calls `f(piece)` for each range of an item, in order.
template <class F>
AMP_INLINE void for_each_piece(const work_item& item, std::int64_t chunk, tensor_list sizes, const F& f) {
  // One call only: `f` is inlined, and it is large.
  for (std::int64_t t = item.tensor; t < item.tensor + item.tensors; ++t) {
    const bool whole = item.tensors > 1;
    const std::int64_t length = whole ? sizes[static_cast<std::size_t>(t)].size : item.length;
    const std::int64_t offset = whole ? 0 : item.offset;
    if (length > 0) f(piece{t, offset / chunk, offset, length});
  }
}

}  // namespace amp::apply
