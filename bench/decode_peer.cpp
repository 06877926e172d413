/// Frames of a video as a server for peers/decode.py: prints "ready", then answers each line that it reads.
///   stored FILE i j ...    frames i, j, ... as 8-bit RGB of the stored size
///   fitted FILE i j ...    the same, fitted into 448x448 floats and normalised: the model's input
/// An answer is "done", the processor seconds that it took and a value of the result.
#include <cstdio>
#include <ctime>
#include <exception>
#include <iostream>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include "data/image.hpp"
#include "data/video.hpp"

namespace {

namespace data = clipbert::data;

double processor_seconds() {
  timespec now{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double answer(const std::string& form, const std::string& file, const std::vector<std::size_t>& indices) {
  const std::vector<data::Frame> frames = data::Video(file).frames(indices);
  double sum = 0;
  if (form == "stored") {
    for (const data::Frame& frame : frames) sum += frame.rgb[frame.rgb.size() / 2];
    return sum;
  }
  constexpr int side = 448;
  constexpr std::size_t area = std::size_t{side} * side;
  std::vector<float> input(frames.size() * 3 * area);
  for (std::size_t i = 0; i < frames.size(); ++i) {
    data::fit_and_pad(frames[i].rgb, {frames[i].height, frames[i].width}, side,
                      std::span(input).subspan(i * 3 * area, 3 * area));
  }
  data::normalise(input, area, {});
  return input[input.size() / 2];
}

}  // namespace

int main() try {
  std::cout << "ready" << std::endl;
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    std::string form, file;
    words >> form >> file;
    std::vector<std::size_t> indices;
    for (std::size_t index = 0; words >> index;) indices.push_back(index);
    const double before = processor_seconds();
    const double sum = answer(form, file, indices);
    std::cout << "done " << processor_seconds() - before << ' ' << sum << std::endl;
  }
} catch (const std::exception& error) {
  std::fprintf(stderr, "decode_peer: %s\n", error.what());
  return 3;
}
