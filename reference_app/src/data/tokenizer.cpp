#include "data/tokenizer.hpp"

#include <utf8proc.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "config/errors.hpp"
#include "data/utf8.hpp"

namespace clipbert::data {
namespace {

/// Marks, punctuation and format characters younger than Unicode 8 (nothing older of these kinds lies between): the
/// reference's tables do not know them and take them for letters.
constexpr std::pair<std::int32_t, std::int32_t> unknown_to_reference[] = {
    {0x61D, 0x61D},     {0x7FD, 0x7FD},     {0x890, 0x8E2},     {0x9FD, 0x9FE},     {0xA76, 0xA76},
    {0xAFA, 0xAFF},     {0xB55, 0xB55},     {0xC04, 0xC3C},     {0xC77, 0xC77},     {0xC84, 0xC84},
    {0xD00, 0xD00},     {0xD3B, 0xD3C},     {0xD81, 0xD81},     {0xEBA, 0xEBA},     {0xECE, 0xECE},
    {0x180F, 0x1886},   {0x1ABF, 0x1ACE},   {0x1B7D, 0x1B7E},   {0x1DF6, 0x1DFB},   {0x2E43, 0x2E5D},
    {0xA82C, 0xA82C},   {0xA8C5, 0xA8C5},   {0xA8FF, 0xA8FF},   {0xA9BD, 0xA9BD},   {0x10D24, 0x10F89},
    {0x11070, 0x11074}, {0x110C2, 0x110CD}, {0x111CF, 0x111CF}, {0x1123E, 0x11241}, {0x1133B, 0x1133B},
    {0x11438, 0x1145E}, {0x11660, 0x1166C}, {0x116B9, 0x116B9}, {0x1182F, 0x11FFF}, {0x12FF1, 0x13455},
    {0x16E97, 0x16F4F}, {0x16FE2, 0x16FE4}, {0x1CF00, 0x1CF46}, {0x1E000, 0x1E4EF}, {0x1E944, 0x1E95F}};

/// The category as the reference's Unicode 8 tables have it.
utf8proc_category_t category(std::int32_t c) {
  if (c < 0x61D) return utf8proc_category(c);
  if (c == 0x166D || c == 0x111C9) return UTF8PROC_CATEGORY_PO;  // since then another kind
  if (c == 0x1734) return UTF8PROC_CATEGORY_MN;
  const auto kind = utf8proc_category(c);
  const bool counts = kind == UTF8PROC_CATEGORY_MN || kind == UTF8PROC_CATEGORY_CF ||
                      (kind >= UTF8PROC_CATEGORY_PC && kind <= UTF8PROC_CATEGORY_PO);
  const auto covers = [c](auto range) { return c >= range.first && c <= range.second; };
  const bool unknown = counts && std::any_of(std::begin(unknown_to_reference), std::end(unknown_to_reference), covers);
  return unknown ? UTF8PROC_CATEGORY_CN : kind;
}

/// Unicode's White_Space property: the separators and six control characters.
bool is_white_space(std::int32_t c) {
  if ((c >= 0x09 && c <= 0x0D) || c == 0x85) return true;
  const auto kind = category(c);
  return kind == UTF8PROC_CATEGORY_ZS || kind == UTF8PROC_CATEGORY_ZL || kind == UTF8PROC_CATEGORY_ZP;
}

bool is_dropped(std::int32_t c) {
  if (c == '\t' || c == '\n' || c == '\r') return false;
  if (c <= 0 || c == 0xFFFD) return true;
  const auto kind = category(c);
  return kind == UTF8PROC_CATEGORY_CC || kind == UTF8PROC_CATEGORY_CF || kind == UTF8PROC_CATEGORY_CO ||
         kind == UTF8PROC_CATEGORY_CS;
}

bool is_punctuation(std::int32_t c) {
  if (c < 0x80) return (c >= 33 && c <= 47) || (c >= 58 && c <= 64) || (c >= 91 && c <= 96) || (c >= 123 && c <= 126);
  const auto kind = category(c);
  return kind >= UTF8PROC_CATEGORY_PC && kind <= UTF8PROC_CATEGORY_PO;
}

/// The blocks that BERT spaces out; the gap from U+2B820 to U+2B91F is the reference's own.
bool is_cjk(std::int32_t c) {
  static constexpr std::pair<std::int32_t, std::int32_t> blocks[] = {
      {0x4E00, 0x9FFF},   {0x3400, 0x4DBF},   {0x20000, 0x2A6DF}, {0x2A700, 0x2B73F},
      {0x2B740, 0x2B81F}, {0x2B920, 0x2CEAF}, {0xF900, 0xFAFF},   {0x2F800, 0x2FA1F}};
  return std::any_of(std::begin(blocks), std::end(blocks),
                     [c](auto block) { return c >= block.first && c <= block.second; });
}

/// Cleaned, spaced and decomposed, without accents, in lower case.
std::vector<std::int32_t> normalised(std::string_view text) {
  std::vector<std::int32_t> result;
  for (std::size_t at = 0; at < text.size();) {
    const std::int32_t c = next_character(text, at);
    if (is_dropped(c)) continue;
    const bool spaced = is_cjk(c);
    if (spaced) result.push_back(' ');
    utf8proc_int32_t parts[32];
    int boundary = 0;
    const auto count = utf8proc_decompose_char(c, parts, 32, UTF8PROC_DECOMPOSE, &boundary);
    for (utf8proc_ssize_t i = 0; i < count; ++i) {
      if (is_white_space(parts[i])) {
        result.push_back(' ');
      } else if (category(parts[i]) != UTF8PROC_CATEGORY_MN) {
        result.push_back(utf8proc_tolower(parts[i]));
      }
    }
    if (spaced) result.push_back(' ');
  }
  return result;
}

}  // namespace

Vocabulary::Vocabulary(const std::filesystem::path& file) {
  const std::string text = read_text(file);
  std::string_view rest = text;
  if (rest.starts_with(byte_order_mark)) rest.remove_prefix(byte_order_mark.size());
  if (!is_utf8(rest)) throw content_error(file.string() + ": the vocabulary is not UTF-8");
  while (!rest.empty()) {
    const std::string_view token = take_line(rest);
    const auto [place, is_new] = ids_.try_emplace(std::string(token), size_);
    if (!is_new && !token.empty()) {
      warnings_.push_back(file.string() + ": line " + std::to_string(size_ + 1) + ": token \"" + std::string(token) +
                          "\" stands in line " + std::to_string(place->second + 1) + " already; the last id counts");
    }
    place->second = size_++;
  }
  std::string missing;
  for (std::size_t i = 0; i < special_tokens.size(); ++i) {
    special_[i] = id(special_tokens[i]);
    if (special_[i] < 0) missing += (missing.empty() ? "" : ", ") + std::string(special_tokens[i]);
  }
  if (!missing.empty()) throw content_error(file.string() + ": the vocabulary lacks the special token " + missing);
}

std::int64_t Vocabulary::id(std::string_view token) const {
  const auto found = ids_.find(token);
  return found == ids_.end() ? -1 : found->second;
}

void Tokenizer::add_word(std::string_view word, std::size_t characters, std::vector<std::int64_t>& ids) const {
  constexpr std::size_t longest_word = 100;  // BERT's max_input_chars_per_word
  const std::size_t before = ids.size();
  std::string piece;
  for (std::size_t start = 0; start < word.size() && characters <= longest_word;) {
    std::size_t end = word.size();
    std::int64_t id = -1;
    for (; end > start; --end) {
      if (end < word.size() && (static_cast<std::uint8_t>(word[end]) & 0xC0) == 0x80) continue;  // inside a character
      piece.assign(start > 0 ? "##" : "").append(word.substr(start, end - start));
      if (id = vocabulary_.id(piece); id >= 0) break;
    }
    if (id < 0) break;
    ids.push_back(id);
    start = end;
    if (start == word.size()) return;
  }
  ids.resize(before);
  ids.push_back(vocabulary_.special(Vocabulary::unk));
}

void Tokenizer::add_plain(std::string_view text, std::vector<std::int64_t>& ids) const {
  std::string word;
  std::size_t characters = 0;
  const auto flush = [&] {
    if (characters > 0) add_word(word, characters, ids);
    word.clear();
    characters = 0;
  };
  for (const std::int32_t c : normalised(text)) {
    if (c == ' ') {
      flush();
      continue;
    }
    const bool alone = is_punctuation(c);
    if (alone) flush();
    append_character(word, c);
    ++characters;
    if (alone) flush();
  }
  flush();
}

std::vector<std::int64_t> Tokenizer::encode(std::string_view text) const {
  std::vector<std::int64_t> ids{vocabulary_.special(Vocabulary::cls)};
  while (!text.empty()) {
    std::size_t first = std::string_view::npos, which = 0;
    for (std::size_t i = 0; i < Vocabulary::special_tokens.size(); ++i) {
      if (const std::size_t at = text.find(Vocabulary::special_tokens[i]); at < first) first = at, which = i;
    }
    add_plain(text.substr(0, first), ids);
    if (first == std::string_view::npos) break;
    ids.push_back(vocabulary_.special(static_cast<Vocabulary::Special>(which)));
    text.remove_prefix(first + Vocabulary::special_tokens[which].size());
  }
  ids.push_back(vocabulary_.special(Vocabulary::sep));
  return ids;
}

FittedText Tokenizer::fit(std::string_view text, std::int64_t length) const {
  if (length < 2) throw usage_error("max_txt_len is " + std::to_string(length) + ": at least 2, for [CLS] and [SEP]");
  const auto room = static_cast<std::size_t>(length);
  FittedText fitted{encode(text), {}};
  if (fitted.ids.size() > room) {
    fitted.ids.resize(room);
    fitted.ids.back() = vocabulary_.special(Vocabulary::sep);
  }
  fitted.mask.assign(fitted.ids.size(), 1);
  fitted.ids.resize(room, vocabulary_.special(Vocabulary::pad));
  fitted.mask.resize(room, 0);
  return fitted;
}

}  // namespace clipbert::data
