#include <doctest/doctest.h>

#include <amp/apply/stored_lanes.hpp>
#include <amp/fn/copy.hpp>
#include <amp/fn/sgd.hpp>
#include <amp/multi_tensor_apply.hpp>
#include <amp/optim/executor.hpp>
#include <cstdint>
#include <cstring>
#include <limits>
#include <list>
#include <vector>

#include "apply/tensors.hpp"

using amp::dtype;
using test_apply::Tensors;
namespace exec = amp::exec;
namespace lane = amp::lane;

namespace {

/// Lanes (out, in), switched off by a flag.
struct DoubleUnlessFlagged {
  const int* flag;
  bool skips() const { return *flag != 0; }
  template <class V>
  AMP_INLINE void operator()(V& out, const V& in) const {
    out = in + in;
  }
};
void run(const exec::any& executor, const int* flag, Tensors& out, const Tensors& in, amp::nonfinite_report& report) {
  amp::multi_tensor_apply(executor, DoubleUnlessFlagged{flag}, lane::out(out.list()),
                          lane::in(in.list()).check(report));
}
const std::vector<dtype> all_formats{dtype::fp32, dtype::fp16,     dtype::bf16,    dtype::e4m3,
                                     dtype::e5m2, dtype::e4m3fnuz, dtype::e5m2fnuz};
constexpr int off = 0, on = 1;

}  // namespace

