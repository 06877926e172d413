#include <torch/torch.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <filesystem>
#include <iostream>
#include <optional>

#include "cli/evaluate.hpp"
#include "cli/flags.hpp"
#include "cli/run_folder.hpp"
#include "cli/run_head.hpp"
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
#include "train/checkpoint.hpp"

namespace fs = std::filesystem;

namespace clipbert::cli {
namespace {

using Json = config::Json;

/// As JSON text; a path may hold bytes that are not UTF-8.
std::string dumped(const Json& json, int indent = -1) {
  return json.dump(indent, ' ', false, Json::error_handler_t::replace);
}

/// One run of the train command.
class TrainRun {
 public:
  explicit TrainRun(config::Loaded loaded)
      : settings_(settle(std::move(loaded))), data_(open_data(settings_, warnings_)) {}

  int run();

 private:
  [[nodiscard]] const config::Config& config() const { return settings_.config; }
  int dry_run();
  [[nodiscard]] bool find_start();
  void note_changes();
  void open_logs();
  void check_videos();
  void start_trainer();
  void write_settings();
  int loop();
  [[nodiscard]] bool validation_is_due(std::int64_t step) const;
  void on_step(const train::StepRecord& record);
  void say_warnings();
  void validate(std::int64_t step);
  [[nodiscard]] bool weights_are_sound(const train::ModelState& weights);
  void save_state();
  [[nodiscard]] diverged_error unsound(std::int64_t step) const;
  void summary(const std::string& how, double seconds);

