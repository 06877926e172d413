#include "cli/train_run.hpp"

#include <torch/torch.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <optional>

#include "cli/frame.hpp"
#include "cli/run_files.hpp"
#include "cli/run_head.hpp"
#include "cli/run_start.hpp"
#include "cli/signals.hpp"
#include "cli/table.hpp"
#include "cli/training.hpp"
#include "config/errors.hpp"
#include "data/utf8.hpp"
#include "io/atomic_file.hpp"
#include "log/console.hpp"
#include "log/metrics_file.hpp"
#include "log/tensorboard.hpp"
#include "model/clipbert.hpp"

namespace fs = std::filesystem;

namespace clipbert::cli {
namespace {

using config::Json;

constexpr std::int64_t debug_steps = 3;  // as the original's debug mode

class TrainRun {
 public:
  explicit TrainRun(config::Loaded loaded)
      : settings_(settle(std::move(loaded))),
        data_(open_data(settings_, warnings_)),
        vocabulary_(data::read_text(fs::path(*config().tokenizer_dir) / "vocab.txt")),
        last_(config().debug ? std::min(debug_steps, data_.plan.num_train_steps) : data_.plan.num_train_steps) {}

  int run();

 private:
  [[nodiscard]] const config::Config& config() const { return settings_.config; }
  [[nodiscard]] bool anything_to_do(const RunStart& start);
  void make_trainer(RunStart& start);
  void open_logs(const RunStart& start);
  void check_videos();
  void write_settings();
  int loop();
  [[nodiscard]] bool validation_is_due(std::int64_t step) const;
  void on_step(const train::StepRecord& record);
  void say_warnings();
  void validate();
  [[nodiscard]] diverged_error unsound(std::int64_t step) const;
  void summary(const std::string& how, double seconds);

