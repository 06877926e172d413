#include <ATen/ThreadLocalState.h>
#include <doctest/doctest.h>
#include <torch/torch.h>

#include <amp/core/check.hpp>
#include <amp_torch/op_cast.hpp>
#include <amp_torch/op_hooks.hpp>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "support/errors.hpp"
#include "support/skip.hpp"

using test_support::has;
using test_support::message_of;

namespace {

namespace cast = amp::cast;
using amp_torch::OpCast;
constexpr auto f32 = torch::kFloat, bf16 = torch::kBFloat16, f16 = torch::kHalf;

bool has(const torch::Tensor& t, at::ScalarType type) { return t.scalar_type() == type; }
torch::Tensor ones(std::vector<std::int64_t> sizes, at::ScalarType type = f32) { return torch::ones(sizes, type); }
torch::Tensor weight(double value = 1.) { return torch::full({2, 2}, value).requires_grad_(); }
bool runs_in(at::ScalarType type) { return has(torch::mm(ones({2, 2}), ones({2, 2})), type); }

/// False, and said so, where LibTorch's own lists are used.
bool own_lists() {
  if (!OpCast::own_lists()) test_support::skip("this LibTorch lacks the key that the toolkit's op lists need");
  return OpCast::own_lists();
}

}  // namespace

