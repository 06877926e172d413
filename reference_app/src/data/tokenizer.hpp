/// BERT's uncased WordPiece tokenizer and its vocabulary file.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace clipbert::data {

struct StringHash {
  using is_transparent = void;
  std::size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
};

/// A vocabulary file: one token a line, its id is the line's number from 0.
/// LF or CR LF, byte order mark accepted; an empty line takes an id; of a token given twice the last id counts.
class Vocabulary {
 public:
  enum Special : std::size_t { pad, unk, cls, sep, mask };

  /// throws  content_error if the file is unreadable, not UTF-8, or lacks a special token (named)
  explicit Vocabulary(const std::filesystem::path& file);

  [[nodiscard]] std::int64_t size() const { return size_; }
  /// The id of a token, or -1.
  [[nodiscard]] std::int64_t id(std::string_view token) const;
  [[nodiscard]] std::int64_t special(Special which) const { return special_[which]; }
  /// One line per token that the file gives twice, with the file's name.
  [[nodiscard]] const std::vector<std::string>& warnings() const { return warnings_; }

  /// True if every text has the same ids in both.
  friend bool operator==(const Vocabulary& a, const Vocabulary& b) { return a.size_ == b.size_ && a.ids_ == b.ids_; }

  static constexpr std::array<std::string_view, 5> special_tokens = {"[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"};

 private:
  std::unordered_map<std::string, std::int64_t, StringHash, std::equal_to<>> ids_;
  std::array<std::int64_t, 5> special_{};
  std::int64_t size_ = 0;
  std::vector<std::string> warnings_;
};

/// Ids of one text at a fixed length, and where they are real.
struct FittedText {
  std::vector<std::int64_t> ids, mask;
};

/// Text to ids: cleaned, CJK characters spaced, accents stripped (NFD), lower case, split at white space and
/// punctuation, then the longest known pieces. Special tokens written in the text count as such. source  Devlin et al.
/// 2018; equal to PyPI tokenizers' BertWordPieceTokenizer(lowercase=True)
class Tokenizer {
 public:
  explicit Tokenizer(Vocabulary vocabulary) : vocabulary_(std::move(vocabulary)) {}

  /// Ids with [CLS] and [SEP], of any length; bytes that are not UTF-8 count as U+FFFD, which is dropped.
  [[nodiscard]] std::vector<std::int64_t> encode(std::string_view text) const;
  /// Cut to `length` between [CLS] and [SEP], filled up with [PAD]; length >= 2.
  [[nodiscard]] FittedText fit(std::string_view text, std::int64_t length) const;
  [[nodiscard]] const Vocabulary& vocabulary() const { return vocabulary_; }

 private:
  void add_plain(std::string_view text, std::vector<std::int64_t>& ids) const;
  void add_word(std::string_view word, std::size_t characters, std::vector<std::int64_t>& ids) const;

  Vocabulary vocabulary_;
};

}  // namespace clipbert::data
