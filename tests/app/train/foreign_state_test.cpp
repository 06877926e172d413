// States of the original's restore file and of apex's form, made by hand.
#include "train/foreign_state.hpp"

#include <doctest/doctest.h>
#include <torch/torch.h>

#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "app/train/tiny_training.hpp"
#include "config/errors.hpp"
#include "support/temp_folder.hpp"

using namespace tiny_training;  // NOLINT: a test of it
using clipbert::io::Value;

namespace {

/// A file of the size that such a checkpoint has: what is in it is believed only up to that.
const std::filesystem::path& file() {
  static const test_support::TempFolder folder;
  static const std::filesystem::path place = [] {
    auto made = folder.write("restore.pt", " ");
    std::filesystem::resize_file(made, 1 << 28);
    return made;
  }();
  return place;
}

class Memory final : public clipbert::io::Storage {
 public:
  explicit Memory(std::vector<std::byte> bytes) : bytes_(std::move(bytes)) {}
  [[nodiscard]] std::uint64_t size() const override { return bytes_.size(); }
  [[nodiscard]] std::vector<std::byte> read() const override { return bytes_; }

 private:
  std::vector<std::byte> bytes_;
};

Value value_of(const at::Tensor& tensor) {
  using clipbert::io::DType;
  const at::Tensor t = tensor.contiguous();
  std::vector<std::byte> bytes(t.nbytes());
  std::memcpy(bytes.data(), t.const_data_ptr(), bytes.size());
  const DType type = t.scalar_type() == at::kHalf ? DType::f16 : t.scalar_type() == at::kLong ? DType::i64 : DType::f32;
  return Value(clipbert::io::StoredTensor{type, t.sizes().vec(), t.strides().vec(), 0,
                                          std::make_shared<const Memory>(std::move(bytes))});
}
Value text(const char* s) { return Value(std::string(s)); }

struct Form {
  bool apex = false, half = false;
  double scale = 512;
  std::size_t groups = 8;
};

/// A trainer's state as another program would have saved it.
Value foreign(const Trainer& trainer, const Form& form) {
  const auto state = trainer.state();
  const auto weights = trainer.model_state();
  const auto low = [&](const at::Tensor& t) { return form.half && t.is_floating_point() ? t.to(at::kHalf) : t; };
  Value::Dict model, entries;
  for (const auto& [name, t] : weights) model.emplace_back(text(name.c_str()), value_of(low(t)));
  Value::List groups;
  std::int64_t id = 0;
  for (std::size_t g = 0; g < form.groups; ++g) {
    Value::List ids;
    for (const auto& name : trainer.groups()[g].names) {
      const auto moment = [&](const char* kind) {
        const auto& saved = state.tensors.at("session.optimizer.0." + std::string(kind) + "." + name);
        at::Tensor t = at::empty(weights.at(name).sizes());
        std::memcpy(t.data_ptr(), saved.bytes.data(), saved.bytes.size());
        return value_of(low(t));
      };
      entries.emplace_back(Value(id), Value(Value::Dict{{text("step"), Value(trainer.global_step())},
                                                        {text("exp_avg"), moment("exp_avg")},
                                                        {text("exp_avg_sq"), moment("exp_avg_sq")}}));
      ids.push_back(Value(id++));
    }
    groups.push_back(Value(Value::Dict{{text("params"), Value(std::move(ids))}}));
  }
  Value optimizer(
      Value::Dict{{text("state"), Value(std::move(entries))}, {text("param_groups"), Value(std::move(groups))}});
  Value scaler(Value::Dict{{text("loss_scaler0"), Value(Value::Dict{{text("loss_scale"), Value(form.scale)},
                                                                    {text("unskipped"), Value(std::int64_t{1})}})}});
  if (form.apex)
    return Value(
        Value::Dict{{text("model"), Value(std::move(model))}, {text("optimizer"), optimizer}, {text("amp"), scaler}});
  return Value(Value::Dict{{text("global_step"), Value(trainer.global_step())},
                           {text("model_state_dict"), Value(std::move(model))},
                           {text("optim_state_dict"), optimizer},
                           {text("amp_state_dict"), scaler}});
}

TrainerSettings fp16_settings() {
  auto settings = settings_for("O2", "fp16");
  settings.config.loss_scale = clipbert::config::LossScale{};
  settings.config.scale_init = 512;
  settings.config.scale_window = 100;
  return settings;
}

struct Resumed {
  std::vector<double> losses;
  std::string remarks;
  double scale = 0;
  std::int64_t step = 0;
};

/// Four steps, saved in a form, and three more in a new trainer.
Resumed resumed_from(const Form& form) {
  const auto settings = fp16_settings();
  Sink sink;
  const auto first = tiny_model(0.0, "frozen_bn"), second = tiny_model(0.0, "frozen_bn");
  RandomSource a, b;
  Trainer before(*first, settings, a, sink);
  for (int i = 0; i < 4; ++i) before.step();
  const Value saved = foreign(before, form);
  Trainer after(*second, settings, b, sink);
  Resumed out;
  after.load(clipbert::train::from_foreign(saved, file(), after, *second, settings.config,
                                           [&](std::string_view line) { out.remarks += std::string(line); }));
  out.step = after.global_step();
  out.scale = after.loss_scale();
  for (int i = 0; i < 3; ++i) out.losses.push_back(after.step()->loss);
  return out;
}

std::vector<double> unbroken() {
  Sink sink;
  const auto model = tiny_model(0.0, "frozen_bn");
  RandomSource source;
  Trainer trainer(*model, fp16_settings(), source, sink);
  for (int i = 0; i < 4; ++i) trainer.step();
  std::vector<double> out;
  for (int i = 0; i < 3; ++i) out.push_back(trainer.step()->loss);
  return out;
}

}  // namespace

