#include "train/fp8_products.hpp"

#include <torch/torch.h>

#include <amp/nn/fp8_linear.hpp>
#include <amp_torch/exec.hpp>
#include <amp_torch/view.hpp>
#include <cstdint>
#include <span>
#include <utility>

#include "config/errors.hpp"
#include "model/clipbert.hpp"

namespace clipbert::train {

class Fp8Product {
 public:
  virtual ~Fp8Product() = default;
  virtual void forward(const amp::matrix_view& y, const amp::matrix_view& x, const amp::matrix_view& w,
                       const amp::tensor_view& b) = 0;
  virtual void backward(const amp::nn::linear_gradients& grads, const amp::matrix_view& dy, const amp::matrix_view& x,
                        const amp::matrix_view& w) = 0;
  virtual void end_step() = 0;
  virtual void forget_weights() = 0;
  virtual std::span<amp::fp8::DelayedScale> scales() = 0;
};

namespace {

template <class Recipe>
class ProductOf final : public Fp8Product {
 public:
  void forward(const amp::matrix_view& y, const amp::matrix_view& x, const amp::matrix_view& w,
               const amp::tensor_view& b) override {
    linear_.forward(amp_torch::default_executor(), y, x, w, b, {.first_microbatch = new_rows_});
    new_rows_ = false;
  }
  void backward(const amp::nn::linear_gradients& grads, const amp::matrix_view& dy, const amp::matrix_view& x,
                const amp::matrix_view& w) override {
    linear_.backward(amp_torch::default_executor(), grads, dy, x, w, {.first_microbatch = new_columns_});
    new_columns_ = false;
  }
  void end_step() override {
    linear_.update();
    forget_weights();
  }
  void forget_weights() override {
    new_rows_ = true;
    new_columns_ = !amp::fp8::is_per_tensor<Recipe>;  // one quantised weight serves both ways
  }
  std::span<amp::fp8::DelayedScale> scales() override { return linear_.scales(); }

 private:
  amp::fp8::Linear<Recipe> linear_;
  bool new_rows_ = true, new_columns_ = !amp::fp8::is_per_tensor<Recipe>;  ///< the weight has changed since
};

std::unique_ptr<Fp8Product> make_product(const std::string& recipe) {
  using namespace amp::fp8;  // NOLINT: the recipes' names
  if (recipe == "delayed") return std::make_unique<ProductOf<recipe_type<amp::fp8::hybrid>>>();
  if (recipe == "current") return std::make_unique<ProductOf<recipe_type<amp::fp8::current>>>();
  if (recipe == "block") return std::make_unique<ProductOf<recipe_type<amp::fp8::block>>>();
  if (recipe == "mxfp8") return std::make_unique<ProductOf<recipe_type<amp::fp8::mxfp8>>>();
  throw usage_error("fp8_recipe " + recipe + " is not known; use none, delayed, current, block or mxfp8");
}

amp::matrix_view rows_of(const at::Tensor& t, std::int64_t columns) {
  return amp::as_matrix(amp_torch::view_of(t), columns);
}
amp::tensor_view view_or_none(const at::Tensor& t) { return t.defined() ? amp_torch::view_of(t) : amp::tensor_view{}; }

struct ProductFunction : torch::autograd::Function<ProductFunction> {
  using Context = torch::autograd::AutogradContext;
  using Variables = torch::autograd::variable_list;

  static at::Tensor forward(Context* ctx, const at::Tensor& input, const at::Tensor& w, const at::Tensor& b,
                            std::int64_t product) {
    const at::Tensor x = input.contiguous();
    auto shape = x.sizes().vec();
    shape.back() = w.size(0);
    const at::Tensor y = at::empty(shape, x.options().dtype(at::kBFloat16));
    reinterpret_cast<Fp8Product*>(product)->forward(rows_of(y, w.size(0)), rows_of(x, w.size(1)), rows_of(w, w.size(1)),
                                                    view_or_none(b));
    ctx->saved_data["product"] = product;
    ctx->save_for_backward({x, w});
    return y;
  }

  static Variables backward(Context* ctx, Variables grads) {
    const Variables kept = ctx->get_saved_variables();
    const at::Tensor &x = kept[0], &w = kept[1], dy = grads[0].contiguous();
    const at::Tensor dx = ctx->needs_input_grad(0) ? at::empty_like(x) : at::Tensor();
    const at::Tensor dw = ctx->needs_input_grad(1) ? at::empty_like(w) : at::Tensor();
    const at::Tensor db = ctx->needs_input_grad(2) ? at::empty({w.size(0)}, w.options()) : at::Tensor();
    reinterpret_cast<Fp8Product*>(ctx->saved_data["product"].toInt())
        ->backward({.dx = dx.defined() ? rows_of(dx, w.size(1)) : amp::matrix_view{},
                    .dw = dw.defined() ? rows_of(dw, w.size(1)) : amp::matrix_view{},
                    .db = view_or_none(db)},
                   rows_of(dy, w.size(0)), rows_of(x, w.size(1)), rows_of(w, w.size(1)));
    return {dx, dw, db, at::Tensor()};
  }
};

}  // namespace

Fp8Products::Fp8Products(model::ClipBert& model, const std::string& recipe) : model_(model) {
  for (const auto& item : model.named_modules()) {
    auto* const layer = item.value()->as<model::LinearLayer>();
    if (layer == nullptr) continue;
    auto& product = products_.emplace_back(item.key(), make_product(recipe)).second;
    layer->product = [p = product.get()](const at::Tensor& x, const at::Tensor& w, const at::Tensor& b) {
      return ProductFunction::apply(x, w, b, static_cast<std::int64_t>(reinterpret_cast<std::intptr_t>(p)));
    };
  }
}

Fp8Products::~Fp8Products() {
  for (const auto& module : model_.modules()) {
    if (auto* const layer = module->as<model::LinearLayer>(); layer != nullptr) layer->product = nullptr;
  }
}

void Fp8Products::end_step() {
  for (const auto& [name, product] : products_) product->end_step();
}

void Fp8Products::save(amp::StateDict& state, const std::string& prefix) const {
  for (const auto& [name, product] : products_) {
    for (std::size_t i = 0; i < product->scales().size(); ++i) {
      const auto& scale = product->scales()[i];
      const std::string key = prefix + name + '.' + std::to_string(i);
      amp::save_value<float>(state, key + ".scale", scale.scale().scale);
      amp::save_values<float>(state, key + ".amax", scale.history(),
                              {static_cast<std::int64_t>(scale.history().size())});
    }
  }
}

void Fp8Products::load(const amp::StateDict& state, const std::string& prefix) {
  for (const auto& [name, product] : products_) {
    for (std::size_t i = 0; i < product->scales().size(); ++i) {
      auto& scale = product->scales()[i];
      const std::string key = prefix + name + '.' + std::to_string(i);
      if (!state.contains(key + ".scale")) continue;
      std::vector<float> history(scale.history().size());
      amp::load_values<float>(state, key + ".amax", history);
      scale.load(amp::load_value<float>(state, key + ".scale"), history);
    }
    product->forget_weights();
  }
}

}  // namespace clipbert::train
