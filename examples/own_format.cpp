// A format and a functor of the user's: whole sixteenths in a byte, beside fp32 and fp16 in one call.
#include <algorithm>
#include <amp/amp.hpp>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <vector>

/// How a list of bytes is read and written as floats; the engine asks for up to 512 elements at a time.
struct sixteenths {
  amp::tensor_list list;
  static constexpr bool reads = true, writes = true, copies = false, checked = false;

  const amp::tensor_view& tensor(std::int64_t t) const { return list[static_cast<std::size_t>(t)]; }
  std::int8_t* codes(std::int64_t t, std::int64_t at) const { return static_cast<std::int8_t*>(tensor(t).data) + at; }
  template <class V>
  float* stage(std::int64_t t, std::int64_t offset, std::int64_t n, float* buffer) const {
    std::transform(codes(t, offset), codes(t, offset + n), buffer, [](int code) { return float(code) / 16.f; });
    return buffer;
  }
  template <class V>
  void unstage(std::int64_t t, std::int64_t offset, std::int64_t n, const float* values) const {
    const auto round = [](float x) { return std::int8_t(std::nearbyint(std::clamp(16.f * x, -127.f, 127.f))); };
    std::transform(values, values + n, codes(t, offset), round);
  }
  template <class V>
  auto bind_floats(std::int64_t, float* p) const {
    return amp::lane::ref::inout<V, float, amp::lane::none>{p, nullptr};
  }
};

struct Mix {  // the functor sees floats, whatever the lists hold
  template <class V>
  AMP_INLINE void operator()(V& kept, const V& a, const V& b) const {
    kept = 0.5f * kept + a * b;
  }
};

int main() {
  std::vector<std::int8_t> kept(1000, 32);  // each is 2
  const std::vector<std::vector<float>> a{std::vector<float>(1000, 1.5f)};
  const std::vector<std::vector<amp::half>> b{std::vector<amp::half>(1000, amp::half(-3.f))};
  const amp::tensor_view bytes{kept.data(), 1000, amp::dtype::e4m3};  // the list holds addresses and sizes
  amp::multi_tensor_apply(amp::exec::vectorized{}, Mix{}, sixteenths{{&bytes, 1}}, a, b);
  std::printf("0.5 * 2 + 1.5 * -3 = %g\n", kept[999] / 16.);
  return std::all_of(kept.begin(), kept.end(), [](int code) { return code == -56; }) ? 0 : 1;
}
