#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>

#include "app/cases/manifest.hpp"
#include "config/errors.hpp"
#include "io/checkpoint_file.hpp"
#include "io/saved_training.hpp"
#include "io/weight_names.hpp"

using namespace clipbert::io;

namespace {

/// The manifest writes types as PyTorch does.
std::string torch_name(DType dtype) {
  switch (dtype) {
    case DType::f64:
      return "float64";
    case DType::f32:
      return "float32";
    case DType::f16:
      return "float16";
    case DType::bf16:
      return "bfloat16";
    case DType::i64:
      return "int64";
    case DType::i32:
      return "int32";
    case DType::i16:
      return "int16";
    case DType::i8:
      return "int8";
    case DType::u8:
      return "uint8";
    case DType::boolean:
      return "bool";
  }
  return {};
}

template <class T>
T load_as(const Tensor& tensor, std::size_t i) {
  T value;
  std::memcpy(&value, tensor.bytes.data() + i * sizeof(T), sizeof(T));
  return value;
}

double half_value(std::uint16_t bits) {
  const int exponent = bits >> 10 & 31;
  const double mantissa = bits & 1023;
  const double size = exponent == 31  ? (mantissa == 0 ? HUGE_VAL : NAN)
                      : exponent == 0 ? std::ldexp(mantissa, -24)
                                      : std::ldexp(1024 + mantissa, exponent - 25);
  return bits >> 15 != 0 ? -size : size;
}

double value_at(const Tensor& tensor, std::size_t i) {
  switch (tensor.dtype) {
    case DType::f64:
      return load_as<double>(tensor, i);
    case DType::f32:
      return load_as<float>(tensor, i);
    case DType::f16:
      return half_value(load_as<std::uint16_t>(tensor, i));
    case DType::bf16:
      return std::bit_cast<float>(std::uint32_t{load_as<std::uint16_t>(tensor, i)} << 16);
    case DType::i64:
      return static_cast<double>(load_as<std::int64_t>(tensor, i));
    case DType::i32:
      return load_as<std::int32_t>(tensor, i);
    case DType::i16:
      return load_as<std::int16_t>(tensor, i);
    case DType::i8:
      return load_as<std::int8_t>(tensor, i);
    case DType::u8:
    case DType::boolean:
      return load_as<std::uint8_t>(tensor, i);
  }
  return NAN;
}

double finite_sum(const Tensor& tensor) {
  double sum = 0;
  for (std::size_t i = 0; i < tensor.bytes.size() / size_of(tensor.dtype); ++i)
    if (const double v = value_at(tensor, i); std::isfinite(v)) sum += v;
  return sum;
}

using Names = std::vector<std::string>;

/// One case: what its expected section says of the file, and what a strict load into its target says.
class CkptCase {
 public:
  explicit CkptCase(const test_support::Case& one) : one_(one), expected_(one.expected()) {}

  void check() {
    std::optional<Value> root;
    std::optional<Weights> weights;
    try {
      root = read_checkpoint(one_.file);
      weights = weights_in(*root, one_.file);
    } catch (const clipbert::content_error& e) {
      CAPTURE(e.what());
      CHECK(one_.allows("error"));
      return test_support::check_message(one_, e.what());
    }
    check_tensors(*weights);
    check_training(*root);
    const auto problems = strict_load(weights->tensors);
    if (!problems.empty()) {
      CAPTURE(problems);
      CHECK(one_.allows("error"));
      return test_support::check_message(one_, problems);
    }
    const auto doubts = warnings(*root, *weights);
    CAPTURE(doubts);
    if (doubts.empty()) {
      CHECK((one_.allows("ok") || (one_.allows("warn") && normalised_)));
    } else {
      CHECK((one_.allows("warn") || one_.allows("error")));
    }
    if (!doubts.empty()) test_support::check_message(one_, doubts);
    check_same(weights->tensors);
  }

 private:
  bool near(double got, double want) const {
    const double rel = expected_.at("sum_tol").at("rel"), abs = expected_.at("sum_tol").at("abs");
    return std::abs(got - want) <= abs + rel * std::abs(want);
  }