  Warnings warnings_;
  Settings settings_;
  TrainingData data_;
  std::string vocabulary_;
  std::int64_t last_, first_step_ = 0;
  log::FanOut sink_;  // before what holds a reference to it
  std::shared_ptr<model::ClipBert> model_;
  std::unique_ptr<data::Loader> loader_;
  std::unique_ptr<train::Trainer> trainer_;
  std::unique_ptr<RunFiles> files_;
  std::unique_ptr<log::TextLog> text_;
  std::unique_ptr<log::MetricsFile> metrics_;
  std::unique_ptr<log::TensorBoard> board_;
  std::unique_ptr<log::Progress> progress_;
  double forward_ms_ = 0, backward_ms_ = 0, optimizer_ms_ = 0, wait_ms_ = 0, step_ms_ = 0, valid_seconds_ = 0;
};

/// Says so if there is nothing, in which case nothing is written.
bool TrainRun::anything_to_do(const RunStart& start) {
  if (start.step() < last_ || start.validated() < last_) return true;
  for (const auto& line : warnings_.take()) std::cerr << "warning: " << line << '\n';
  std::cerr << "nothing to do: the run is at step " << start.step() << " of " << last_
            << " (--resume never starts anew)\n";
  return false;
}

/// Reads all that may lie among the files of an earlier run, and finds out whether the state fits, before any file
/// moves.
void TrainRun::make_trainer(RunStart& start) {
  const bool anew = start.anew();
  model_ = build_model(settings_, anew, [&](const std::string& line) { sink_.info(line); });
  for (const auto& line : model_head(*model_, config())) sink_.info(line);
  const std::int64_t weights = 4 * all_elements(*model_);
  const std::int64_t kept = std::min(config().keep_checkpoints, data_.plan.actual_num_valid) + 2;
  const std::int64_t freed = anew || start.same_run() ? train::bytes_in_use(*config().output_dir) : 0;
  train::expect_space(*config().output_dir, kept * weights + 2 * 4 * weights - freed);
  loader_ = make_loader(settings_, data_);
  trainer_ = std::make_unique<train::Trainer>(*model_, trainer_settings(settings_, data_.plan), *loader_, sink_,
                                              train::TrainerHooks{});
  start.load_into(*trainer_, *model_, config(), warnings_);
}

void TrainRun::open_logs(const RunStart& start) {
  const fs::path log_folder = fs::path(*config().output_dir) / "log";
  fs::create_directories(log_folder);
  const bool terminal = log::stderr_is_terminal();
  text_ = std::make_unique<log::TextLog>(log_folder / "log.txt", std::cerr, std::max<std::int64_t>(1, last_ / 100),
                                         terminal);
  metrics_ = std::make_unique<log::MetricsFile>(log_folder / "metrics.jsonl", start.step());
  board_ = std::make_unique<log::TensorBoard>(log_folder, start.state() ? start.step() + 1 : 0);
  progress_ = std::make_unique<log::Progress>(std::cerr, last_, terminal);
  sink_.open({text_.get(), metrics_.get(), board_.get(), progress_.get()});
}

/// What eval and search need to know of the run.
void TrainRun::write_settings() {
  const fs::path log_folder = fs::path(*config().output_dir) / "log";
  const auto text = [](const Json& json) { return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n"; };
  io::write_atomically(log_folder / "args.json", text(config::to_json(config())));
  io::write_atomically(log_folder / "model_config.json", text(config::to_json(settings_.model)));
  io::write_atomically(log_folder / "vocab.txt", vocabulary_);
}

/// Opens every clip once, so that what cannot be used is known before the first step.
void TrainRun::check_videos() {
  const int threads = static_cast<int>(config().num_threads);
  const auto check = [&](const std::vector<data::Caption>& records, const std::string& img) {
    const data::ClipFolder folder(img);
    if (const auto report = data::check_clips(records, folder, threads).report(folder); !report.empty())
      sink_.warn(report);
  };
  check(data_.captions.records, config().train_datasets.front().img);
  for (std::size_t i = 0; i < data_.validations.size(); ++i) {
    check(data_.validations[i]->captions().records, config().val_datasets[i].img);
  }
}

void TrainRun::say_warnings() {
  for (const auto& line : warnings_.take()) sink_.warn(line);
}

void TrainRun::on_step(const train::StepRecord& r) {
  forward_ms_ += r.forward_ms, backward_ms_ += r.backward_ms, optimizer_ms_ += r.optimizer_ms;
  wait_ms_ += r.data_wait_ms, step_ms_ += r.step_ms;
  if (r.skipped) {
    sink_.info("step " + std::to_string(r.step) + " skipped: gradient of " + r.bad_tensor +
               " is not finite; loss scale " + number(r.loss_scale) + " -> " + number(r.loss_scale_after));
  }
  say_warnings();
}

/// Validates and keeps the weights.
void TrainRun::validate() {
  const auto start = std::chrono::steady_clock::now();
  const std::int64_t step = trainer_->global_step();
  std::optional<double> value;
  for (std::size_t i = 0; i < data_.validations.size(); ++i) {
    const auto& validation = *data_.validations[i];
    const std::string prefix = i == 0 ? "valid/" : "valid/" + validation.name() + "/";
    std::string line =
        "validation at step " + std::to_string(step) + (i == 0 ? "" : " (" + validation.name() + ")") + ":";
    for (const auto& [name, v] : validation.run(*model_)) {
      sink_.scalar(prefix + name, step, v);
      if (name.find("meanR") == std::string::npos) line += " " + name + " " + number(std::round(v * 1e4) / 1e4);
      if (i == 0 && name == config().best_metric) value = v;
    }
    sink_.info(line);
  }
  valid_seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  say_warnings();
  files_->save_weights(*trainer_, value);
}

void TrainRun::summary(const std::string& how, double seconds) {
  const auto steps = trainer_->global_step() - first_step_;
  const auto per = [&](double ms) { return fixed(ms / std::max(1.0, static_cast<double>(steps)), 1); };
  sink_.summary();
  sink_.info(how + ": " + std::to_string(steps) + " steps in " + duration(seconds) + " (" + duration(valid_seconds_) +
             " of it validation); a step " + per(step_ms_ + wait_ms_) + " ms: forward " + per(forward_ms_) +
             ", backward " + per(backward_ms_) + ", optimizer " + per(optimizer_ms_) + ", data wait " + per(wait_ms_) +
             "; skipped " + std::to_string(trainer_->skipped_steps()) + " of " +
             std::to_string(trainer_->global_step()));
  if (const auto best = files_->best_line(); !best.empty()) sink_.info(best);
  sink_.flush();
}

bool TrainRun::validation_is_due(std::int64_t step) const {
  return step > files_->validated() && (step % data_.plan.valid_steps == 0 || step == last_);
}

/// The run ends on weights that no state can hold.
diverged_error TrainRun::unsound(std::int64_t step) const {
  const auto saved = files_->state_step();
  return diverged_error("train: the weights of step " + std::to_string(step) + " are not finite; " +
                        (saved > 0 ? "the state of step " + std::to_string(saved) + " is the last sound one"
                                   : std::string("no state was saved by this run")) +
                        "; try a smaller learning_rate or grad_norm");
}

int TrainRun::loop() {
  const auto start = std::chrono::steady_clock::now();
  const auto seconds = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(); };
  if (StopSignals::requested()) {
    sink_.info("interrupted before the first step");
    return interrupted;
  }
  if (validation_is_due(trainer_->global_step())) {  // a signal came before it
    validate();
    files_->renew_state();
    static_cast<void>(files_->save_state(*trainer_));
  }
  while (trainer_->global_step() < last_) {
    const auto record = trainer_->step();
    if (!record) throw content_error("the training data ended before step " + std::to_string(last_));
    on_step(*record);
    const bool stop = StopSignals::requested(), end = stop || record->step == last_;
    if (!stop && validation_is_due(record->step)) validate();
    const bool saved = !(end || record->step % data_.save_steps == 0) || files_->save_state(*trainer_);
    if (end && !saved) throw unsound(record->step);
    if (!stop) continue;
    summary("interrupted, the state of step " + std::to_string(files_->state_step()) + " is saved", seconds());
    return interrupted;
  }
  summary("done", seconds());
  return done;
}

int TrainRun::run() {
  const StopSignals signals;
  RunStart start(settings_, data_, warnings_);
  if (!anything_to_do(start)) return done;
  first_step_ = start.step();
  for (const auto& line : run_head(settings_, data_)) sink_.info(line);
  for (const auto& line : settings_.notes) sink_.info("note: " + line);
  for (const auto& line : settings_.warnings) sink_.warn(line);
  make_trainer(start);
  if (const auto aside = start.make_room()) warnings_.add("files of an earlier run were moved to " + aside->string());
  open_logs(start);
  say_warnings();
  check_videos();
  files_ = std::make_unique<RunFiles>(config(), sink_);
  if (start.state()) {
    files_->go_on(*start.state());
    sink_.info("resumed at step " + std::to_string(start.step()) + " of " + std::to_string(data_.plan.num_train_steps));
  }
  start.forget_state();
  write_settings();
  return loop();
}

}  // namespace

int run_training(config::Loaded loaded) { return TrainRun(std::move(loaded)).run(); }

}  // namespace clipbert::cli
