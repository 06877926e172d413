#include "log/metrics_file.hpp"

#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "config/errors.hpp"

namespace clipbert::log {
namespace fs = std::filesystem;

namespace {

/// Bytes of the whole lines that belong to steps up to `last`.
std::uintmax_t kept_bytes(const fs::path& file, std::int64_t last) {
  std::ifstream in(file, std::ios::binary);
  std::uintmax_t kept = 0;
  for (std::string line; std::getline(in, line) && !in.eof();) {
    const auto json = nlohmann::json::parse(line, nullptr, false);
    if (!json.is_object() || !json.contains("step") || !json["step"].is_number_integer() || json["step"] > last) break;
    kept += line.size() + 1;
  }
  return kept;
}

}  // namespace

MetricsFile::MetricsFile(fs::path file, std::int64_t resumed_step) : file_(std::move(file)) {
  std::error_code error;
  if (fs::exists(file_, error)) fs::resize_file(file_, resumed_step > 0 ? kept_bytes(file_, resumed_step) : 0, error);
  if (!error) out_.open(file_, std::ios::binary | std::ios::app);
  if (error || !out_) throw content_error(file_.string() + ": cannot be written; check the folder and its permissions");
}

void MetricsFile::step(const StepRecord& r) {
  // nlohmann writes NaN and infinities as null: JSON has no other word for them
  const nlohmann::ordered_json line{{"step", r.step},
                                    {"epoch", r.epoch},
                                    {"loss", r.loss},
                                    {"loss_smoothed", r.loss_smoothed},
                                    {"loss_scale", r.loss_scale},
                                    {"skipped", r.skipped},
                                    {"grad_norm", r.grad_norm},
                                    {"lr_transformer", r.lr_transformer},
                                    {"lr_cnn", r.lr_cnn},
                                    {"examples_per_second", r.examples_per_second},
                                    {"data_wait_ms", r.data_wait_ms},
                                    {"step_ms", r.step_ms},
                                    {"mem_bytes", r.mem_bytes}};
  out_ << line.dump() + "\n";
  out_.flush();  // a line per step that a kill does not take
  if (!out_) throw content_error(file_.string() + ": cannot be written; check the free space");
}

}  // namespace clipbert::log
