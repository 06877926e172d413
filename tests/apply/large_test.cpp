#include <doctest/doctest.h>

#include <amp/apply/fold.hpp>
#include <amp/apply/plan.hpp>
#include <amp/fn/l2norm.hpp>
#include <cstddef>
#include <cstdint>

#include "support/skip.hpp"

#if defined(__linux__)
#include <sys/mman.h>

namespace {

/// Reserved zero pages: what is only read shares one page of memory.
class Reserved {
 public:
  explicit Reserved(std::int64_t bytes) : bytes_(static_cast<std::size_t>(bytes)) {
    void* p = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p != MAP_FAILED) data_ = static_cast<std::uint8_t*>(p);
  }
  ~Reserved() {
    if (data_ != nullptr) munmap(data_, bytes_);
  }
  Reserved(const Reserved&) = delete;  // the mapping belongs to one object
  Reserved& operator=(const Reserved&) = delete;
  [[nodiscard]] std::uint8_t* data() const { return data_; }

 private:
  std::size_t bytes_;
  std::uint8_t* data_ = nullptr;
};

constexpr std::uint8_t one = 0x38, two = 0x40;  // e4m3

}  // namespace

TEST_SUITE("apply/large") {
  TEST_CASE("A4 B35 a tensor of more than 2^32 elements is read to its last one") {
#if !defined(__OPTIMIZE__)
    return test_support::skip("reading 2^32 elements takes minutes without optimisation");
#endif
    constexpr std::int64_t size = (std::int64_t{1} << 32) + 5;
    const Reserved memory(size);
    if (memory.data() == nullptr) return test_support::skip("4 GB of address space cannot be reserved");
    memory.data()[0] = one;
    memory.data()[(std::int64_t{1} << 31) + 3] = one;
    memory.data()[std::int64_t{1} << 32] = one;
    memory.data()[size - 1] = two;
    const amp::tensor_view list[] = {{nullptr, 0, amp::dtype::fp32, false, {}},
                                     {memory.data(), size, amp::dtype::e4m3, true, "large"}};
    const amp::norm_result norm = amp::fn::l2norm(amp::exec::threads{2}, list);
    CHECK(norm.per_tensor[1] * norm.per_tensor[1] == doctest::Approx(7.));
    CHECK(norm.finite);
  }
}
#endif

TEST_SUITE("apply/plan") {
  TEST_CASE("A4 B35 fp32 tensors of 2^32 + 1 elements are planned without a gap, first and last offset right") {
    constexpr std::int64_t size = (std::int64_t{1} << 32) + 1;
    char anywhere = 0;
    const amp::tensor_view list[] = {{&anywhere, 3, amp::dtype::fp32, false, {}},
                                     {&anywhere, size, amp::dtype::fp32, false, {}},
                                     {&anywhere, size, amp::dtype::bf16, false, {}}};
    const amp::apply::plan plan(list, amp::apply::default_chunk);
    CHECK(plan.elements() == 2 * size + 3);
    CHECK(plan.items().size() == 1 + 2 * 65537u);
    std::int64_t expected = 0, tensor = 1;
    bool right = true;
    for (std::size_t i = 1; i < plan.items().size(); ++i) {
      const auto& item = plan.items()[i];
      if (expected == size) expected = 0, ++tensor;
      right &= item.tensor == tensor && item.offset == expected && item.length > 0;
      expected += item.length;
    }
    CHECK(right);
    CHECK(expected == size);
    CHECK(plan.items().back().length == 1);
  }
}
