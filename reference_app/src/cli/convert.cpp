#include <CLI/CLI.hpp>
#include <filesystem>
#include <iostream>

#include "cli/flags.hpp"
#include "cli/frame.hpp"
#include "config/errors.hpp"
#include "io/checkpoint_file.hpp"

namespace clipbert::cli {

int convert(const Words& words) {
  CLI::App app(
      "Converts weights between PyTorch's files and safetensors, bit for bit. Read: .pt, .pth, .bin (zip and the older "
      "form), .pkl (numpy arrays, detectron2), .safetensors, told apart by content. Written, by the name's extension: "
      ".pt, .pth, .bin (zip; torch.load(weights_only=True) reads it) or .safetensors. Of a training checkpoint only "
      "the "
      "weights are taken. Nothing in a file is executed",
      "convert");
  std::string in, out;
  app.add_option("IN", in, "the file to read")->required();
  app.add_option("OUT", out, "the file to write; one that exists is replaced once the new one is whole")->required();
  if (!parse_flags(app, words)) return done;
  if (!std::filesystem::exists(in)) throw usage_error(in + ": does not exist; check the path");
  io::check_writable_format(out);
  const auto weights = io::read_weights(in);
  io::write_weights(out, io::views_of(weights.tensors));
  std::uintmax_t bytes = 0;
  for (const auto& [name, tensor] : weights.tensors) bytes += tensor.bytes.size();
  const auto remarks = weights.remarks();
  std::cout << in << " -> " << out << ": " << weights.tensors.size() << " tensors, " << bytes << " bytes"
            << (remarks.empty() ? "" : "; ") << remarks << '\n';
  if (const auto bad = io::nonfinite_tensors(weights.tensors); !bad.empty())
    std::cerr << "clipbert: warning: " << in << ": " << bad.size() << " tensors hold NaN or infinity, the first is "
              << bad.front() << "; they were converted as they are\n";
  return done;
}

}  // namespace clipbert::cli
