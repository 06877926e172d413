/// Random numbers that are the same on every machine: a seed and a few counters name a stream.
#pragma once
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <utility>
#include <vector>

namespace clipbert::data {

/// SplitMix64 (Steele, Lea and Flood 2014), seeded from any number of words.
class Random {
 public:
  /// Streams that differ in one word are independent: Random{seed, epoch, index}.
  Random(std::initializer_list<std::uint64_t> words) {
    for (const std::uint64_t word : words) state_ = mix(state_ ^ mix(word + golden));
  }
  std::uint64_t next() { return mix(state_ += golden); }
  /// Uniform in [0, 1), 53 bits.
  double uniform() { return static_cast<double>(next() >> 11) * 0x1p-53; }
  double uniform(double low, double high) { return low + (high - low) * uniform(); }
  /// Uniform in [0, count); count > 0.
  std::size_t below(std::size_t count) { return static_cast<std::size_t>(uniform() * static_cast<double>(count)); }
  template <typename T>
  void shuffle(std::vector<T>& values) {
    for (std::size_t i = values.size(); i > 1; --i) std::swap(values[i - 1], values[below(i)]);
  }

 private:
  static constexpr std::uint64_t golden = 0x9E3779B97F4A7C15ULL;
  static constexpr std::uint64_t mix(std::uint64_t z) {
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
    return z ^ (z >> 31);
  }
  std::uint64_t state_ = 0;
};

}  // namespace clipbert::data
