#include "data/video.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cmath>
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "app/data/support.hpp"
#include "config/errors.hpp"
#include "data/clips.hpp"
#include "data/video_writer.hpp"

namespace data = clipbert::data;
using clipbert::content_error;
using test_support::bytes_of;
using test_support::count_of;
using test_support::counted_frames;
using test_support::has;
using test_support::message_of;
using test_support::TempFolder;

namespace {

std::array<int, 3> pixel(const data::Frame& frame, int x, int y) {
  const auto at =
      (static_cast<std::size_t>(y) * static_cast<std::size_t>(frame.width) + static_cast<std::size_t>(x)) * 3;
  return {frame.rgb[at], frame.rgb[at + 1], frame.rgb[at + 2]};
}

int distance(const std::array<int, 3>& a, const std::array<int, 3>& b) {
  int worst = 0;
  for (std::size_t c = 0; c < 3; ++c) worst = std::max(worst, std::abs(a[c] - b[c]));
  return worst;
}

/// An animation of one colour a picture, by its number in the palette (red, green, blue, white), each shown for 0.2 s.
std::string gif(int width, int height, const std::vector<int>& colours) {
  const auto word = [](int value) {
    return std::string{static_cast<char>(value & 255), static_cast<char>(value >> 8)};
  };
  std::string file = "GIF89a" + word(width) + word(height) + std::string("\xF1\0\0", 3) +
                     std::string("\xC8\x28\x28\x28\xC8\x28\x28\x28\xC8\xFF\xFF\xFF", 12);
  for (const int colour : colours) {
    file += std::string("\x21\xF9\x04\0\x14\0\0\0", 8) + "," + word(0) + word(0) + word(width) + word(height) +
            std::string("\0\2", 2);
    std::string packed;  // codes of three bits; clearing the table before every two pixels keeps them so
    int bits = 0, held = 0;
    const auto code = [&](int value) {
      bits |= value << held;
      for (held += 3; held >= 8; held -= 8, bits >>= 8) packed += static_cast<char>(bits & 255);
    };
    for (int i = 0; i < width * height; ++i) {
      if (i % 2 == 0) code(4);
      code(colour);
    }
    code(5);
    packed += static_cast<char>(bits);
    for (std::size_t at = 0; at < packed.size(); at += 255) {
      const std::string block = packed.substr(at, 255);
      file += static_cast<char>(block.size()) + block;
    }
    file += '\0';
  }
  return file + ";";
}

std::string from_hex(const std::string& hex) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2)
    bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  return bytes;
}

/// What `action` writes to stderr.
template <typename Action>
std::string stderr_of(const TempFolder& folder, Action action) {
  const auto file = folder.path() / "stderr.txt";
  std::fflush(stderr);
  const int saved = ::dup(2), to = ::open(file.c_str(), O_CREAT | O_WRONLY | O_TRUNC, 0600);
  ::dup2(to, 2);
  action();
  std::fflush(stderr);
  ::dup2(saved, 2);
  ::close(saved);
  ::close(to);
  return bytes_of(file);
}

}  // namespace

