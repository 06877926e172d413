#include "log/tensorboard.hpp"

#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <limits>

#include "config/errors.hpp"
#include "log/protobuf.hpp"
#include "support/temp_folder.hpp"

namespace fs = std::filesystem;
using namespace clipbert::log;
using Folder = test_support::TempFolder;

namespace {

std::string content(const fs::path& file) {
  std::ifstream in(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
}

/// Keeps the warnings that it is given.
struct Warnings : EventSink {
  std::vector<std::string> lines;
  void warn(std::string_view line) override { lines.emplace_back(line); }
};

}  // namespace

TEST_SUITE("log/tensorboard") {
  TEST_CASE("CRC-32C gives the standard's check values") {
    CHECK(crc32c("123456789") == 0xe3069283U);
    CHECK(crc32c(std::string(32, '\0')) == 0x8a9136aaU);
    CHECK(crc32c(std::string(32, '\xff')) == 0x62a8ab43U);
    CHECK(crc32c("") == 0);
    CHECK(masked_crc32c("") == 0xa282ead8U);
  }

  TEST_CASE("protobuf fields are read as they were written, and a broken message is noticed") {
    namespace pb = protobuf;
    const auto message = pb::integer(2, -5) + pb::real64(1, 0.1) + pb::bytes(300, "abc") + pb::real32(4, 1.5F);
    pb::Reader reader(message);
    CHECK(static_cast<std::int64_t>(reader.next()->bits) == -5);
    CHECK(reader.next()->real() == 0.1);
    const auto text = reader.next();
    CHECK(text->number == 300);
    CHECK(text->inside == "abc");
    CHECK(reader.next()->real() == 1.5);
    CHECK_FALSE(reader.next().has_value());
    CHECK_FALSE(reader.failed());
    std::size_t whole = 0;  // a cut between two fields is a whole message
    for (std::size_t size = 1; size < message.size(); ++size) {
      pb::Reader cut(std::string_view(message).substr(0, size));
      while (cut.next()) continue;
      whole += cut.failed() ? 0 : 1;
    }
    CHECK(whole == 3);
    const std::string never_ending(20, '\xff');
    pb::Reader endless(never_ending);
    CHECK_FALSE(endless.next().has_value());
    CHECK(endless.failed());
  }

  TEST_CASE("scalars, texts and steps come back from the file") {
    const Folder folder;
    fs::path file;
    {
      TensorBoard board(folder.path());
      file = board.file();
      board.scalar("valid/acc", 7, 0.5);
      board.text("config", 0, "learning rate: 5e-5");
      board.step({.step = 8, .loss = 0.25, .loss_scale = 1024, .skipped = true, .lr_cnn = 1e-3});
    }
    const auto read = read_events(file);
    CHECK_FALSE(read.bad_record.has_value());
    REQUIRE(read.events.size() == 5);
    CHECK(read.events[0].file_version == "brain.Event:2");
    CHECK(read.events[0].wall_time > 1.6e9);
    CHECK(read.events[1].restart);
    CHECK(read.events[2].step == 7);
    CHECK(read.events[2].scalars == std::vector{std::pair<std::string, double>{"valid/acc", 0.5}});
    CHECK(read.events[3].texts == std::vector{std::pair<std::string, std::string>{"config", "learning rate: 5e-5"}});
    const auto curves = read_curves(folder.path());
    CHECK(curves.at("train/loss") == Curve{{8, 0.25}});
    CHECK(curves.at("train/lr_cnn") == Curve{{8, static_cast<double>(1e-3F)}});
    CHECK(curves.at("amp/skipped") == Curve{{8, 1.0}});
    CHECK(curves.at("amp/loss_scale") == Curve{{8, 1024.0}});
  }

  TEST_CASE("a histogram comes back with its intervals, counts and sums") {
    const Folder folder;
    fs::path file;
    Histogram h;
    h.add(-3, 2);
    h.add(-2, 0);
    h.add(-1, 5);
    {
      TensorBoard board(folder.path());
      file = board.file();
      FanOut out({&board});
      out.histogram("amp/grad_log2/cnn", 7, h);
      out.flush();
    }
    const auto read = read_events(file);
    CHECK_FALSE(read.bad_record.has_value());
    const auto& event = read.events.back();
    CHECK(event.step == 7);
    REQUIRE(event.histograms.size() == 1);
    CHECK(event.histograms[0].first == "amp/grad_log2/cnn");
    const Histogram& got = event.histograms[0].second;
    CHECK(got.limits == std::vector<double>{-3, -2, -1});
    CHECK(got.counts == std::vector<double>{2, 0, 5});
    CHECK(got.count == 7);
    CHECK(got.sum == 2 * -3.5 + 5 * -1.5);
    CHECK(got.squares == 2 * 3.5 * 3.5 + 5 * 1.5 * 1.5);
  }

  TEST_CASE("lines that come before the sinks are kept for them, in order") {
    Warnings warnings;
    FanOut out;
    out.warn("one");
    out.info("a line that is no warning");
    out.warn("two");
    CHECK(warnings.lines.empty());
    out.open({&warnings});
    out.warn("three");
    CHECK(warnings.lines == std::vector<std::string>{"one", "two", "three"});
  }

  TEST_CASE("B100 after a kill at step 55 and a resume from 30 each step shows once") {
    const Folder folder;
    const auto run = [&](std::int64_t first, std::int64_t last, double value) {
      TensorBoard board(folder.path(), first);
      for (auto step = first; step <= last; ++step) board.scalar("train/loss", step, value);
    };
    run(1, 55, 1.0);
    run(31, 60, 2.0);
    run(41, 70, 3.0);
    CHECK(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()) == 3);
    const auto curve = read_curves(folder.path()).at("train/loss");
    REQUIRE(curve.size() == 70);
    for (std::int64_t step = 1; step <= 70; ++step) {
      CHECK(curve[static_cast<std::size_t>(step - 1)].first == step);
      CHECK(curve[static_cast<std::size_t>(step - 1)].second == (step <= 30 ? 1.0 : step <= 40 ? 2.0 : 3.0));
    }
  }

