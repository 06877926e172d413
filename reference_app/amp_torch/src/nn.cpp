#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/gelu.h>
#include <ATen/ops/layer_norm.h>
#include <ATen/ops/linear.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/relu.h>
#include <ATen/ops/sigmoid.h>
#include <torch/csrc/autograd/custom_function.h>

#include <amp/core/check.hpp>
#include <amp/nn/layer_norm.hpp>
#include <amp/nn/linear.hpp>
#include <amp_torch/dtype.hpp>
#include <amp_torch/exec.hpp>
#include <amp_torch/nn.hpp>
#include <amp_torch/view.hpp>
#include <optional>
#include <string>
#include <type_traits>

namespace amp_torch {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// A dense tensor as rows of `columns` elements.
amp::matrix_view rows_of(const at::Tensor& t, std::int64_t columns) { return amp::as_matrix(view_of(t), columns); }
amp::tensor_view view_or_none(const at::Tensor& t) { return t.defined() ? view_of(t) : amp::tensor_view{}; }

/// The backward passes below are not made of differentiable operators.
void expects_first_derivative(const char* name) {
  amp::expects(!c10::GradMode::is_enabled(),
               [&] { return std::string(name) + " has no second derivative; do not ask for create_graph"; });
}
bool served(const at::Tensor& t) {
  return !t.defined() || (t.is_cpu() && t.layout() == at::kStrided && to_amp(t.scalar_type()).has_value());
}
at::Tensor dense(const at::Tensor& t) { return t.defined() ? t.contiguous() : t; }

/// A Function's argument that may be missing; it then has no edge in the graph, and later arguments move up by one.
using maybe = std::optional<at::Tensor>;
maybe if_defined(const at::Tensor& t) { return t.defined() ? maybe(t) : std::nullopt; }
at::Tensor or_undefined(const maybe& t) { return t ? *t : at::Tensor(); }

struct LayerNormFunction : torch::autograd::Function<LayerNormFunction> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& input, const maybe& weight, const maybe& shift,
                            std::int64_t columns, const layer_norm_options& options) {
    const at::Tensor x = dense(input), gamma = dense(or_undefined(weight)), beta = dense(or_undefined(shift));
    const auto type = options.mixed && gamma.defined() ? gamma.scalar_type() : x.scalar_type();
    const at::Tensor y = at::empty_like(x, x.options().dtype(type));
    const std::int64_t rows = columns == 0 ? 0 : x.numel() / columns;
    const at::Tensor mean = at::empty({rows}, x.options().dtype(at::kFloat)), rstd = at::empty_like(mean);
    const amp::nn::norm_saved saved{mean.mutable_data_ptr<float>(), rstd.mutable_data_ptr<float>()};
    amp::nn::layer_norm(default_executor(), rows_of(y, columns), rows_of(x, columns), view_or_none(gamma),
                        view_or_none(beta), static_cast<float>(options.eps), saved);
    ctx->save_for_backward({options.memory_efficient ? y : x, gamma, beta});
    ctx->saved_data["mean"] = mean;
    ctx->saved_data["rstd"] = rstd;
    ctx->saved_data["columns"] = columns;
    ctx->saved_data["from_output"] = options.memory_efficient;
    ctx->saved_data["type"] = static_cast<std::int64_t>(x.scalar_type());
    return y;
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    expects_first_derivative("amp_torch::layer_norm");
    const variable_list kept = ctx->get_saved_variables();
    const at::Tensor &source = kept[0], &gamma = kept[1], &beta = kept[2];
    const at::Tensor dy = grads[0].contiguous();
    const std::int64_t columns = ctx->saved_data["columns"].toInt();
    const auto type = static_cast<at::ScalarType>(ctx->saved_data["type"].toInt());
    const auto gradient = [&](std::size_t edge, const at::Tensor& of, at::ScalarType in) {
      return ctx->needs_input_grad(edge) ? at::empty_like(of, of.options().dtype(in)) : at::Tensor();
    };
    at::Tensor dgamma, dbeta;
    const at::Tensor dx = gradient(0, source, type);
    if (gamma.defined()) dgamma = gradient(1, gamma, gamma.scalar_type());
    if (beta.defined()) dbeta = gradient(gamma.defined() ? 2 : 1, beta, beta.scalar_type());
    const amp::nn::norm_gradients out{dx.defined() ? rows_of(dx, columns) : amp::matrix_view{}, view_or_none(dgamma),
                                      view_or_none(dbeta)};
    const at::Tensor mean = ctx->saved_data["mean"].toTensor(), rstd = ctx->saved_data["rstd"].toTensor();
    const amp::nn::norm_saved saved{mean.mutable_data_ptr<float>(), rstd.mutable_data_ptr<float>()};
    if (ctx->saved_data["from_output"].toBool()) {
      amp::nn::layer_norm_backward_from_output(default_executor(), out, rows_of(dy, columns), rows_of(source, columns),
                                               view_or_none(gamma), view_or_none(beta), saved);
    } else {
      amp::nn::layer_norm_backward(default_executor(), out, rows_of(dy, columns), rows_of(source, columns),
                                   view_or_none(gamma), saved);
    }
    return {dx, dgamma, dbeta, at::Tensor(), at::Tensor()};
  }
};

