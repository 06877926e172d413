#include "cli/info.hpp"

#include <ATen/Parallel.h>
#include <ATen/Version.h>
#include <torch/version.h>

#include <CLI/CLI.hpp>
#include <amp/core/config.hpp>
#include <amp/simd/target.hpp>
#include <array>
#include <iostream>
#include <nlohmann/json.hpp>
#include <thread>

#include "cli/devices.hpp"
#include "cli/flags.hpp"
#include "cli/frame.hpp"

extern "C" {
#include <libavcodec/avcodec.h>
#include <libavformat/avformat.h>
#include <libavutil/avutil.h>
#include <libswscale/swscale.h>
}

namespace clipbert::cli {
namespace {

using Json = nlohmann::ordered_json;

std::string version_text() {
  return std::to_string(AMP_VERSION_MAJOR) + '.' + std::to_string(AMP_VERSION_MINOR) + '.' +
         std::to_string(AMP_VERSION_PATCH);
}

std::string av_version(unsigned v) {
  return std::to_string(v >> 16) + '.' + std::to_string(v >> 8 & 0xFF) + '.' + std::to_string(v & 0xFF);
}

std::vector<std::string> cpu_features() {
  std::vector<std::string> out;
#if AMP_X86
  // A macro, since the builtin takes literals only.
#define CLIPBERT_FEATURE(name) \
  if (__builtin_cpu_supports(name)) out.emplace_back(name)
  CLIPBERT_FEATURE("sse2");
  CLIPBERT_FEATURE("sse4.2");
  CLIPBERT_FEATURE("avx");
  CLIPBERT_FEATURE("avx2");
  CLIPBERT_FEATURE("fma");
  CLIPBERT_FEATURE("avx512f");
  CLIPBERT_FEATURE("avx512bw");
  CLIPBERT_FEATURE("avx512vl");
  CLIPBERT_FEATURE("avx512bf16");
#undef CLIPBERT_FEATURE
#endif
  return out;
}

std::vector<std::string> decoders() {
  constexpr std::array wanted{"h264",       "hevc",       "libdav1d", "vp8",   "vp9",
                              "mpeg1video", "mpeg2video", "mpeg4",    "mjpeg", "gif"};
  std::vector<std::string> out;
  for (const char* name : wanted) {
    if (avcodec_find_decoder_by_name(name) != nullptr) out.emplace_back(name);
  }
  return out;
}

std::vector<std::string> encoders() {
  std::vector<std::string> out;
  for (const char* name : {"libx264", "mjpeg", "png"}) {
    if (avcodec_find_encoder_by_name(name) != nullptr) out.emplace_back(name);
  }
  return out;
}

Json collect() {
  const Devices devices = find_devices();
  Json j;
  j["clipbert"] = version_text();
  j["libtorch"] = TORCH_VERSION;
  j["libav"] = {{"release", av_version_info()},
                {"avcodec", av_version(avcodec_version())},
                {"avformat", av_version(avformat_version())},
                {"swscale", av_version(swscale_version())}};
  j["compiler"] = __VERSION__;
  j["cpu"] = devices.cpu;
  j["cpu_features"] = cpu_features();
  j["amp_kernels"] = std::string(amp::simd::name(amp::simd::best_target()));
  j["libtorch_kernels"] = at::get_cpu_capability();
  j["threads"] = {{"cores", std::thread::hardware_concurrency()}, {"libtorch", at::get_num_threads()}};
  j["devices"] = Json::array({"cpu"});
  for (const auto& name : devices.cuda) j["devices"].push_back(name);
  if (!devices.why_no_cuda.empty()) j["why_no_cuda"] = devices.why_no_cuda;
  j["decoders"] = decoders();
  j["encoders"] = encoders();
  j["distributed_backends"] = Json::array();
  return j;
}

std::string as_words(const Json& value) {
  if (value.is_string()) return value.get<std::string>();
  if (!value.is_structured()) return value.dump();
  std::string out;
  for (const auto& [key, item] : value.items()) {
    if (!out.empty()) out += value.is_object() ? ", " : " ";
    out += (value.is_object() ? key + ' ' : "") + as_words(item);
  }
  return out.empty() ? "none" : out;
}

}  // namespace

void print_version(std::ostream& out) {
  out << "clipbert " << version_text() << " (LibTorch " << TORCH_VERSION << ", FFmpeg " << av_version_info() << ")\n";
}

int info(const Words& words) {
  CLI::App app("Versions, CPU features in use, devices, codecs and threads", "info");
  bool json = false;
  app.add_flag("--json", json, "print JSON");
  if (!parse_flags(app, words)) return done;
  const Json facts = collect();
  if (json) {
    std::cout << facts.dump(2, ' ', false, Json::error_handler_t::replace) << '\n';
    return done;
  }
  for (const auto& [key, value] : facts.items()) {
    std::cout << key << std::string(key.size() < 22 ? 22 - key.size() : 1, ' ') << as_words(value) << '\n';
  }
  return done;
}

}  // namespace clipbert::cli
