#include "cli/settings.hpp"

#include <ATen/Parallel.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <thread>

#include "cli/table.hpp"
#include "config/errors.hpp"

namespace clipbert::cli {
namespace {

std::int64_t cores() { return static_cast<std::int64_t>(std::max(1U, std::thread::hardware_concurrency())); }

/// Keys that the configuration knows and this version cannot follow yet are refused, never ignored.
void refuse_unsupported(const config::Config& c) {
  const auto refuse = [](const std::string& key, const std::string& value, const std::string& instead) {
    throw usage_error(key + " " + value + " is not in this version; use " + instead);
  };
  if (c.device->starts_with("cuda")) refuse("device", *c.device, "cpu");
}

}  // namespace

Settings settle(config::Loaded loaded, std::span<const std::string> only) {
  Settings s;
  s.warnings = std::move(loaded.warnings);
  config::check_paths(loaded.config, only);
  s.model = config::model_config(loaded.config, &s.warnings);
  s.devices = find_devices();
  if (!loaded.config.device && !s.devices.cuda.empty()) {
    loaded.config.device = "cpu";
    s.notes.emplace_back("device cpu: this version trains on the CPU only");
  }
  auto effective = config::effective(loaded.config, !s.devices.cuda.empty());
  s.config = std::move(effective.config);
  std::ranges::move(effective.notes, std::back_inserter(s.notes));
  refuse_unsupported(s.config);
  if (s.config.num_threads > cores()) {  // threads that wait for a core wait by spinning
    s.notes.push_back("num_threads " + std::to_string(s.config.num_threads) + " is more than the " +
                      std::to_string(cores()) + " cores of this machine, which are used");
    s.config.num_threads = cores();
  }
  at::set_num_threads(static_cast<int>(s.config.num_threads));
  return s;
}

std::shared_ptr<const data::Tokenizer> open_tokenizer(const Settings& settings, const std::string& folder) {
  if (folder.empty()) throw usage_error("tokenizer_dir is not set; give the folder that holds vocab.txt");
  const auto file = std::filesystem::path(folder) / "vocab.txt";
  data::Vocabulary vocabulary(file);
  if (vocabulary.size() > settings.model.vocab_size) {
    throw content_error(file.string() + ": has " + std::to_string(vocabulary.size()) +
                        " tokens, but vocab_size of the " + "model is " + std::to_string(settings.model.vocab_size) +
                        "; raise it or take the model's own file");
  }
  if (settings.config.max_txt_len > settings.model.max_position_embeddings) {
    throw usage_error("max_txt_len " + std::to_string(settings.config.max_txt_len) + " is over the model's " +
                      "max_position_embeddings " + std::to_string(settings.model.max_position_embeddings));
  }
  return std::make_shared<const data::Tokenizer>(std::move(vocabulary));
}

data::ClipOptions training_clips(const config::Config& c) {
  data::ClipOptions clips{.n_clips = c.train_n_clips,
                          .num_frm = c.num_frm,
                          .fps = static_cast<double>(c.fps),
                          .strategy = data::strategy_of(c.frm_sampling_strategy),
                          .by_strategy = c.random_sample_clips,
                          .max_img_size = static_cast<int>(c.max_img_size),
                          .normalisation = {}};
  for (std::size_t i = 0; i < 3; ++i) {
    clips.normalisation.mean[i] = static_cast<float>(c.img_pixel_mean.at(i));
    clips.normalisation.std[i] = static_cast<float>(c.img_pixel_std.at(i));
  }
  return clips;
}

data::ClipOptions scoring_clips(const config::Config& c) {
  data::ClipOptions clips = training_clips(c);
  clips.n_clips = c.inference_n_clips;
  return data::for_evaluation(clips);
}

void expect_memory(const data::ClipOptions& clips, std::int64_t videos, const std::string& what) {
  const double bytes = 4.0 * 3 * clips.max_img_size * clips.max_img_size * static_cast<double>(clips.n_clips) *
                       static_cast<double>(clips.num_frm) * static_cast<double>(videos);
  const double memory = static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
  if (bytes <= memory) return;
  throw usage_error(what + " take " + fixed(bytes / 0x1p30, 1) + " GiB (" + std::to_string(videos) + " videos x " +
                    std::to_string(clips.n_clips) + " clips x " + std::to_string(clips.num_frm) + " frames of " +
                    std::to_string(clips.max_img_size) + " x " + std::to_string(clips.max_img_size) +
                    " pixels), the machine has " + fixed(memory / 0x1p30, 1) + " GiB; lower the batch size, " +
                    "train_n_clips or inference_n_clips, num_frm, or max_img_size");
}

int decode_threads(const config::Config& c) {
  return static_cast<int>(std::clamp<std::int64_t>(c.n_workers, 0, cores()));
}

int loader_threads(const config::Config& c) {
  const auto left = std::max<std::int64_t>(1, cores() - c.num_threads);
  return static_cast<int>(std::clamp<std::int64_t>(c.n_workers, 0, left));
}

}  // namespace clipbert::cli
