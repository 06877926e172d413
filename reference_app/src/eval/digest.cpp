#include "eval/digest.hpp"

#include <torch/torch.h>

#include <array>
#include <cstdint>
#include <new>
#include <sstream>

#include "model/clipbert.hpp"

extern "C" {
#include <libavutil/mem.h>
#include <libavutil/murmur3.h>
}

namespace clipbert::eval {

Digest::Digest() : state_(av_murmur3_alloc()) {
  if (state_ == nullptr) throw std::bad_alloc();
  av_murmur3_init(state_);
}

Digest::~Digest() { av_free(state_); }

Digest& Digest::add(std::span<const std::byte> bytes) {
  constexpr std::size_t most = std::size_t{1} << 30;  // libav of some versions counts in int
  for (; !bytes.empty(); bytes = bytes.subspan(std::min(most, bytes.size()))) {
    const auto part = bytes.first(std::min(most, bytes.size()));
    av_murmur3_update(state_, reinterpret_cast<const std::uint8_t*>(part.data()), part.size());
  }
  return *this;
}

std::string Digest::text() {
  std::array<std::uint8_t, 16> sum{};
  av_murmur3_final(state_, sum.data());
  constexpr char digits[] = "0123456789abcdef";
  std::string out;
  for (const auto byte : sum) out += {digits[byte >> 4], digits[byte & 15]};
  return out;
}

std::string digest_of(std::span<const std::byte> bytes) { return Digest().add(bytes).text(); }

std::string digest_of(const model::ClipBert& model) {
  Digest digest;
  for (const auto& [name, value] : model.named_tensors()) {
    const auto t = value.detach().to(at::kCPU).contiguous();
    std::ostringstream what;
    what << name << ' ' << t.scalar_type() << t.sizes() << '\n';
    digest.add(what.str()).add({static_cast<const std::byte*>(t.const_data_ptr()), t.nbytes()});
  }
  return digest.text();
}

}  // namespace clipbert::eval
