#include "cli/worker.hpp"

#include <torch/torch.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>

#include "cli/child.hpp"
#include "cli/flags.hpp"
#include "cli/training.hpp"
#include "config/errors.hpp"
#include "model/clipbert.hpp"

namespace clipbert::cli {
namespace {

using Json = nlohmann::ordered_json;

void reply(const Json& json) {
  const std::string line = json.dump() + '\n';
  if (write(Child::answer_fd, line.data(), line.size()) != static_cast<ssize_t>(line.size())) {
    throw std::runtime_error("compare: the process that asked is gone");
  }
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

/// Seconds by phase: the median over the steps that neither warmed up nor were measured.
Json seconds_per_step(const std::vector<train::StepRecord>& records) {
  const std::size_t first = records.size() > 8 ? 4 : records.size() > 1 ? 1 : 0;
  const auto phase = [&](auto&& of) {
    std::vector<double> values;
    for (std::size_t i = first; i < records.size(); ++i) values.push_back(of(records[i]) / 1e3);
    return median(std::move(values));
  };
  return {{"total", phase([](const auto& r) { return r.step_ms + r.data_wait_ms; })},
          {"forward", phase([](const auto& r) { return r.forward_ms; })},
          {"backward", phase([](const auto& r) { return r.backward_ms; })},
          {"optimizer", phase([](const auto& r) { return r.optimizer_ms; })},
          {"data_wait", phase([](const auto& r) { return r.data_wait_ms; })}};
}

Json bytes(const train::MemoryUse& use) {
  return {{"weights", use.weights},           {"masters", use.masters},         {"gradients", use.gradients},
          {"optimizer_state", use.optimizer}, {"activations", use.activations}, {"peak_rss", use.peak_rss}};
}

Json finished(const Settings& settings, const TrainingData& data, train::Trainer& trainer, model::ClipBert& model,
              const std::vector<train::StepRecord>& records) {
  const Json memory = bytes(trainer.memory());  // before the validation adds to the peak
  std::vector<double> curve;
  for (const auto& r : records) curve.push_back(r.loss);
  Json final = Json::object();
  if (!data.validations.empty()) {
    for (const auto& [name, value] : data.validations.front()->run(model)) final[name] = value;
  }
  const std::string level = *settings.config.opt_level;
  return {{"dtype", level == "O0" ? "fp32" : *settings.config.amp_dtype},
          {"seconds_per_step", seconds_per_step(records)},
          {"bytes", memory},
          {"loss",
           {{"first", curve.front()},
            {"last", curve.back()},
            {"smoothed", records.back().loss_smoothed},
            {"curve", curve}}},
          {"skipped", trainer.skipped_steps()},
          {"final", final}};
}

}  // namespace

int compare_worker(const Words& words) {
  CLI::App app("One level of a comparison", std::string(worker_command));
  std::string file;
  std::int64_t steps = 1;
  app.add_option("--config", file)->required();
  app.add_option("--steps", steps)->required();
  const auto split = split_words(app, words);
  if (!parse_flags(app, split.fixed)) return done;
  const Settings settings = settle(config::load(file, split.keys));
  Warnings warnings;
  TrainingData data = open_data(settings, warnings);
  data.plan.num_train_steps = std::max(data.plan.num_train_steps, steps);  // the schedule of the real run
  const auto model = build_model(settings, true, [](const std::string&) {});
  const auto loader = make_loader(settings, data);
  log::EventSink nowhere;
  train::Trainer trainer(*model, trainer_settings(settings, data.plan), *loader, nowhere);
  for (const auto& line : warnings.take()) std::cerr << "warning: " << line << '\n';
  reply({{"ready", true}});

  std::vector<train::StepRecord> records;
  for (std::string line; std::getline(std::cin, line);) {
    if (line == "finish") {
      reply(finished(settings, data, trainer, *model, records));
      return done;
    }
    for (auto left = std::stoll(line.substr(line.find(' ') + 1)); left > 0; --left) {
      if (records.size() == 1 || steps == 1) trainer.measure_next_step();  // the moments exist from the first step on
      auto record = trainer.step();
      if (!record) throw content_error("compare: the training data ended early");
      records.push_back(std::move(*record));
    }
    reply({{"done", records.size()}});
  }
  return done;  // the parent ended
}

}  // namespace clipbert::cli