  void check_tensors(const Weights& weights) const {
    CHECK(weights.under == (expected_.at("under").is_null() ? "" : expected_.at("under").get<std::string>()));
    if (const auto& raw = expected_.at("tensors_raw"); !raw.is_null()) {
      CHECK(weights.tensors.size() == raw.size());
      for (const auto& [name, want] : raw.items()) {
        CAPTURE(name);
        REQUIRE(weights.tensors.contains(name));
        const auto& tensor = weights.tensors.at(name);
        CHECK(torch_name(tensor.dtype) == want[0].get<std::string>());
        CHECK(tensor.shape == want[1].get<std::vector<std::int64_t>>());
        CHECK(near(finite_sum(tensor), want[2]));
      }
    }
    for (const auto& want : expected_.at("values")) {
      const auto& tensor = weights.tensors.at(want[0].get<std::string>());
      std::size_t flat = 0, axis = 0;
      for (const auto& index : want[1])
        flat = flat * static_cast<std::size_t>(tensor.shape.at(axis++)) + index.get<std::size_t>();
      CHECK(near(value_at(tensor, flat), want[2]));
    }
  }

  void check_training(const Value& root) const {
    const auto scalers = saved_scalers(root);
    const auto& wanted = expected_.at("scalers");
    REQUIRE(scalers.size() == wanted.size());
    for (std::size_t i = 0; i < scalers.size(); ++i) {
      const auto& scale = wanted[i].at("scale");
      CHECK(scalers[i].scale == (scale.is_number() ? scale.get<double>() : scale == "inf" ? HUGE_VAL : 0.0));
      CHECK(scalers[i].unskipped == wanted[i].at("unskipped").get<std::int64_t>());
    }
    const auto& step = expected_.at("adam_step");
    if (!step.is_null()) CHECK(saved_adam_step(root) == step.get<std::int64_t>());
  }

  /// What keeps the tensors from being loaded whole; empty if nothing does.
  std::string strict_load(const Tensors& tensors) {
    const auto& against = expected_.at("against");
    if (!against.is_string()) return {};
    const auto match = match_with(against, tensors);
    normalised_ = match.dropped_module + match.renamed_norms + match.added_prefix > 0;
    CHECK(sorted(match.missing) == expected_.at("missing").get<Names>());
    CHECK(match.unexpected == expected_.at("unexpected").get<Names>());
    CHECK(match.mismatched == expected_.at("mismatched").get<Names>());
    if (match.complete()) return {};
    const auto report = match.report(tensors.size() + match.missing.size());
    for (const auto* names : {&match.missing, &match.unexpected, &match.mismatched})
      for (const auto& name : *names) CHECK(report.find(name) != std::string::npos);
    return one_.file.string() + ": " + report;
  }

  /// What is said of a file that is loaded, or refused for it: objects passed over, NaN, scales that cannot be used.
  std::string warnings(const Value& root, const Weights& weights) const {
    std::string out;
    const auto say = [&](const std::string& what) { out += (out.empty() ? one_.file.string() + ": " : "; ") + what; };
    if (!weights.passed_over.empty()) say(weights.remarks());
    const auto special = nonfinite_tensors(weights.tensors);
    CHECK(special == expected_.at("nonfinite").get<Names>());
    for (const auto& name : special) say("tensor " + name + " holds NaN or infinity");
    for (const auto& scaler : saved_scalers(root))
      if (!scaler.usable()) say(scaler.problem());
    return out;
  }

  void check_same(const Tensors& tensors) const {
    const auto& same = expected_.at("same_as");
    if (!same.is_string()) return;
    const auto wanted = read_weights(test_support::cases_folder() / same.get<std::string>()).tensors;
    CHECK(renamed(tensors, match_with(same, tensors)) == wanted);
  }

  NameMatch match_with(const std::string& target, const Tensors& tensors) const {
    const auto model = read_weights(test_support::cases_folder() / target).tensors;
    return match_names(shapes_of(tensors), shapes_of(model), {"", "bert."}, one_.file);
  }

  static Names sorted(Names names) {
    std::ranges::sort(names);
    return names;
  }

  const test_support::Case& one_;
  const nlohmann::json& expected_;
  bool normalised_ = false;  ///< names were changed, which the load report says
};

}  // namespace

TEST_SUITE("cases/ckpt") {
  TEST_CASE("B52 B54 B55 each shared weights file comes out, or is refused, as its case says") {
    for (const auto& one : test_support::cases_of("ckpt")) {
      CAPTURE(one.name);
      CkptCase(one).check();
    }
  }
}