  Warnings warnings_;
  Settings settings_;
  TrainingData data_;
  std::unique_ptr<RunLock> lock_;
  std::shared_ptr<model::ClipBert> model_;
  std::unique_ptr<data::Loader> loader_;
  std::unique_ptr<train::Trainer> trainer_;
  std::optional<train::TrainingState> resumed_;
  std::unique_ptr<train::ModelFiles> files_;
  std::unique_ptr<log::TextLog> text_;
  std::unique_ptr<log::MetricsFile> metrics_;
  std::unique_ptr<log::TensorBoard> board_;
  std::unique_ptr<log::Progress> progress_;
  std::unique_ptr<log::FanOut> sink_;
  std::optional<double> best_;
  std::int64_t best_step_ = 0, state_step_ = 0, first_step_ = 0, validated_ = 0;
  double forward_ms_ = 0, backward_ms_ = 0, optimizer_ms_ = 0, wait_ms_ = 0, step_ms_ = 0, valid_seconds_ = 0;
};

int TrainRun::dry_run() {
  std::cout << config::listing(config()) << '\n';
  for (const auto& line : run_head(settings_, data_)) std::cout << line << '\n';
  model_ = build_model(settings_, [](const std::string& line) { std::cout << line << '\n'; });
  for (const auto& line : model_head(*model_, config())) std::cout << line << '\n';
  for (const auto& line : settings_.warnings) std::cout << "warning: " << line << '\n';
  for (const auto& line : warnings_.take()) std::cout << "warning: " << line << '\n';
  for (const auto& line : settings_.notes) std::cout << "note: " << line << '\n';
  return done;
}

/// Finds the state to go on from, and moves an earlier run's files out of the way of one that starts anew. False if
/// there is nothing to do, in which case nothing is written.
bool TrainRun::find_start() {
  const fs::path folder = *config().output_dir;
  lock_ = std::make_unique<RunLock>(folder);
  for (const char* part : {"log", "ckpt", "restore"}) io::remove_leftovers(folder / part);
  const std::string& how = config().resume;
  resumed_ = train::find_state(how, folder, [&](std::string_view line) { warnings_.add(std::string(line)); });
  first_step_ = resumed_ ? resumed_->step : 0;
  if (resumed_) note_changes();
  if (resumed_) validated_ = resumed_->meta.value("validated", first_step_);
  if (const auto last = data_.plan.num_train_steps; first_step_ >= last && validated_ >= last) {
    for (const auto& line : warnings_.take()) std::cerr << "warning: " << line << '\n';
    std::cerr << "nothing to do: the run is at step " << first_step_ << " of " << last
              << " (--resume never starts anew)\n";
    return false;
  }
  std::optional<fs::path> aside;
  if (!resumed_)
    aside = set_aside_run(folder);
  else if (how != "auto" && how != "required")
    aside = set_aside_after(folder, first_step_);
  if (aside) warnings_.add("files of an earlier run were moved to " + aside->string());
  return true;
}

/// What differs from the run that is gone on with, as warnings.
void TrainRun::note_changes() {
  const fs::path log_folder = fs::path(*config().output_dir) / "log";
  const fs::path args_file = log_folder / "args.json", vocabulary = log_folder / "vocab.txt";
  if (!fs::exists(args_file)) return;
  try {
    if (data_.tokenizer->vocabulary() != data::Vocabulary(vocabulary))
      warnings_.add("the vocabulary is not that of the run that is resumed: its tokens mean other words now");
    const Json before = config::read_json(args_file).root, args = config::to_json(config());
    std::string changed;
    for (const auto& [key, value] : args.items()) {
      if (key == "resume" || key == "num_threads" || key == "n_workers" || !before.contains(key) ||
          before[key] == value)
        continue;
      changed += (changed.empty() ? "" : ", ") + key + " " + dumped(before[key]) + " -> " + dumped(value);
    }
    if (!changed.empty()) warnings_.add("settings differ from those of the run that is resumed: " + changed);
  } catch (const std::exception& e) {  // the state does not depend on these files
    warnings_.add(std::string("the settings of the run that is resumed cannot be compared: ") + e.what());
  }
}

void TrainRun::open_logs() {
  const fs::path log_folder = fs::path(*config().output_dir) / "log";
  fs::create_directories(log_folder);
  const bool terminal = log::stderr_is_terminal();
  text_ = std::make_unique<log::TextLog>(log_folder / "log.txt", std::cerr,
                                         std::max<std::int64_t>(1, data_.plan.num_train_steps / 100), terminal);
  metrics_ = std::make_unique<log::MetricsFile>(log_folder / "metrics.jsonl", first_step_);
  board_ = std::make_unique<log::TensorBoard>(log_folder, resumed_ ? first_step_ + 1 : 0);
  progress_ = std::make_unique<log::Progress>(std::cerr, data_.plan.num_train_steps, terminal);
  sink_ = std::make_unique<log::FanOut>(
      std::vector<log::EventSink*>{text_.get(), metrics_.get(), board_.get(), progress_.get()});
}

/// What eval and search need to know of the run. Written once the run is known to start: a state that does not fit
/// leaves the settings that do.
void TrainRun::write_settings() {
  const fs::path log_folder = fs::path(*config().output_dir) / "log";
  io::write_atomically(log_folder / "args.json", dumped(config::to_json(config()), 2) + "\n");
  io::write_atomically(log_folder / "model_config.json", dumped(config::to_json(settings_.model), 2) + "\n");
  const fs::path vocabulary = fs::path(*config().tokenizer_dir) / "vocab.txt";
  io::write_atomically(log_folder / "vocab.txt", data::read_text(vocabulary));
}

/// Opens every clip once, so that what cannot be used is known before the first step.
void TrainRun::check_videos() {
  const int threads = static_cast<int>(config().num_threads);
  const auto check = [&](const std::vector<data::Caption>& records, const std::string& img) {
    const data::ClipFolder folder(img);
    if (const auto report = data::check_clips(records, folder, threads).report(folder); !report.empty())
      sink_->warn(report);
  };
  check(data_.captions.records, config().train_datasets.front().img);
  for (std::size_t i = 0; i < data_.validations.size(); ++i) {
    check(data_.validations[i]->captions().records, config().val_datasets[i].img);
  }
}

void TrainRun::start_trainer() {
  model_ = build_model(settings_, [&](const std::string& line) { sink_->info(line); });
  for (const auto& line : model_head(*model_, config())) sink_->info(line);
  const std::int64_t weights = 4 * all_elements(*model_);
  const std::int64_t kept = std::min(config().keep_checkpoints, data_.plan.actual_num_valid) + 2;
  train::expect_space(*config().output_dir,
                      kept * weights + 2 * 4 * weights - train::bytes_in_use(*config().output_dir));
  loader_ = make_loader(settings_, data_);
  trainer_ = std::make_unique<train::Trainer>(*model_, trainer_settings(settings_, data_.plan), *loader_, *sink_,
                                              train::TrainerHooks{});
  files_ = std::make_unique<train::ModelFiles>(*config().output_dir, config().keep_checkpoints);
  if (!resumed_) return;
  trainer_->load(*resumed_);
  state_step_ = resumed_->step;
  const auto best = resumed_->meta.find("best");
  if (best != resumed_->meta.end() && best->value("metric", config().best_metric) == config().best_metric &&
      fs::exists(files_->file_of(best->at("step").get<std::int64_t>()))) {
    best_ = best->at("value").get<double>();
    best_step_ = best->at("step").get<std::int64_t>();
  }
  sink_->info("resumed at step " + std::to_string(resumed_->step) + " of " +
              std::to_string(data_.plan.num_train_steps));
  resumed_.reset();
}

void TrainRun::say_warnings() {
  for (const auto& line : warnings_.take()) sink_->warn(line);
}

void TrainRun::on_step(const train::StepRecord& r) {
  forward_ms_ += r.forward_ms, backward_ms_ += r.backward_ms, optimizer_ms_ += r.optimizer_ms;
  wait_ms_ += r.data_wait_ms, step_ms_ += r.step_ms;
  if (r.skipped) {
    sink_->info("step " + std::to_string(r.step) + " skipped: gradient of " + r.bad_tensor +
                " is not finite; loss scale " + number(r.loss_scale) + " -> " + number(r.loss_scale_after));
  }
  say_warnings();
}

/// True if the weights may replace what was saved before: a run that diverges must not write over its last sound state.
bool TrainRun::weights_are_sound(const train::ModelState& weights) {
  for (const auto& [name, t] : weights) {
    if (!t.is_floating_point() || at::isfinite(t).all().item<bool>()) continue;
    sink_->warn("step " + std::to_string(trainer_->global_step()) + " is not saved: " + name +
                " is not finite; what was saved before stays");
    return false;
  }
  return true;
}

void TrainRun::save_state() {
  if (state_step_ == trainer_->global_step() || !weights_are_sound(trainer_->model_state())) return;
  train::TrainingState state = trainer_->state();
  state.meta["validated"] = validated_;
  if (best_) state.meta["best"] = {{"metric", config().best_metric}, {"value", *best_}, {"step", best_step_}};
  train::StateFiles(*config().output_dir).save(state);
  state_step_ = state.step;
}

/// Validates, saves the weights, and points to them if they are the best so far.
void TrainRun::validate(std::int64_t step) {
  const auto start = std::chrono::steady_clock::now();
  std::optional<double> value;
  for (std::size_t i = 0; i < data_.validations.size(); ++i) {
    const auto& validation = *data_.validations[i];
    const std::string prefix = i == 0 ? "valid/" : "valid/" + validation.name() + "/";
    std::string line =
        "validation at step " + std::to_string(step) + (i == 0 ? "" : " (" + validation.name() + ")") + ":";
    for (const auto& [name, v] : validation.run(*model_)) {
      sink_->scalar(prefix + name, step, v);
      if (name.find("meanR") == std::string::npos) line += " " + name + " " + number(std::round(v * 1e4) / 1e4);
      if (i == 0 && name == config().best_metric) value = v;
    }
    sink_->info(line);
  }
  valid_seconds_ += std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  say_warnings();
  validated_ = step;
  const auto weights = trainer_->model_state();
  if (!weights_are_sound(weights)) return;
  files_->save(step, weights);
  if (!value || !std::isfinite(*value) || (best_ && !better(config().best_metric, *value, *best_))) return;
  best_ = value;
  best_step_ = step;
  files_->mark_best(step);
}

void TrainRun::summary(const std::string& how, double seconds) {
  const auto steps = trainer_->global_step() - first_step_;
  const auto per = [&](double ms) { return fixed(ms / std::max(1.0, static_cast<double>(steps)), 1); };
  sink_->summary();
  sink_->info(how + ": " + std::to_string(steps) + " steps in " + duration(seconds) + " (" + duration(valid_seconds_) +
              " of it validation); a step " + per(step_ms_ + wait_ms_) + " ms: forward " + per(forward_ms_) +
              ", backward " + per(backward_ms_) + ", optimizer " + per(optimizer_ms_) + ", data wait " + per(wait_ms_) +
              "; skipped " + std::to_string(trainer_->skipped_steps()) + " of " +
              std::to_string(trainer_->global_step()));
  if (best_) {
    sink_->info("best " + config().best_metric + " " + number(std::round(*best_ * 1e4) / 1e4) + " at step " +
                std::to_string(best_step_) + ": " + files_->file_of(best_step_).string());
  }
  sink_->flush();
}

bool TrainRun::validation_is_due(std::int64_t step) const {
  return step > validated_ && (step % data_.plan.valid_steps == 0 || step == data_.plan.num_train_steps);
}

/// The run ends on weights that no state can hold.
diverged_error TrainRun::unsound(std::int64_t step) const {
  return diverged_error("train: the weights of step " + std::to_string(step) + " are not finite; " +
                        (state_step_ > 0 ? "the state of step " + std::to_string(state_step_) + " is the last sound one"
                                         : std::string("no state was saved by this run")) +
                        "; try a smaller learning_rate or grad_norm");
}

int TrainRun::loop() {
  const auto start = std::chrono::steady_clock::now();
  const auto seconds = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(); };
  const std::int64_t last = data_.plan.num_train_steps;
  if (StopSignals::requested()) {
    sink_->info("interrupted before the first step");
    return interrupted;
  }
  if (const auto step = trainer_->global_step(); validation_is_due(step)) {  // a signal came before it
    validate(step);
    state_step_ = 0;
    save_state();
  }
  while (trainer_->global_step() < last) {
    const auto record = trainer_->step();
    if (!record) throw content_error("the training data ended before step " + std::to_string(last));
    on_step(*record);
    const bool stop = StopSignals::requested();
    if (!stop && validation_is_due(record->step)) validate(record->step);
    if (stop || record->step % data_.save_steps == 0 || record->step == last) save_state();
    if ((stop || record->step == last) && state_step_ != record->step) throw unsound(record->step);
    if (!stop) continue;
    summary("interrupted, the state of step " + std::to_string(state_step_) + " is saved", seconds());
    return interrupted;
  }
  summary("done", seconds());
  return done;
}

int TrainRun::run() {
  if (config().dry_run) return dry_run();
  const StopSignals signals;
  if (!find_start()) return done;
  open_logs();
  for (const auto& line : run_head(settings_, data_)) sink_->info(line);
  for (const auto& line : settings_.notes) sink_->info("note: " + line);
  for (const auto& line : settings_.warnings) sink_->warn(line);
  say_warnings();
  check_videos();
  start_trainer();
  write_settings();
  return loop();
}

/// What a config with do_inference asks of the run in output_dir, as flags.
Words inference_flags(config::Config c) {
  const std::vector<std::string> paths{"inference_txt_db", "inference_img_db"};
  config::check_paths(c, paths);
  Words flags;
  const Json all = config::to_json(c);
  for (const auto& [key, value] : all.items()) {
    const bool wanted = key.starts_with("inference_") || key == "output_dir" || key == "score_agg_func";
    if (!wanted || !config::is_given(c, key)) continue;
    flags.push_back("--" + key + "=" + (value.is_string() ? value.get<std::string>() : dumped(value)));
  }
  return flags;
}

}  // namespace

int train(const Words& words) {
  CLI::App app("Trains a video-text retrieval model: every config key is a flag, a flag wins over the file", "train");
  std::string file;
  app.add_option("--config", file, "JSON file of settings (as ClipBERT's)")->type_name("FILE");
  app.footer("\nConfig keys, each with its meaning, values and [default]:\n" + config::help_text());
  const auto split = split_words(app, words);
  if (!parse_flags(app, split.fixed)) return done;
  auto loaded = config::load(file.empty() ? std::nullopt : std::optional<fs::path>(file), split.keys);
  if (loaded.config.output_dir.value_or("").empty())
    throw usage_error("train: output_dir is not set; give --output_dir FOLDER");
  if (loaded.config.do_inference) return evaluate_run(inference_flags(loaded.config), false);
  if (!loaded.config.tokenizer_dir)
    throw usage_error("train: tokenizer_dir is not set; give the folder that holds vocab.txt");
  return TrainRun(std::move(loaded)).run();
}

}  // namespace clipbert::cli
