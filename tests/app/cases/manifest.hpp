/// The shared cases: a manifest of input files and what must come out of each, by the rules of the folder's README.
#pragma once
#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cctype>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "app/cases/skip_list.hpp"
#include "support/shared_data.hpp"
#include "support/temp_folder.hpp"

namespace test_support {

struct Case {
  std::string name;  ///< the manifest's `file`
  std::filesystem::path file;
  nlohmann::json entry;

  [[nodiscard]] bool allows(const std::string& outcome) const {
    const auto& listed = entry.at("outcome");
    return listed.is_string() ? listed == outcome : std::find(listed.begin(), listed.end(), outcome) != listed.end();
  }
  [[nodiscard]] const nlohmann::json& expected() const { return entry.at("expected"); }
};

inline std::string file_bytes(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

/// SHA-256 (FIPS 180-4) as lower-case hex.
inline std::string sha256(std::string text) {
  // the first 32 bits of the fractional parts of the cube and square roots of the first primes
  static constexpr std::array<std::uint32_t, 64> k{
      0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
      0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
      0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
      0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
      0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
      0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
      0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
      0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};
  std::array<std::uint32_t, 8> h{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  const std::uint64_t bits = text.size() * 8;
  text += '\x80';
  text.append((120 - text.size() % 64) % 64, '\0');
  for (int shift = 56; shift >= 0; shift -= 8) text += static_cast<char>(bits >> shift);
  for (std::size_t at = 0; at < text.size(); at += 64) {
    std::array<std::uint32_t, 64> w{};
    for (std::size_t i = 0; i < 64; ++i) w[i / 4] = w[i / 4] << 8 | static_cast<unsigned char>(text[at + i]);
    for (std::size_t i = 16; i < 64; ++i)
      w[i] = w[i - 16] + (std::rotr(w[i - 15], 7) ^ std::rotr(w[i - 15], 18) ^ w[i - 15] >> 3) + w[i - 7] +
             (std::rotr(w[i - 2], 17) ^ std::rotr(w[i - 2], 19) ^ w[i - 2] >> 10);
    auto s = h;
    for (std::size_t i = 0; i < 64; ++i) {
      const auto t1 = s[7] + (std::rotr(s[4], 6) ^ std::rotr(s[4], 11) ^ std::rotr(s[4], 25)) +
                      ((s[4] & s[5]) ^ (~s[4] & s[6])) + k[i] + w[i];
      const auto t2 = (std::rotr(s[0], 2) ^ std::rotr(s[0], 13) ^ std::rotr(s[0], 22)) +
                      ((s[0] & s[1]) ^ (s[0] & s[2]) ^ (s[1] & s[2]));
      s = {t1 + t2, s[0], s[1], s[2], s[3] + t1, s[4], s[5], s[6]};
    }
    for (std::size_t i = 0; i < 8; ++i) h[i] += s[i];
  }
  std::string hex;
  for (const auto word : h)
    for (int shift = 28; shift >= 0; shift -= 4) hex += "0123456789abcdef"[word >> shift & 15];
  return hex;
}

/// The manifest as it stands; null, in words, without the shared folder.
inline nlohmann::json manifest() {
  const auto file = cases_folder() / "manifest.json";
  return have(file) ? nlohmann::json::parse(file_bytes(file)) : nlohmann::json();
}

/// A copy of a case's file under the name that the case asks for, in a folder of this process that goes with it.
inline std::filesystem::path renamed_copy(const std::filesystem::path& file, const std::string& name) {
  static const TempFolder folder;
  std::filesystem::copy_file(file, folder / name, std::filesystem::copy_options::overwrite_existing);
  return folder / name;
}

/// All cases of a kind that the skip list lets through; none, in words, without the shared folder. A file whose size or
/// hash is not the manifest's fails the test.
inline std::vector<Case> cases_of(const std::string& kind) {
  std::vector<Case> cases;
  const auto folder = cases_folder();
  const auto all = manifest();
  if (all.is_null()) return cases;
  for (const auto& entry : all.at("cases")) {
    if (entry.at("kind") != kind) continue;
    Case one{entry.at("file"), folder / entry.at("file").get<std::string>(), entry};
    if (const auto reason = skip_reason(kind, one.name); !reason.empty()) {
      std::cout << "[left out] " << one.name << ": " << reason << '\n';
      continue;
    }
    const auto bytes = file_bytes(one.file);
    if (bytes.size() != entry.at("bytes") || sha256(bytes) != entry.at("sha256")) {
      FAIL_CHECK("damaged test data: " << one.file);
      continue;
    }
    if (entry.contains("rename_to") && entry.at("rename_to").is_string())
      one.file = renamed_copy(one.file, entry.at("rename_to").get<std::string>());
    cases.push_back(std::move(one));
  }
  return cases;
}

/// True if `word` stands in `message`, in lower case and with the file's path taken out; a number stands there as a
/// whole.
inline bool mentions(std::string message, std::string word, const std::filesystem::path& file) {
  const auto lower = [](std::string& text) {
    for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  };
  for (auto at = message.find(file.string()); at != std::string::npos; at = message.find(file.string()))
    message.erase(at, file.string().size());
  lower(message);
  lower(word);
  const auto digit = [](char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; };
  const bool number = !word.empty() && std::ranges::all_of(word, digit);
  for (auto at = message.find(word); at != std::string::npos; at = message.find(word, at + 1)) {
    const auto end = at + word.size();
    if (!number) return true;
    if ((at == 0 || !digit(message[at - 1])) && (end == message.size() || !digit(message[end]))) return true;
  }
  return false;
}

/// What every refusal or warning owes: one line that names the file and says what the manifest asks for.
inline void check_message(const Case& one, const std::string& message) {
  CAPTURE(message);
  CHECK(message.find('\n') == std::string::npos);
  CHECK(message.find(one.file.filename().string()) != std::string::npos);
  for (const auto& word : one.entry.at("message_has")) CHECK(mentions(message, word.get<std::string>(), one.file));
}

/// The outcome of a run ("ok", "warn", "error") is one of those allowed, and what it says is right.
inline void check_outcome(const Case& one, const std::string& outcome, const std::string& message) {
  CAPTURE(outcome);
  CAPTURE(message);
  CHECK(one.allows(outcome));
  if (outcome != "ok") check_message(one, message);
}

}  // namespace test_support