TEST_SUITE("amp_torch/op_cast") {
  TEST_CASE("C1 products run in the low type, and the gradient of an fp32 leaf is fp32") {
    for (const auto type : {bf16, f16}) {
      const auto w = torch::randn({4, 4}, torch::requires_grad());
      const auto x = torch::randn({2, 4});
      torch::Tensor y;
      {
        const OpCast region(type);
        y = torch::mm(x, w);
        CHECK(has(torch::mse_loss(y, torch::zeros_like(y)), f32));
      }
      CHECK(has(y, type));
      y.to(f32).sum().backward();
      CHECK(has(w.grad(), f32));
      CHECK(has(torch::mm(x, w), f32));
    }
  }
  TEST_CASE("C1 each family runs in its type, in the operations that modules are made of") {
    if (!own_lists()) return;
    const OpCast region(bf16);
    const auto x = torch::randn({2, 4}), low = x.to(bf16);
    CHECK(has(torch::linear(x, ones({3, 4}), ones({3})), bf16));
    CHECK(has(torch::conv2d(ones({1, 1, 4, 4}), ones({1, 1, 2, 2})), bf16));
    CHECK(has(torch::einsum("ij,kj->ik", {x, x}), bf16));
    CHECK(has(torch::matmul(x, x.t()), bf16));
    CHECK(has(torch::scaled_dot_product_attention(ones({1, 1, 2, 4}), ones({1, 1, 2, 4}), ones({1, 1, 2, 4})), bf16));
    CHECK(has(std::get<0>(torch::nn::LSTM(4, 3)(ones({2, 1, 4}))), bf16));
    for (const auto& y : {torch::exp(low), torch::softmax(low, 1), torch::log_softmax(low, 1), torch::gelu(low),
                          torch::layer_norm(low, {4}), torch::sum(low), low.std(), torch::pow(low, 2), low.norm(),
                          torch::mse_loss(low, low), torch::cumsum(low, 0), torch::softplus(low),
                          torch::logsumexp(low, 1), torch::cosine_similarity(low, low), torch::rsqrt(low.abs()),
                          torch::nn::functional::interpolate(
                              ones({1, 1, 2, 2}, bf16),
                              torch::nn::functional::InterpolateFuncOptions().size(std::vector<std::int64_t>{4, 4}))})
      CHECK(has(y, f32));
    for (const auto& y : {torch::relu(low), low.mean(), low.reshape({-1}), torch::dropout(low, 0.5, true),
                          torch::tanh(low), torch::max_pool1d(low.unsqueeze(0), 2)})
      CHECK(has(y, bf16));
    CHECK(has(torch::nn::BatchNorm1d(4)(low), bf16));  // fp32 parameters, low input
  }
  TEST_CASE("C1 operations on several tensors take the widest, sequences whole") {
    if (!own_lists()) return;
    const OpCast region(bf16);
    const auto x = ones({2}), low = ones({2}, bf16);
    CHECK(has(torch::add(low, x), f32));
    CHECK(has(torch::mul(low, low), bf16));
    CHECK(has(torch::cat({low, x, low}), f32));
    CHECK(has(torch::stack({low, low}), bf16));
    CHECK(has(torch::addcmul(low, low, x), f32));
    CHECK(has(torch::dot(low, x), f32));
    CHECK(has(low + 1.5, bf16));
    CHECK(torch::equal(torch::eq(low, x), torch::ones({2}, torch::kBool)));
  }
  TEST_CASE("C1 in-place forms take the type of the tensor written, those of fp32 operations refuse a low one") {
    if (!own_lists()) return;
    const OpCast region(bf16);
    auto low = ones({2, 2}, bf16), wide = ones({2, 2});
    low.add_(wide);
    wide.addmm_(low, low);
    CHECK(has(low, bf16));
    CHECK(has(wide, f32));
    CHECK(low[0][0].item<float>() == 2.F);
    CHECK(wide[0][0].item<float>() == 9.F);
    const auto text = message_of([&] { low.exp_(); });
    CHECK(has(text, "exp_: the in-place form of an fp32 operation"));
    CHECK_NOTHROW(wide.exp_());
  }
  TEST_CASE("C1 binary cross entropy on probabilities is refused with the logits form named, unless allowed") {
    if (!own_lists()) return;
    const auto p = torch::full({2}, 0.5, bf16), y = ones({2});
    {
      const OpCast region(bf16);
      const auto text = message_of([&] { static_cast<void>(torch::binary_cross_entropy(p, y)); });
      CHECK(has(text, "binary_cross_entropy: this operation is banned for low inputs"));
      CHECK(has(text, "binary_cross_entropy_with_logits"));
      CHECK(has(torch::binary_cross_entropy_with_logits(p, y), f32));
      CHECK(has(torch::binary_cross_entropy(p.to(f32), y), f32));
    }
    amp_torch::op_cast_options allowed;
    allowed.lists.allow_banned();
    const OpCast region(bf16, torch::kCPU, true, allowed);
    CHECK(has(torch::binary_cross_entropy(p, y), f32));
  }
  TEST_CASE("C2 doubles, integers and tensors elsewhere are left alone, fp16 with bf16 is an error") {
    if (!own_lists()) return;
    const OpCast region(bf16);
    CHECK(has(torch::mm(ones({2, 2}, torch::kDouble), ones({2, 2}, torch::kDouble)), torch::kDouble));
    CHECK(has(torch::exp(ones({2}, torch::kDouble)), torch::kDouble));
    CHECK(has(torch::add(ones({2}, torch::kLong), 1), torch::kLong));
    const auto meta = torch::ones({2, 2}, torch::TensorOptions(f32).device(torch::kMeta));
    CHECK(has(torch::mm(meta, meta), f32));
    CHECK(
        has(message_of([] { static_cast<void>(ones({2}, f16) + ones({2}, bf16)); }), "add: fp16 and bf16 inputs meet"));
    CHECK(has(torch::mm(ones({2, 2}, f16), ones({2, 2})), bf16));
  }
  TEST_CASE("C1 a copy that leaves the region's device for the CPU is fp32, unless it names another type") {
    if (!own_lists()) return;
    std::vector<std::string> lines;
    amp_torch::op_cast_options o;
    o.log = [&](std::string_view line) { lines.emplace_back(line); };
    const auto meta = torch::ones({2}, torch::TensorOptions(bf16).device(torch::kMeta));
    const OpCast region(bf16, torch::kMeta, true, o);
    // Nothing can be copied out of a meta tensor: the copy is refused after its type was chosen.
    CHECK_THROWS_AS(static_cast<void>(meta.cpu()), c10::Error);
    CHECK(lines == std::vector<std::string>{"cpu: bf16 -> fp32"});
    CHECK_THROWS_AS(static_cast<void>(meta.to(torch::TensorOptions(torch::kCPU).dtype(f16))), c10::Error);
    CHECK(has(meta.to(f16), f16));
    CHECK(has(meta.clone(), bf16));
    CHECK(lines.size() == 1);
    o.lists.set("cpu", cast::rule::free);
    const OpCast other(bf16, torch::kMeta, true, o);
    CHECK_THROWS_AS(static_cast<void>(meta.cpu()), c10::Error);
    CHECK(lines.size() == 1);
    const OpCast here(bf16);
    CHECK(has(ones({2}, bf16).to(torch::kCPU), bf16));
    CHECK(has(ones({2}, bf16).to(torch::kCPU, bf16, false, true), bf16));
  }
  TEST_CASE("C3 an output type that the caller names is kept, an unset one becomes fp32, norm's result is fp32") {
    if (!own_lists()) return;
    const OpCast region(f16);
    const auto low = torch::full({4}, 60000., f16);
    CHECK(has(torch::sum(low), f32));
    CHECK(torch::sum(low).item<float>() == doctest::Approx(240000.).epsilon(1e-3));
    CHECK(has(torch::sum(low, f16), f16));
    CHECK(has(torch::softmax(low, 0, bf16), bf16));
    CHECK(has(torch::sum(low, torch::kDouble), torch::kDouble));
    CHECK(has(torch::norm(low), f32));
    CHECK(std::isfinite(torch::norm(low).item<float>()));
    CHECK(has(torch::norm(low, 2, torch::kDouble), torch::kDouble));
  }
  TEST_CASE("C4 a weight is cast once per outermost region, and the gradients of all uses sum in the fp32 leaf") {
    if (!own_lists()) return;
    const auto w = weight();
    const auto x = ones({2, 2}, bf16);
    torch::Tensor loss;
    {
      const OpCast region(bf16);
      loss = torch::mm(x, w).sum() + torch::mm(x, w).sum();
      {
        const OpCast inner(bf16);
        loss = loss + torch::mm(x, w).sum();
      }
      CHECK(OpCast::casts() == 1);
    }
    loss.backward();
    CHECK(torch::equal(w.grad(), torch::full({2, 2}, 6.)));
    const OpCast next(bf16);
    static_cast<void>(torch::mm(x, w));
    CHECK(OpCast::casts() == 1);
  }
  TEST_CASE("C4 the cache is dropped by clear_cache, and can be off") {
    if (!own_lists()) return;
    const auto w = weight();
    const auto x = ones({2, 2}, bf16);
    const OpCast region(bf16);
    static_cast<void>(torch::mm(x, w)), OpCast::clear_cache(), static_cast<void>(torch::mm(x, w));
    CHECK(OpCast::casts() == 2);
    amp_torch::op_cast_options uncached;
    uncached.cache = false;
    const OpCast inner(bf16, torch::kCPU, true, uncached);
    for (int i = 0; i < 3; ++i) static_cast<void>(torch::mm(x, w));
    CHECK(OpCast::casts() == 5);
  }
  TEST_CASE("C4 a cast made without gradients is not used with them, one made with them serves both") {
    if (!own_lists()) return;
    const auto w = weight();
    const auto x = ones({2, 2}, bf16);
    const OpCast region(bf16);
    {
      const torch::NoGradGuard guard;
      static_cast<void>(torch::mm(x, w));
    }
    const auto y = torch::mm(x, w);
    CHECK(OpCast::casts() == 2);
    CHECK(y.requires_grad());
    {
      const torch::NoGradGuard guard;
      static_cast<void>(torch::mm(x, w));
    }
    CHECK(OpCast::casts() == 2);
  }
  TEST_CASE("C4 a weight written in place, or given other storage, since its cast is not served stale") {
    auto w = weight();
    const auto product = [&] { return torch::mm(ones({1, 2}), w).to(f32).sum().item<float>(); };
    const OpCast region(bf16);
    CHECK(product() == 4.F);
    if (!own_lists()) return;
    {
      const torch::NoGradGuard guard;
      w.fill_(2.F);
    }
    CHECK(product() == 8.F);
    w.set_data(torch::full({2, 2}, 3.F));
    CHECK(product() == 12.F);
  }
  TEST_CASE("C5 regions nest, an inner disabled region restores the outer state, on exceptions too") {
    const OpCast none;
    CHECK(runs_in(f32));
    {
      const OpCast outer(bf16);
      {
        const OpCast off(bf16, torch::kCPU, false);
        CHECK(runs_in(f32));
        CHECK_FALSE(OpCast::type().has_value());
        const OpCast on(f16);
        CHECK(runs_in(f16));
      }
      CHECK(runs_in(bf16));
      try {
        const OpCast half(f16);
        CHECK(runs_in(f16));
        throw std::runtime_error("leaves the region");
      } catch (const std::runtime_error&) {
      }
      CHECK(runs_in(bf16));
      CHECK(OpCast::type() == bf16);
    }
    CHECK(runs_in(f32));
  }
  TEST_CASE("C5 the region goes along to threads that take LibTorch's thread state over, and to no others") {
    if (!own_lists()) return;
    const auto w = weight();
    const OpCast region(bf16);
    static_cast<void>(torch::mm(ones({2, 2}, bf16), w));
    bool carried = false, plain = false;
    std::int64_t casts = -1;
    const at::ThreadLocalState state;
    std::thread([&] {
      plain = runs_in(f32);
      const at::ThreadLocalStateGuard guard(state);
      carried = runs_in(bf16) && OpCast::type() == bf16;
      static_cast<void>(torch::mm(ones({2, 2}, bf16), w));
      casts = OpCast::casts();
    }).join();
    CHECK(plain);
    CHECK(carried);
    CHECK(casts == 3);  // the weight's cast is shared; runs_in casts two tensors
  }
  TEST_CASE("C5 a backward inside of a region sees it in a function of the user's own") {
    if (!own_lists()) return;
    struct Probe : torch::autograd::Function<Probe> {
      static torch::Tensor forward(torch::autograd::AutogradContext*, const torch::Tensor& x) { return x.clone(); }
      static torch::autograd::tensor_list backward(torch::autograd::AutogradContext*, torch::autograd::tensor_list g) {
        return {torch::mm(g[0], g[0]).to(f32) + (OpCast::type() == bf16 ? 100. : 0.)};
      }
    };
    const auto w = weight();
    const OpCast region(bf16);
    Probe::apply(w).sum().backward();
    CHECK(w.grad()[0][0].item<float>() == 102.F);
  }
  TEST_CASE("C4 C5 many threads share one cache") {
    if (!own_lists()) return;
    const auto w = weight();
    const OpCast region(bf16);
    const at::ThreadLocalState state;
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&] {
        const at::ThreadLocalStateGuard guard(state);
        for (int i = 0; i < 50; ++i) static_cast<void>(torch::mm(ones({2, 2}, bf16), w));
      });
    }
    for (auto& t : threads) t.join();
    CHECK(OpCast::casts() == 1);
  }
  TEST_CASE("C6 lists of a scope override an operation, and those of the outer scope come back") {
    if (!own_lists()) return;
    const OpCast outer(bf16);
    {
      amp_torch::op_cast_options o;
      o.lists.set("mm", cast::rule::fp32).set("tanh", cast::rule::fp32);
      const OpCast inner(bf16, torch::kCPU, true, o);
      CHECK(runs_in(f32));
      CHECK(has(torch::tanh(ones({1}, bf16)), f32));
    }
    CHECK(runs_in(bf16));
  }
  TEST_CASE("C6 functions of the user's own are forced low, to fp32 or to the widest input, only inside of a region") {
    const auto type = [](const torch::Tensor& a, const std::vector<torch::Tensor>& more) {
      return std::pair(a.scalar_type(), more.empty() ? a.scalar_type() : more[0].scalar_type());
    };
    const auto low = amp_torch::low_function(type), wide = amp_torch::fp32_function(type),
               both = amp_torch::promote_function(type);
    using Types = std::pair<at::ScalarType, at::ScalarType>;
    CHECK((low(ones({1}), std::vector<torch::Tensor>{}) == Types(f32, f32)));
    const OpCast region(bf16);
    CHECK((low(ones({1}), std::vector{ones({1})}) == Types(bf16, bf16)));
    CHECK((wide(ones({1}, bf16), std::vector{ones({1})}) == Types(f32, f32)));
    CHECK((both(ones({1}, bf16), std::vector{ones({1})}) == Types(f32, f32)));
    CHECK((both(ones({1}, bf16), std::vector<torch::Tensor>{}) == Types(bf16, bf16)));
    CHECK(has(message_of([&] { static_cast<void>(both(ones({1}, bf16), std::vector{ones({1}, f16)})); }),
              "no common low type"));
    const OpCast off(bf16, torch::kCPU, false);
    CHECK((low(ones({1}), std::vector<torch::Tensor>{}) == Types(f32, f32)));
  }
  TEST_CASE("C2 C6 functions of the user's own cast tensors of the region's device only, and never doubles") {
    const auto types = [](const torch::Tensor& a, const torch::Tensor& b) {
      return std::pair(a.scalar_type(), b.scalar_type());
    };
    using Types = std::pair<at::ScalarType, at::ScalarType>;
    const auto meta = torch::ones({2}, torch::TensorOptions(f32).device(torch::kMeta));
    const auto low = amp_torch::low_function(types), both = amp_torch::promote_function(types);
    {
      const OpCast region(bf16);
      CHECK((OpCast::device() == torch::kCPU));
      CHECK((low(ones({2}), meta) == Types(bf16, f32)));
      CHECK((low(ones({2}, torch::kDouble), ones({2})) == Types(torch::kDouble, bf16)));
      CHECK((both(ones({2}, bf16), meta) == Types(bf16, f32)));
    }
    CHECK_FALSE(OpCast::device().has_value());
    if (!own_lists()) return;
    const OpCast region(bf16, torch::kMeta);
    CHECK((OpCast::device() == torch::kMeta));
    CHECK((low(ones({2}), meta) == Types(f32, bf16)));
    const OpCast off(bf16, torch::kMeta, false);
    CHECK_FALSE(OpCast::device().has_value());
  }
  TEST_CASE("C6 each cast is told in a line, and whether it came from the cache") {
    if (!own_lists()) return;
    std::vector<std::string> lines;
    amp_torch::op_cast_options o;
    o.log = [&](std::string_view line) { lines.emplace_back(line); };
    const auto w = weight();
    const OpCast region(bf16, torch::kCPU, true, o);
    static_cast<void>(torch::mm(ones({2, 2}, bf16), w));
    static_cast<void>(torch::mm(ones({2, 2}, bf16), w));
    static_cast<void>(torch::exp(ones({1}, bf16)));
    CHECK(lines == std::vector<std::string>{"mm: fp32 -> bf16", "mm: fp32 -> bf16 (cached)", "exp: bf16 -> fp32"});
  }
}
