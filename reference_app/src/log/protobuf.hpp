/// The few parts of protobuf's wire format that event files need.
/// source  protobuf.dev/programming-guides/encoding
#pragma once
#include <bit>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

namespace clipbert::log::protobuf {

enum class Wire { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

template <class T>
void append_raw(std::string& out, T value) {
  static_assert(std::endian::native == std::endian::little);
  char bytes[sizeof(T)];
  std::memcpy(bytes, &value, sizeof(T));
  out.append(bytes, sizeof(T));
}

inline void append_varint(std::string& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>(value | 0x80);
  out += static_cast<char>(value);
}

inline void append_tag(std::string& out, int field, Wire wire) {
  append_varint(out, static_cast<std::uint64_t>(field) << 3 | static_cast<std::uint64_t>(wire));
}

inline std::string integer(int field, std::int64_t value) {
  std::string out;
  append_tag(out, field, Wire::varint);
  append_varint(out, static_cast<std::uint64_t>(value));
  return out;
}
inline std::string real64(int field, double value) {
  std::string out;
  append_tag(out, field, Wire::fixed64);
  append_raw(out, value);
  return out;
}
inline std::string real32(int field, float value) {
  std::string out;
  append_tag(out, field, Wire::fixed32);
  append_raw(out, value);
  return out;
}
inline std::string bytes(int field, std::string_view value) {
  std::string out;
  append_tag(out, field, Wire::bytes);
  append_varint(out, value.size());
  out += value;
  return out;
}

/// One field of a message.
struct Field {
  int number = 0;
  Wire wire = Wire::varint;
  std::uint64_t bits = 0;   ///< varint, fixed64, fixed32
  std::string_view inside;  ///< bytes

  [[nodiscard]] double real() const {
    return wire == Wire::fixed32 ? static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(bits)))
                                 : std::bit_cast<double>(bits);
  }
};

/// Walks through the fields of a message; every length is checked.
class Reader {
 public:
  explicit Reader(std::string_view message) : rest_(message) {}

  /// The next field; nothing at the end or where the message is broken.
  std::optional<Field> next() {
    if (rest_.empty()) return std::nullopt;
    Field field;
    std::uint64_t tag = 0, length = 0;
    if (!varint(tag) || tag >> 3 == 0 || tag >> 3 > 0x1fffffff) return broken();
    field.number = static_cast<int>(tag >> 3);
    field.wire = static_cast<Wire>(tag & 7);
    switch (field.wire) {
      case Wire::varint:
        return varint(field.bits) ? std::optional(field) : broken();
      case Wire::fixed64:
        return raw(&field.bits, 8) ? std::optional(field) : broken();
      case Wire::fixed32:
        return raw(&field.bits, 4) ? std::optional(field) : broken();
      case Wire::bytes:
        if (!varint(length) || length > rest_.size()) return broken();
        field.inside = rest_.substr(0, length);
        rest_.remove_prefix(length);
        return field;
    }
    return broken();
  }

  [[nodiscard]] bool failed() const { return failed_; }

 private:
  std::optional<Field> broken() {
    failed_ = true;
    rest_ = {};
    return std::nullopt;
  }
  bool varint(std::uint64_t& value) {
    value = 0;
    for (int shift = 0; shift < 64 && !rest_.empty(); shift += 7) {
      const auto byte = static_cast<unsigned char>(rest_.front());
      rest_.remove_prefix(1);
      value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return true;
    }
    return false;
  }
  bool raw(std::uint64_t* value, std::size_t size) {
    if (rest_.size() < size) return false;
    std::memcpy(value, rest_.data(), size);
    rest_.remove_prefix(size);
    return true;
  }

  std::string_view rest_;
  bool failed_ = false;
};

}  // namespace clipbert::log::protobuf
