/// Zeroed memory for masters, moments and gradients that are put aside.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>

namespace amp::detail {

/// `size` bytes, all 0, aligned for the widest vectors. calloc'd: pages that nothing touches cost no memory, so the
/// moments of a parameter that never gets a gradient are free.
class StateBuffer {
 public:
  StateBuffer() = default;
  /// `shift` moves the start by some cache lines: streams that are walked in step should not share their low 12 address
  /// bits, or loads wait for unrelated stores.
  explicit StateBuffer(std::size_t size, int shift = 0) : size_(size) {
    const std::size_t lead = 64 + static_cast<std::size_t>(shift) * 64;
    memory_.reset(std::calloc(size + lead, 1));
    if (!memory_) throw std::bad_alloc();
    const auto address = reinterpret_cast<std::uintptr_t>(memory_.get());
    data_ = reinterpret_cast<std::byte*>((address + 63) / 64 * 64 + static_cast<std::uintptr_t>(shift) * 64);
  }

  [[nodiscard]] std::byte* data() const noexcept { return data_; }
  [[nodiscard]] std::size_t size() const noexcept { return size_; }
  [[nodiscard]] bool empty() const noexcept { return data_ == nullptr; }

 private:
  struct Free {
    void operator()(void* p) const noexcept { std::free(p); }
  };
  std::unique_ptr<void, Free> memory_;
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace amp::detail