TEST_SUITE("apply/edges") {
  TEST_CASE("A5 B40 every start and odd length gives the same values, and no byte around a tensor is touched") {
    std::vector<std::int64_t> sizes;
    for (std::int64_t n = 0; n <= 33; ++n) sizes.push_back(n);
    amp::nonfinite_report report;
    for (const dtype type : all_formats) {
      Tensors aligned_in(sizes, {type}), aligned_out(sizes, {type});
      aligned_in.randomize(3, 1.f);
      run(exec::scalar{}, &off, aligned_out, aligned_in, report);
      for (const std::int64_t shift : {1, 3, 5}) {
        Tensors in(sizes, {type}, shift), out(sizes, {type}, shift);
        in.randomize(3, 1.f);
        run(exec::vectorized{.chunk = 7}, &off, out, in, report);
        CHECK(in.guards_intact());
        CHECK(out.guards_intact());
        bool equal = true;
        for (std::size_t t = 0; t < sizes.size(); ++t)
          for (std::int64_t i = 0; i < sizes[t]; ++i) equal &= out.at(t, i) == aligned_out.at(t, i);
        CHECK(equal);
      }
    }
    CHECK_FALSE(report.found());
  }
  TEST_CASE("A3 empty tensors first, in the middle, last or all over do not stop the others") {
    amp::nonfinite_report report;
    for (const auto& sizes : std::vector<std::vector<std::int64_t>>{
             {0, 5, 7}, {5, 0, 0, 7}, {5, 7, 0}, {0, 0, 5, 0, 7, 0, 0}, {0, 0, 0}, {}}) {
      Tensors in(sizes, {dtype::bf16}), out(sizes, {dtype::fp32});
      in.fill(1.5f), out.fill(0.f);
      run(exec::threads{2}, &off, out, in, report);
      for (std::size_t t = 0; t < sizes.size(); ++t)
        for (std::int64_t i = 0; i < sizes[t]; ++i) CHECK(out.at(t, i) == 3.f);
    }
  }
  TEST_CASE("A6 a functor of the noop kind returns at once when its flag is 1, with nothing written or reported") {
    Tensors in({100, 3}, {dtype::fp32}), out({100, 3}, {dtype::fp16});
    in.fill(std::numeric_limits<float>::infinity()), out.fill(7.f);
    const auto before = out.bytes();
    amp::nonfinite_report report;
    run(exec::threads{2}, &on, out, in, report);
    CHECK(out.bytes() == before);
    CHECK_FALSE(report.found());
    run(exec::threads{2}, &off, out, in, report);  // values propagate all the same
    CHECK(report.flag == 1);
    CHECK(out.at(1, 2) == std::numeric_limits<float>::infinity());
  }
  TEST_CASE("A6 A7 a list may be its own output and be read twice, a part of it may not") {
    std::vector<float> x(64, 1.f);
    std::vector<amp::tensor_view> whole{amp::as_view(x)}, shifted{amp::as_view(x.data() + 1, 63)},
        shorter{amp::as_view(x.data(), 63)};
    amp::multi_tensor_apply(exec::vectorized{}, DoubleUnlessFlagged{&off}, lane::out(whole), lane::in(whole));
    CHECK(x[63] == 2.f);
    CHECK_THROWS_WITH_AS(
        amp::multi_tensor_apply(exec::vectorized{}, DoubleUnlessFlagged{&off}, lane::out(shorter), lane::in(shifted)),
        doctest::Contains("list 0, tensor 0 partly overlaps that of list 1"), amp::error);
    std::vector<amp::tensor_view> low{{x.data(), 64, dtype::bf16, false, "low"}};
    CHECK_THROWS_WITH_AS(
        amp::multi_tensor_apply(exec::vectorized{}, DoubleUnlessFlagged{&off}, lane::out(low), lane::in(whole)),
        doctest::Contains("(low) partly overlaps"), amp::error);
    CHECK(x[0] == 2.f);
    // Repeated and overlapping tensors that are only read are fine.
    std::vector<float> y(63), z(63);
    std::vector<amp::tensor_view> out{amp::as_view(y), amp::as_view(z)};
    std::vector<amp::tensor_view> twice{amp::as_view(x.data(), 63), amp::as_view(x.data() + 1, 63)};
    amp::multi_tensor_apply(exec::vectorized{}, DoubleUnlessFlagged{&off}, lane::out(out), lane::in(twice));
    CHECK(y == std::vector<float>(63, 4.f));
    CHECK(z == y);
  }
  TEST_CASE("A6 A7 copies and completions lie apart from every other list, or in one place with a tensor of it") {
    std::vector<float> w(64, 1.f), m(64), g(64, 1.f);
    std::vector<amp::bfloat16> low(66);
    const auto views = [](auto* p, std::int64_t n = 64) { return std::vector{amp::as_view(p, n)}; };
    const auto weights = views(w.data()), grads = views(g.data()), moments = views(m.data());
    const auto copy = views(low.data()), in_moments = views(reinterpret_cast<amp::bfloat16*>(m.data() + 3));
    const auto step = [&](const auto& weight_lane, const auto& grad_list) {
      amp::multi_tensor_apply(exec::vectorized{}, amp::fn::Sgd{.lr = 1.f, .momentum = 0.5f}, weight_lane,
                              lane::inout(moments), lane::in(grad_list));
    };
    const auto refused = [&](const auto& weight_lane, const auto& grad_list, const char* text) {
      CHECK_THROWS_WITH_AS(step(weight_lane, grad_list), doctest::Contains(text), amp::error);
      CHECK(w == std::vector<float>(64, 1.f));
    };
    refused(lane::inout_with_copy(weights, in_moments), grads,
            "the copy of list 0, tensor 0 partly overlaps that of list 1");
    refused(lane::inout_with_copy(weights, copy), views(low.data() + 1), "partly overlaps that of list 2");
    constexpr auto form = amp::completion::compensation;
    const auto none = std::vector{amp::tensor_view{nullptr, 64, dtype::fp32, false, {}}};
    const auto low_weights = views(low.data() + 2);
    refused(lane::weights{low_weights, none, copy, form}, grads,
            "list 0, tensor 0 partly overlaps that of the completion of list 0");
    std::vector<amp::bfloat16> rest(64);
    const auto short_rest = views(rest.data(), 63), whole_rest = views(rest.data());
    refused(lane::weights{low_weights, none, short_rest, form}, grads, "the completion of list 0, tensor 0 must be");
    step(lane::weights{low_weights, none, whole_rest, form}, grads);
    CHECK(float(low[2]) == -1.f);
    step(lane::inout_with_copy(weights, copy), views(low.data()));  // the gradients give way to the new weights
    CHECK(float(low[0]) == w[0]);
  }
  TEST_CASE("A2 a range that is not dense is no tensor: refused when compiled") {
    static_assert(!amp::Viewable<std::list<float>>);
    static_assert(!amp::Viewable<std::vector<double>>);
    static_assert(amp::Viewable<std::vector<float>>);
    CHECK_THROWS_WITH_AS(amp::multi_tensor_apply(exec::vectorized{.chunk = 0}, DoubleUnlessFlagged{&off},
                                                 lane::out(amp::tensor_list{}), lane::in(amp::tensor_list{})),
                         doctest::Contains("chunk size is 0"), amp::error);
  }
}