TEST_SUITE("train/foreign_state") {
  TEST_CASE("B48 training goes on from the original's restore file and from apex's form as if never stopped") {
    for (const bool apex : {false, true}) {
      const auto resumed = resumed_from({.apex = apex});
      CHECK(resumed.step == 4);
      CHECK(resumed.scale == 512);
      CHECK(resumed.remarks.empty());
      CHECK(resumed.losses == unbroken());
    }
  }
  TEST_CASE("what was saved in half precision is taken, with a warning, and training goes on close by") {
    const auto resumed = resumed_from({.half = true});
    CHECK(resumed.remarks.find("half precision") != std::string::npos);
    const auto whole = unbroken();
    for (std::size_t i = 0; i < whole.size(); ++i) CHECK(resumed.losses[i] == doctest::Approx(whole[i]).epsilon(0.02));
  }
  TEST_CASE("B01 a saved loss scale of 0 or infinity becomes scale_init, with a warning") {
    for (const double scale : {0.0, std::numeric_limits<double>::infinity()}) {
      const auto resumed = resumed_from({.scale = scale});
      CHECK(resumed.scale == 512);
      CHECK(resumed.remarks.find("scale_init") != std::string::npos);
    }
    CHECK(resumed_from({.scale = 64}).scale == 64);
  }
  TEST_CASE("a state that does not fit is refused with the file and the reason") {
    const auto settings = fp16_settings();
    Sink sink;
    const auto model = tiny_model(0.0, "frozen_bn"), other = tiny_model(0.0, "bn");
    RandomSource source;
    Trainer trainer(*model, settings, source, sink), another(*other, settings, source, sink);
    trainer.step();
    const auto refusal = [&](const Value& saved, const Trainer& into, const ClipBert& its) {
      try {
        static_cast<void>(
            clipbert::train::from_foreign(saved, file(), into, its, settings.config, [](std::string_view) {}));
      } catch (const clipbert::content_error& e) {
        return std::string(e.what());
      }
      return std::string("accepted");
    };
    const auto groups = refusal(foreign(trainer, {.groups = 7}), trainer, *model);
    CHECK(groups.starts_with(file().string() + ": "));
    CHECK(groups.find("7 parameter groups") != std::string::npos);
    CHECK(refusal(foreign(trainer, {}), another, *other).find("another model") != std::string::npos);
    CHECK(refusal(foreign(trainer, {}), trainer, *model) == "accepted");
    CHECK_THROWS_AS(static_cast<void>(clipbert::train::foreign_step(Value(Value::Dict{}), "x.pt")),
                    clipbert::content_error);
  }
}