TEST_SUITE("data/video") {
  TEST_CASE("a written video comes back: frames, times, sizes, colours") {
    const TempFolder folder;
    const auto file = folder.path() / "clip.mp4";
    const auto frames = counted_frames(20);
    data::write_h264(file, frames);
    const data::DecodedVideo video = data::decode_all(file);
    REQUIRE(video.frames.size() == 20);
    CHECK(video.info.codec == "h264");
    CHECK(video.info.average_fps == doctest::Approx(8));
    CHECK_FALSE(video.info.damaged());
    CHECK((video.info.width == 96 && video.info.height == 64));
    for (std::size_t i = 0; i < 20; ++i) {
      CHECK(count_of(video.frames[i]) == static_cast<int>(i));
      CHECK(video.frames[i].seconds == doctest::Approx(static_cast<double>(i) / 8));
    }
  }

  TEST_CASE("single frames equal those of the linear pass, kept or decoded again") {
    const TempFolder folder;
    const auto file = folder.path() / "clip.mp4";
    data::write_h264(file, counted_frames(20));
    const data::DecodedVideo all = data::decode_all(file);
    const std::vector<std::size_t> wanted = {19, 3, 3, 0, 11};
    for (const std::size_t keep : {std::size_t{0}, std::size_t{64} << 10, std::size_t{1} << 30}) {
      data::VideoOptions options;
      options.keep_bytes = keep;
      data::Video video(file, options);
      const auto some = video.frames(wanted);
      REQUIRE(some.size() == wanted.size());
      for (std::size_t i = 0; i < wanted.size(); ++i) {
        CHECK(some[i].rgb == all.frames[wanted[i]].rgb);
        CHECK(some[i].seconds == all.frames[wanted[i]].seconds);
      }
      CHECK(has(message_of<content_error>([&] { (void)video.frame(20); }), "frame 20"));
    }
  }

  TEST_CASE("of groups of pictures only the needed ones are decoded, and their frames keep their bytes") {
    const TempFolder folder;
    for (const char* container : {"mp4", "matroska"}) {
      for (const int key_interval : {1, 5, 100}) {
        for (const int b_frames : {0, 3}) {
          CAPTURE(container);
          CAPTURE(key_interval);
          CAPTURE(b_frames);
          const auto file = folder.path() / "clip";
          data::H264Options options;
          options.container = container, options.key_interval = key_interval, options.b_frames = b_frames;
          data::write_h264(file, counted_frames(23), options);
          const data::DecodedVideo all = data::decode_all(file);
          for (const std::size_t keep : {std::size_t{0}, std::size_t{1} << 20}) {
            data::Video video(file, {.keep_bytes = keep});
            CHECK(video.info().pts == all.info.pts);
            CHECK(video.info().average_fps == all.info.average_fps);
            for (std::size_t i = 23; i-- > 0;) CHECK(video.frame(i).rgb == all.frames[i].rgb);
            const auto some = video.frames(std::vector<std::size_t>{2, 22, 9, 2});
            CHECK((some[0].rgb == all.frames[2].rgb && some[1].rgb == all.frames[22].rgb));
            CHECK((some[2].rgb == all.frames[9].rgb && some[3].rgb == all.frames[2].rgb));
          }
        }
      }
    }
  }

  TEST_CASE("a stream that turns out to be damaged is scanned, and what is picked is picked again") {
    const TempFolder folder;
    data::H264Options options;
    options.key_interval = 100;
    data::write_h264(folder.path() / "whole.mp4", counted_frames(20), options);
    const std::string whole = bytes_of(folder.path() / "whole.mp4");
    std::size_t again = 0, compared = 0;
    for (std::size_t seed = 0; seed < 40; ++seed) {
      std::string hurt = whole;
      for (std::size_t i = 0; i < 4; ++i)
        hurt[whole.size() / 4 + (seed * 7919 + i * 104729) % (whole.size() / 2)] ^= 0x5A;
      const auto file = folder.write("hurt.mp4", hurt);
      std::size_t calls = 0;
      std::vector<data::Frame> picked;
      const auto choose = [&](const data::VideoInfo& info) {
        ++calls;
        return std::vector<std::size_t>{info.frames() - 1, info.frames() / 2};
      };
      const std::string message = message_of<content_error>([&] { picked = data::Video(file).pick(choose); });
      const std::string scanned = message_of<content_error>([&] {
        const data::DecodedVideo all = data::decode_all(file);
        if (picked.size() != 2) return;
        ++compared;
        CHECK(picked[0].rgb == all.frames.back().rgb);
        CHECK(picked[1].rgb == all.frames[all.frames.size() / 2].rgb);
      });
      CHECK(message == scanned);
      again += calls == 2 ? 1 : 0;
    }
    CHECK(compared > 10);
    CHECK(again > 0);
  }

  TEST_CASE("B76 every turn and mirror of the display matrix comes out upright") {
    const TempFolder folder;
    const auto plain = folder.path() / "plain.mp4";
    data::write_h264(plain, counted_frames(3));
    const data::Frame stored = data::first_frame(plain);
    for (const int rotation : {0, 90, 180, 270}) {
      for (const bool mirror : {false, true}) {
        CAPTURE(rotation);
        CAPTURE(mirror);
        const auto file = folder.path() / "turned.mp4";
        data::H264Options options;
        options.rotation = rotation, options.mirror = mirror;
        data::write_h264(file, counted_frames(3), options);
        const data::DecodedVideo video = data::decode_all(file);
        CHECK(video.info.rotation == rotation);
        CHECK(video.info.mirror == mirror);
        const data::Frame& shown = video.frames[0];
        const bool sideways = rotation % 180 != 0;
        REQUIRE(shown.width == (sideways ? stored.height : stored.width));
        int wrong = 0;
        for (int y = 0; y < stored.height; ++y) {
          for (int x = 0; x < stored.width; ++x) {  // mirrored first, then a quarter turn clockwise at a time
            int px = mirror ? stored.width - 1 - x : x, py = y, w = stored.width, h = stored.height;
            for (int quarter = 0; quarter < rotation / 90; ++quarter) {
              const int turned = h - 1 - py;
              py = px, px = turned;
              std::swap(w, h);
            }
            wrong += pixel(shown, px, py) != pixel(stored, x, y) ? 1 : 0;
          }
        }
        CHECK(wrong == 0);
      }
    }
  }

  TEST_CASE("B77 a stream without a frame count or duration is counted by decoding") {
    const TempFolder folder;
    for (const char* container : {"mpegts", "matroska", "avi"}) {
      CAPTURE(container);
      const auto file = folder.path() / "clip";
      data::H264Options options;
      options.container = container;
      data::write_h264(file, counted_frames(20), options);
      const data::VideoInfo info = data::probe(file);
      CHECK(info.frames() == 20);
      CHECK(info.average_fps > 0);
      CHECK(info.seconds(0) == 0.0);
      CHECK(info.seconds(19) == doctest::Approx(19.0 / 8).epsilon(0.001));
    }
  }

  TEST_CASE("B80 what is no video gives one line with path and reason") {
    const TempFolder folder;
    const auto refused = [&](const std::filesystem::path& file, const char* reason) {
      for (const std::string& message : {message_of<content_error>([&] { (void)data::probe(file); }),
                                         message_of<content_error>([&] { (void)data::decode_all(file); }),
                                         message_of<content_error>([&] { (void)data::first_frame(file); })}) {
        CAPTURE(message);
        CHECK(has(message, file.string()));
        CHECK(has(message, reason));
        CHECK_FALSE(has(message, "\n"));
      }
    };
    refused(folder.write("empty.mp4", ""), "empty");
    refused(folder.write("page.mp4", "<!DOCTYPE html><html><body><p>not found</p></body></html>"), "not a video");
    refused(folder.write("noise.mp4", std::string(5000, 'x')), "not a video");
    refused(folder.path() / "missing.mp4", "no such file");
    refused(folder.path(), "not a regular file");
    const std::string wav(
        "RIFF\x34\x00\x00\x00WAVEfmt \x10\x00\x00\x00\x01\x00\x01\x00\x40\x1f\x00\x00\x80\x3e\x00\x00\x02\x00\x10\x00"
        "data\x10\x00\x00\x00",
        44);
    refused(folder.write("sound.mp4", wav + std::string(16, '\0')), "no video stream");
  }

  TEST_CASE("a playlist under a video's name opens no other file") {
    const TempFolder folder;
    data::write_h264(folder.path() / "clip.mp4", counted_frames(4));
    const std::string clip = (folder.path() / "clip.mp4").string();
    for (const std::string& text :
         {"ffconcat version 1.0\nfile '" + clip + "'\n", "#EXTM3U\n#EXTINF:2,\n" + clip + "\n"}) {
      const auto file = folder.write("list.mp4", text);
      CHECK(has(message_of<content_error>([&] { (void)data::probe(file); }), file.string()));
    }
  }

  TEST_CASE("a name that reads like a pattern or a protocol is only a name") {
    const TempFolder folder;
    for (const char* name : {"100% %03d *.mp4", "http:clip.mp4", "Vidéo 測試.mp4"}) {
      const auto file = folder.path() / name;
      data::write_h264(file, counted_frames(4));
      CHECK(data::probe(file).frames() == 4);
    }
  }

  TEST_CASE("B82 reordered frames come out in order of presentation, to the last one") {
    const TempFolder folder;
    const auto file = folder.path() / "reordered.mp4";
    data::H264Options options;
    options.b_frames = 3;
    data::write_h264(file, counted_frames(23), options);
    const data::DecodedVideo video = data::decode_all(file);
    REQUIRE(video.frames.size() == 23);
    for (int i = 0; i < 23; ++i) {
      CHECK(count_of(video.frames[static_cast<std::size_t>(i)]) == i);
      CHECK(video.info.seconds(static_cast<std::size_t>(i)) == doctest::Approx(i / 8.0));
    }
  }

  TEST_CASE("a size that changes in the stream is noted, and every frame comes out at the first one") {
    const TempFolder folder;
    data::H264Options options;
    options.container = "mpegts";
    data::write_h264(folder.path() / "a.ts", counted_frames(6, 96, 64), options);
    data::write_h264(folder.path() / "b.ts", counted_frames(6, 64, 48), options);
    const auto file = folder.write("both.ts", bytes_of(folder.path() / "a.ts") + bytes_of(folder.path() / "b.ts"));
    const data::DecodedVideo video = data::decode_all(file);
    CHECK(video.info.sizes_seen == std::vector<std::array<int, 2>>{{96, 64}, {64, 48}});
    CHECK(video.frames.size() == 12);
    for (const data::Frame& frame : video.frames) CHECK((frame.width == 96 && frame.height == 64));
    CHECK(distance(pixel(video.frames.back(), 48, 48), {40, 200, 40}) <= 12);
  }

  TEST_CASE("a small file that claims a huge picture is refused, not allocated") {
    const TempFolder folder;
    const auto file = folder.write("huge.ppm", "P6\n60000 60000\n255\n" + std::string(1000, 'x'));
    CHECK(has(message_of<content_error>([&] { (void)data::probe(file); }), file.string()));
  }

  TEST_CASE("B84 colour matrix and range are honoured, and nothing is written to stderr") {
    const TempFolder folder;
    for (const bool full_range : {false, true}) {
      for (const bool bt709 : {false, true}) {
        CAPTURE(full_range);
        CAPTURE(bt709);
        const auto file = folder.path() / "colour.mp4";
        data::H264Options options;
        options.full_range = full_range, options.bt709 = bt709, options.crf = 8;
        data::write_h264(file, counted_frames(3), options);
        data::Frame frame;
        CHECK(stderr_of(folder, [&] { frame = data::first_frame(file); }) == "");
        CHECK(distance(pixel(frame, 16, 48), {200, 40, 40}) <= 8);
        CHECK(distance(pixel(frame, 48, 48), {40, 200, 40}) <= 8);
        CHECK(distance(pixel(frame, 80, 48), {40, 40, 200}) <= 8);
        CHECK(distance(pixel(frame, 48, 10), {20, 20, 20}) <= 8);
      }
    }
  }

  TEST_CASE("B86 eight threads on one file and on eight files decode the same bytes as one") {
    const TempFolder folder;
    std::vector<std::filesystem::path> files;
    std::vector<std::vector<data::Frame>> alone;
    for (int i = 0; i < 8; ++i) {
      files.push_back(folder.path() / (std::to_string(i) + ".mp4"));
      data::write_h264(files.back(), counted_frames(6 + i));
      alone.push_back(data::decode_all(files.back()).frames);
    }
    for (const int way : {0, 1, 2, 3}) {
      const bool one_file = way % 2 == 0, linear = way < 2;
      std::vector<std::vector<data::Frame>> together(8);
      {
        std::vector<std::jthread> threads;
        for (std::size_t i = 0; i < 8; ++i) {
          threads.emplace_back([&, i] {
            const auto& file = files[one_file ? 0 : i];
            if (linear) {
              together[i] = data::decode_all(file).frames;
              return;
            }
            data::Video video(file);
            for (std::size_t f = 0; f < video.info().frames(); ++f) together[i].push_back(video.frame(f));
          });
        }
      }
      for (std::size_t i = 0; i < 8; ++i) {
        const auto& expected = alone[one_file ? 0 : i];
        REQUIRE(together[i].size() == expected.size());
        bool equal = true;
        for (std::size_t f = 0; f < expected.size(); ++f) equal = equal && together[i][f].rgb == expected[f].rgb;
        CHECK(equal);
      }
    }
  }

  TEST_CASE("a file cut anywhere gives its frames or one line, and always the same") {
    const TempFolder folder;
    data::H264Options options;
    options.container = "mpegts";
    data::write_h264(folder.path() / "whole.ts", counted_frames(20), options);
    const std::string whole = bytes_of(folder.path() / "whole.ts");
    for (std::size_t part = 1; part < 8; ++part) {
      const auto file = folder.write("cut.ts", whole.substr(0, whole.size() * part / 8));
      std::string first, second;
      std::size_t frames = 0, again = 0;
      first = message_of<content_error>([&] { frames = data::decode_all(file).frames.size(); });
      second = message_of<content_error>([&] { again = data::decode_all(file).frames.size(); });
      CHECK(first == second);
      CHECK(frames == again);
      CHECK((frames > 0) == first.empty());
    }
  }

  TEST_CASE("overwritten bytes never break the reader, and it says when data is damaged") {
    const TempFolder folder;
    data::write_h264(folder.path() / "whole.mp4", counted_frames(20));
    const std::string whole = bytes_of(folder.path() / "whole.mp4");
    std::size_t damaged = 0;
    for (std::size_t seed = 0; seed < 60; ++seed) {
      std::string hurt = whole;
      for (std::size_t i = 0; i < 12; ++i)
        hurt[(seed * 7919 + i * 104729 * (seed + 1)) % hurt.size()] = static_cast<char>(seed * 31 + i);
      const auto file = folder.write("hurt.mp4", hurt);
      std::size_t frames = 0;
      const std::string message = message_of<content_error>([&] {
        const data::DecodedVideo video = data::decode_all(file);
        frames = video.frames.size();
        damaged += video.info.damaged() ? 1 : 0;
        CHECK(video.info.damaged() == !video.info.first_error.empty());
      });
      CHECK((frames > 0) == message.empty());
    }
    CHECK(damaged > 0);
  }

  TEST_CASE("damage that a decoder conceals, or that only shows as an early end, is told as well") {
    const TempFolder folder;
    data::write_h264(folder.path() / "whole.mp4", counted_frames(20));
    CHECK(data::probe(folder.path() / "whole.mp4").complaint.empty());
    std::string hurt = bytes_of(folder.path() / "whole.mp4");
    hurt[hurt.size() / 3] = static_cast<char>(hurt[hurt.size() / 3] ^ 0x55);  // inside the coded pictures
    const auto concealed = data::probe(folder.write("hurt.mp4", hurt));
    CHECK(concealed.frames() > 0);
    CHECK(!concealed.complaint.empty());
    data::H264Options matroska;
    matroska.container = "matroska";
    data::write_h264(folder.path() / "whole.mkv", counted_frames(20), matroska);
    const std::string whole = bytes_of(folder.path() / "whole.mkv");
    CHECK(data::probe(folder.path() / "whole.mkv").complaint.empty());
    const auto cut = data::probe(folder.write("cut.mkv", whole.substr(0, whole.size() * 9 / 10)));
    CHECK(cut.decode_errors == 0);  // libav returns none
    CHECK(!cut.complaint.empty());
  }

  TEST_CASE("a still picture is a video of one frame, whatever its name says") {
    const TempFolder folder;
    const std::string ppm =
        "P6\n3 2\n255\n" + std::string("\xC8\x28\x28\x28\xC8\x28\x28\x28\xC8\x80\x80\x80\xEB\xEB\xEB\x10\x10\x10", 18);
    const std::string png = from_hex(
        "89504e470d0a1a0a0000000d49484452000000060000000408020000002266d9140000001949444154789c633ca1a1c10006090b203403"
        "0b"
        "0306204e0800955002265b96a3590000000049454e44ae426082");
    const std::string jpeg = from_hex(
        "ffd8fffe00104c61766336322e32382e31303200ffdb004300080202020202020202020202030303030303030303030303030303"
        "0304040403030303030303040404040404040404040404040505050606050507070708080affc4004c0001010000000000000000"
        "00000000000000060101010000000000000000000000000000050710010000000000000000000000000000000011010000000000"
        "0000000000000000000000ffc00011080010001003012200021100031100ffda000c03010002110311003f0097001a9effd9");
    const struct {
      std::string bytes;
      int width, height;
      std::array<int, 3> corner;
    } pictures[] = {{ppm, 3, 2, {200, 40, 40}}, {png, 6, 4, {200, 40, 40}}, {jpeg, 16, 16, {200, 40, 40}}};
    for (const auto& one : pictures) {
      const auto file = folder.write("picture.mp4", one.bytes);
      data::Video picture(file);
      CAPTURE(picture.info().codec);
      CHECK(picture.info().frames() == 1);
      CHECK((picture.info().width == one.width && picture.info().height == one.height));
      CHECK(distance(pixel(picture.frame(0), 0, 0), one.corner) <= 3);
      CHECK(data::decode_all(file).frames.size() == 1);
      data::Random random{1};
      data::ClipOptions clips;
      clips.n_clips = 4, clips.num_frm = 2;
      CHECK(data::pick_clips(picture.info(), clips, random) == std::vector<std::size_t>(8, 0));
    }
  }

  TEST_CASE("an animated GIF is a video") {
    const TempFolder folder;
    const auto file = folder.write("animation.gif", gif(6, 4, {0, 1, 2, 3, 2}));
    const data::DecodedVideo video = data::decode_all(file);
    REQUIRE(video.frames.size() == 5);
    const std::array<int, 3> colours[] = {{200, 40, 40}, {40, 200, 40}, {40, 40, 200}, {255, 255, 255}};
    for (std::size_t i = 0; i < 5; ++i) {
      CHECK(pixel(video.frames[i], 5, 3) == colours[i == 4 ? 2 : i]);
      CHECK(video.frames[i].seconds == doctest::Approx(0.2 * static_cast<double>(i)));
    }
    CHECK(data::Video(file).frame(3).rgb == video.frames[3].rgb);
    const auto cut = folder.write("cut.gif", bytes_of(file).substr(0, bytes_of(file).size() / 2));
    CHECK(data::decode_all(cut).frames.size() >= 1);
  }

  TEST_CASE("a picture, a stream or a name that asks for too much is refused in one line") {
    const TempFolder folder;
    const auto refused = [&](const data::VideoSource& source, const char* reason,
                             const data::VideoOptions& options = {}) {
      for (const std::string& message : {message_of<content_error>([&] { (void)data::decode_all(source, options); }),
                                         message_of<content_error>([&] { (void)data::Video(source, options); })}) {
        CAPTURE(message);
        CHECK(has(message, source.name()));
        CHECK(has(message, reason));
        CHECK_FALSE(has(message, "\n"));
      }
    };
    std::string wide = gif(6, 4, {0, 1});
    wide.replace(6, 4, "\xFF\xFF\xFF\xFF");
    refused(folder.write("wide.gif", wide), "");
    std::string png = from_hex("89504e470d0a1a0a0000000d494844520000ea600000ea600802000000");
    refused(folder.write("wide.png", png + std::string(200, '\0')), "");
    REQUIRE(::mkfifo((folder.path() / "pipe.mp4").c_str(), 0600) == 0);
    refused(folder.path() / "pipe.mp4", "not a regular file");
    refused("/dev/zero", "not a regular file");
    data::write_h264(folder.path() / "clip.mp4", counted_frames(20));
    data::VideoOptions hurried;
    hurried.seconds = hurried.seconds_per_megabyte = 0;
    refused(folder.path() / "clip.mp4", "processor time", hurried);
    std::string endless = gif(2, 2, {0});
    endless.pop_back();
    const std::string picture = endless.substr(25);
    for (int i = 0; i < 20000; ++i) endless += picture;  // no end mark
    const data::VideoInfo info = data::probe(folder.write("endless.gif", endless));
    CHECK(info.frames() == 20001);
    CHECK(data::Video(folder.path() / "endless.gif", {.keep_bytes = 1000}).frame(15000).rgb.size() == 12);
  }

  TEST_CASE("a stop flag ends a decode at once") {
    const TempFolder folder;
    data::write_h264(folder.path() / "clip.mp4", counted_frames(20));
    const std::atomic<bool> stop{true};
    data::VideoOptions options;
    options.stop = &stop;
    CHECK(has(message_of<content_error>([&] { (void)data::probe(folder.path() / "clip.mp4", options); }), "clip.mp4"));
  }
}