/// Calls `use` with the toolkit's activation of that name.
template <class Use>
void with_activation(activation f, const Use& use) {
  switch (f) {
    case activation::none:
      return use(amp::nn::no_activation{});
    case activation::relu:
      return use(amp::nn::relu{});
    case activation::sigmoid:
      return use(amp::nn::sigmoid{});
    case activation::gelu_erf:
      return use(amp::nn::gelu_erf{});
    case activation::gelu_tanh:
      return use(amp::nn::gelu_tanh{});
  }
}

struct LinearFunction : torch::autograd::Function<LinearFunction> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& x, const at::Tensor& w, const maybe& bias,
                            activation f) {
    const at::Tensor b = or_undefined(bias);
    const at::Tensor pre = at::linear(x, w, b).contiguous();
    ctx->saved_data["f"] = static_cast<std::int64_t>(f);
    ctx->save_for_backward({x, w, b, f == activation::none ? at::Tensor() : pre});
    if (f == activation::none) return pre;
    const at::Tensor y = at::empty_like(pre);
    const std::int64_t columns = w.size(0);
    with_activation(f, [&]<class F>(F) {
      amp::nn::apply_epilogue(default_executor(), rows_of(y, columns), rows_of(pre, columns),
                              amp::nn::chain(amp::nn::activate<F>{}));
    });
    return y;
  }

  static variable_list backward(AutogradContext* ctx, variable_list grads) {
    expects_first_derivative("amp_torch::linear");
    const variable_list kept = ctx->get_saved_variables();
    const at::Tensor &x = kept[0], &w = kept[1], &b = kept[2], &pre = kept[3];
    const auto f = static_cast<activation>(ctx->saved_data["f"].toInt());
    const std::int64_t columns = w.size(0);
    const at::Tensor dy = grads[0].contiguous();
    const at::Tensor dpre = f == activation::none ? dy : at::empty_like(dy);
    const bool wants_bias = b.defined() && ctx->needs_input_grad(2);
    const at::Tensor db = wants_bias ? at::empty_like(b) : at::Tensor();
    with_activation(f, [&]<class F>(F act) {
      amp::nn::slope_and_bias_gradient<amp::nn::slope_source::input>(
          default_executor(), rows_of(dpre, columns), view_or_none(db), rows_of(dy, columns),
          pre.defined() ? rows_of(pre, columns) : amp::matrix_view{}, act);
    });
    // Under per-op casts the products ran in the type of the gradient; autograd widens what comes back.
    const auto type = dpre.scalar_type();
    const at::Tensor flat = dpre.reshape({-1, columns});
    at::Tensor dx, dw;
    if (ctx->needs_input_grad(0)) dx = at::mm(flat, w.to(type)).reshape(x.sizes());
    if (ctx->needs_input_grad(1)) dw = at::mm(flat.t(), x.reshape({-1, w.size(1)}).to(type));
    return {dx, dw, db, at::Tensor()};
  }
};

at::Tensor plain_linear(const at::Tensor& x, const at::Tensor& w, const at::Tensor& b, activation f) {
  const at::Tensor pre = at::linear(x, w, b);
  switch (f) {
    case activation::relu:
      return at::relu(pre);
    case activation::sigmoid:
      return at::sigmoid(pre);
    case activation::gelu_erf:
      return at::gelu(pre, "none");
    case activation::gelu_tanh:
      return at::gelu(pre, "tanh");
    case activation::none:
      break;
  }
  return pre;
}

}  // namespace

at::Tensor layer_norm(const at::Tensor& x, at::IntArrayRef shape, const at::Tensor& gamma, const at::Tensor& beta,
                      const layer_norm_options& options) {
  const auto dims = static_cast<std::int64_t>(shape.size());
  amp::expects(dims > 0 && x.dim() >= dims && x.sizes().slice(static_cast<std::size_t>(x.dim() - dims)) == shape,
               "layer_norm: the last dimensions of x are not the normalised shape");
  if (!served(x) || !served(gamma) || !served(beta) || x.numel() == 0) {
    return at::layer_norm(x, shape, gamma, beta, options.eps);
  }
  std::int64_t columns = 1;
  for (const std::int64_t size : shape) columns *= size;
  return LayerNormFunction::apply(x, if_defined(gamma), if_defined(beta), columns, options);
}

at::Tensor linear(const at::Tensor& x, const at::Tensor& w, const at::Tensor& b, activation f) {
  const bool ours = served(x) && served(w) && served(b) && x.numel() > 0 && w.dim() == 2 && w.numel() > 0;
  if (!ours) return plain_linear(x, w, b, f);
  return LinearFunction::apply(x, w, if_defined(b), f);
}

}  // namespace amp_torch
