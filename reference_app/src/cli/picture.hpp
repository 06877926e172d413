/// Small pictures for pages: JPEG by libav, text form for embedding.
#pragma once
#include <cstdint>
#include <span>
#include <string>

namespace clipbert::cli {

/// Encodes packed RGB as JPEG, shrunk so that the longer side is at most `longest` pixels.
/// shape   rgb: height * width * 3 bytes, rows from the top
/// throws  std::runtime_error if libav refuses
[[nodiscard]] std::string jpeg(std::span<const std::uint8_t> rgb, int width, int height, int longest);

/// Base64 with padding.
/// source  RFC 4648, section 4
[[nodiscard]] std::string base64(const std::string& bytes);

}  // namespace clipbert::cli
