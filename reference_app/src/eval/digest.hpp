/// A short name for bytes: what was written is what is read, these weights are those. Not against forgers.
#pragma once
#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

struct AVMurMur3;

namespace clipbert::model {
class ClipBert;
}

namespace clipbert::eval {

/// MurmurHash3, 128 bits, of everything that was added.
class Digest {
 public:
  Digest();
  ~Digest();
  Digest(const Digest&) = delete;  // owns a running hash
  Digest& operator=(const Digest&) = delete;

  Digest& add(std::span<const std::byte> bytes);
  Digest& add(std::string_view text) { return add(std::as_bytes(std::span(text))); }
  /// 32 hex digits; nothing can be added after it.
  [[nodiscard]] std::string text();

 private:
  AVMurMur3* state_;
};

[[nodiscard]] std::string digest_of(std::span<const std::byte> bytes);

/// Of the names, types, shapes and bits of all tensors, as they are now.
[[nodiscard]] std::string digest_of(const model::ClipBert& model);

}  // namespace clipbert::eval