  TEST_CASE("a file cut at any byte gives its whole records and says where it broke") {
    const Folder folder;
    fs::path file;
    {
      TensorBoard board(folder.path());
      file = board.file();
      for (int step = 0; step < 3; ++step) board.scalar("a", step, step);
    }
    const auto whole = content(file);
    const auto cut = folder.path() / "cut";
    std::size_t unbroken = 0;
    for (std::size_t size = 0; size < whole.size(); ++size) {
      std::ofstream(cut, std::ios::binary) << whole.substr(0, size);
      const auto read = read_events(cut);
      CHECK(read.events.size() < 5);
      if (!read.bad_record)
        ++unbroken;
      else
        CHECK(read.bad_record->starts_with(cut.string() + ": record " + std::to_string(read.events.size())));
    }
    CHECK(unbroken == 5);  // cuts between records
    for (std::size_t at = 0; at < whole.size(); ++at) {
      auto changed = whole;
      changed[at] = static_cast<char>(changed[at] ^ 0x10);
      std::ofstream(cut, std::ios::binary) << changed;
      CHECK(read_events(cut).bad_record.has_value());
    }
    CHECK_THROWS_AS(static_cast<void>(read_events(folder.path() / "none")), clipbert::content_error);
  }

  TEST_CASE("B103 a hundred NaN scalars give one line with tag and step, and their count at the end") {
    const Folder folder;
    Warnings warnings;
    TensorBoard board(folder.path());
    FanOut out({&board, &warnings});
    for (int step = 1; step <= 100; ++step) out.scalar("valid/loss", step, std::numeric_limits<double>::quiet_NaN());
    out.scalar("valid/acc", 3, std::numeric_limits<double>::infinity());
    out.step({.step = 5, .skipped = true, .grad_norm = std::numeric_limits<double>::infinity()});
    CHECK(warnings.lines ==
          std::vector<std::string>{"valid/loss is NaN at step 1; more of this tag are counted, not shown",
                                   "valid/acc is +Inf at step 3; more of this tag are counted, not shown"});
    out.summary();
    CHECK(warnings.lines.back() == "valid/loss was no finite number 100 times");
    out.flush();
    const auto curve = read_curves(folder.path()).at("valid/loss");
    CHECK(curve.size() == 100);
    CHECK(std::isnan(curve[0].second));
  }
}
