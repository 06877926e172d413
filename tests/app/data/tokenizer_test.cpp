#include "data/tokenizer.hpp"

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "app/data/support.hpp"
#include "config/errors.hpp"

namespace data = clipbert::data;
using Ids = std::vector<std::int64_t>;
using test_support::has;
using test_support::message_of;
using test_support::TempFolder;

namespace {

const std::string words = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\ncafe\nrun\n##ner\n##s\n猫\n!\n#\n";  // cafe is 5

data::Tokenizer tokenizer_of(const TempFolder& folder, const std::string& text = words) {
  return data::Tokenizer{data::Vocabulary(folder.write("vocab.txt", text))};
}

}  // namespace

TEST_SUITE("data/tokenizer") {
  TEST_CASE("B90 accents, case, CJK, control characters and symbols are taken as BERT takes them") {
    const TempFolder folder;
    const auto tokenizer = tokenizer_of(folder);
    const auto plain = [&](const std::string& text) {
      Ids ids = tokenizer.encode(text);
      REQUIRE((ids.front() == 2 && ids.back() == 3));
      return Ids(ids.begin() + 1, ids.end() - 1);
    };
    CHECK(plain("CAFÉ cafe\xCC\x81 Café") == Ids{5, 5, 5});
    CHECK(plain("runners run") == Ids{6, 7, 8, 6});
    CHECK(plain("猫猫run") == Ids{9, 9, 6});
    CHECK(plain("ca\x01"
                "fe\xE2\x80\x8B\xEF\xBF\xBD!run#") == Ids{5, 10, 6, 11});
    CHECK(plain("\t run\xC2\xA0\xE3\x80\x80run\n") == Ids{6, 6});
    CHECK(plain("runx") == Ids{1});
    CHECK(plain("") == Ids{});
    CHECK(plain("run\xFF\xC3run") == Ids{1});
  }

  TEST_CASE("B90 a word of 100 characters is cut into pieces, one of 101 is unknown") {
    const TempFolder folder;
    const auto tokenizer = tokenizer_of(folder, words + "é\n##e\ne\n");
    std::string word;
    for (int i = 0; i < 100; ++i) word += "é";
    CHECK(tokenizer.encode(word).size() == 102);
    CHECK(tokenizer.encode(word + "é") == Ids{2, 1, 3});
  }

  TEST_CASE("special tokens written in the text count as such, in their exact form only") {
    const TempFolder folder;
    const auto tokenizer = tokenizer_of(folder, words + "[\n]\ncls\n");
    CHECK(tokenizer.encode("run[SEP]run [MASK]") == Ids{2, 6, 3, 6, 4, 3});
    CHECK(tokenizer.encode("[cls]") == Ids{2, 12, 14, 13, 3});
  }

  TEST_CASE("a text is cut or filled to its length between [CLS] and [SEP]") {
    const TempFolder folder;
    const auto tokenizer = tokenizer_of(folder);
    CHECK(tokenizer.fit("run run run", 4).ids == Ids{2, 6, 6, 3});
    CHECK(tokenizer.fit("run", 5).ids == Ids{2, 6, 3, 0, 0});
    CHECK(tokenizer.fit("run", 5).mask == Ids{1, 1, 1, 0, 0});
    CHECK(tokenizer.fit("run run", 2).ids == Ids{2, 3});
    CHECK_THROWS_AS((void)tokenizer.fit("run", 1), clipbert::usage_error);
  }

  TEST_CASE("B94 a byte order mark and CR LF change no id of a vocabulary, an empty line takes one") {
    const TempFolder folder;
    std::string crlf = "\xEF\xBB\xBF";
    for (const char c : words) crlf += c == '\n' ? std::string("\r\n") : std::string(1, c);
    const data::Vocabulary plain(folder.write("a.txt", words)), other(folder.write("b.txt", crlf));
    CHECK(plain.size() == other.size());
    for (const char* token : {"[PAD]", "cafe", "#"}) CHECK(plain.id(token) == other.id(token));
    const data::Vocabulary gap(folder.write("c.txt", "[PAD]\n\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nlast"));
    CHECK(gap.id("[UNK]") == 2);
    CHECK(gap.id("last") == 6);
    CHECK(gap.size() == 7);
  }

  TEST_CASE("a token given twice is a warning and the last id counts, a missing special token is an error") {
    const TempFolder folder;
    const auto file = folder.write("twice.txt", words + "run\n");
    const data::Vocabulary vocabulary(file);
    CHECK(vocabulary.id("run") == 12);
    REQUIRE(vocabulary.warnings().size() == 1);
    CHECK(has(vocabulary.warnings()[0], file.string()));
    CHECK(has(vocabulary.warnings()[0], "\"run\""));
    const auto lacking = folder.write("lacking.txt", "[PAD]\n[UNK]\n[CLS]\n[MASK]\n");
    const std::string message = message_of<clipbert::content_error>([&] { data::Vocabulary{lacking}; });
    CHECK(has(message, lacking.string()));
    CHECK(has(message, "[SEP]"));
    CHECK(has(message_of<clipbert::content_error>([&] { data::Vocabulary{folder.path() / "none.txt"}; }), "none.txt"));
    CHECK(has(
        message_of<clipbert::content_error>([&] { data::Vocabulary{folder.write("latin.txt", words + "caf\xE9\n")}; }),
        "UTF-8"));
  }
}
