#include "io/torch_file.hpp"

#include <doctest/doctest.h>

#include <cstdlib>
#include <limits>
#include <random>

#include "app/io/support.hpp"
#include "config/errors.hpp"
#include "io/checkpoint_file.hpp"
#include "io/zip_archive.hpp"
#include "support/errors.hpp"

using namespace clipbert::io;
using namespace std::string_literals;
using test_support::has;
using test_support::tensor_of;
using test_support::tensors_of_every_type;
using Folder = test_support::TempFolder;

namespace {

std::string text(const std::string& value) {
  const auto size = static_cast<std::uint32_t>(value.size());
  std::string out = "X0000" + value;
  std::memcpy(out.data() + 1, &size, sizeof(size));
  return out;
}

std::string integer(std::int32_t value) {
  std::string out = "J0000";
  std::memcpy(out.data() + 1, &value, sizeof(value));
  return out;
}

std::string tuple(const std::vector<std::int32_t>& values) {
  std::string out = "(";
  for (const auto value : values) out += integer(value);
  return out + "t";
}

/// A tensor of the float storage `key` with `count` elements.
std::string stored(const std::string& key, std::int32_t count, std::int32_t offset,
                   const std::vector<std::int32_t>& shape, const std::vector<std::int32_t>& strides) {
  return "ctorch._utils\n_rebuild_tensor_v2\n((" + text("storage") + "ctorch\nFloatStorage\n" + text(key) +
         text("cuda:3") + integer(count) + "tQ" + integer(offset) + tuple(shape) + tuple(strides) +
         "\x89"
         "ccollections\nOrderedDict\n)RtR";
}

std::string dict_of(const std::string& entries) { return "\x80\x02}(" + entries + "u."; }

/// A PyTorch file with this pickle and one storage "0" of six floats 0, 1, 2, ...
void write_archive(const std::filesystem::path& file, const std::string& pickle) {
  const std::vector<float> values{0, 1, 2, 3, 4, 5};
  const std::vector<ZipEntry> entries{{"x/data.pkl", std::as_bytes(std::span(pickle))},
                                      {"x/data/0", std::as_bytes(std::span(values)), true}};
  write_zip(file, entries);
}

Tensors read_archive(const std::string& pickle) {
  const Folder folder;
  write_archive(folder.path() / "a.pt", pickle);
  return read_weights(folder.path() / "a.pt").tensors;
}

/// What reading this pickle says, after the file's name.
std::string refusal(const std::string& pickle) {
  const Folder folder;
  const auto file = folder.path() / "a.pt";
  write_archive(file, pickle);
  const auto message =
      test_support::message_of<clipbert::content_error>([&] { static_cast<void>(read_weights(file)); });
  if (message.empty()) return "accepted";
  CHECK(message.starts_with(file.string()));
  CHECK(message.find('\n') == std::string::npos);
  return message.substr(file.string().size());
}

std::vector<float> floats(const Tensor& t) {
  std::vector<float> out(t.bytes.size() / sizeof(float));
  std::memcpy(out.data(), t.bytes.data(), t.bytes.size());
  return out;
}

}  // namespace

TEST_SUITE("io/torch_file") {
  TEST_CASE("every element type, scalars and empty tensors survive a round trip, in the same bytes each time") {
    const Folder folder;
    const auto tensors = tensors_of_every_type("name \xc3\xa9");
    write_torch(folder.path() / "a.pt", views_of(tensors));
    CHECK(read_weights(folder.path() / "a.pt").tensors == tensors);
    write_torch(folder.path() / "b.pt", views_of(tensors));
    CHECK(test_support::content_of(folder.path() / "a.pt") == test_support::content_of(folder.path() / "b.pt"));
    CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 2);
  }

  TEST_CASE("storages begin at multiples of 64 bytes, as PyTorch's memory maps want them") {
    const Folder folder;
    std::vector<float> marks(40, 12345.678F);
    const Tensors tensors{{"a", tensor_of<float>(DType::f32, {40}, marks)},
                          {"bb", tensor_of<float>(DType::f32, {40}, marks)},
                          {"c", tensor_of<std::uint8_t>(DType::u8, {3}, {1, 2, 3})},
                          {"d", tensor_of<float>(DType::f32, {40}, marks)}};
    write_torch(folder.path() / "a.pt", views_of(tensors));
    const auto bytes = test_support::content_of(folder.path() / "a.pt");
    const std::string mark(reinterpret_cast<const char*>(marks.data()), marks.size() * sizeof(float));
    int found = 0;
    for (auto at = bytes.find(mark); at != bytes.npos; at = bytes.find(mark, at + mark.size()), ++found)
      CHECK(at % 64 == 0);
    CHECK(found == 3);
  }

  TEST_CASE("safetensors to PyTorch and back gives the same bytes of every tensor") {
    const Folder folder;
    const auto tensors = tensors_of_every_type("name \xc3\xa9");
    write_weights(folder.path() / "a.safetensors", views_of(tensors));
    write_weights(folder.path() / "b.pt", views_of(read_weights(folder.path() / "a.safetensors").tensors));
    write_weights(folder.path() / "c.safetensors", views_of(read_weights(folder.path() / "b.pt").tensors));
    CHECK(test_support::content_of(folder.path() / "a.safetensors") ==
          test_support::content_of(folder.path() / "c.safetensors"));
    CHECK_THROWS_AS(write_weights(folder.path() / "d.npz", views_of(tensors)), clipbert::usage_error);
  }

  TEST_CASE("strides, offsets and shared storages give the elements that PyTorch would") {
    const auto read = read_archive(
        dict_of(text("whole") + stored("0", 6, 0, {2, 3}, {3, 1}) + text("turned") + stored("0", 6, 0, {3, 2}, {1, 3}) +
                text("tail") + stored("0", 6, 4, {2}, {1}) + text("spread") + stored("0", 6, 1, {2, 2}, {0, 2}) +
                text("one") + stored("0", 6, 5, {}, {}) + text("none") + stored("0", 6, 6, {0, 9}, {7, 7})));
    CHECK(floats(read.at("whole")) == std::vector<float>{0, 1, 2, 3, 4, 5});
    CHECK(floats(read.at("turned")) == std::vector<float>{0, 3, 1, 4, 2, 5});
    CHECK(floats(read.at("tail")) == std::vector<float>{4, 5});
    CHECK(floats(read.at("spread")) == std::vector<float>{1, 3, 1, 3});
    CHECK(floats(read.at("one")) == std::vector<float>{5});
    CHECK(read.at("none").shape == std::vector<std::int64_t>{0, 9});
    CHECK(read.at("none").bytes.empty());
  }

  TEST_CASE("tensors that reach outside their storage are refused") {
    for (const auto& tensor :
         {stored("0", 6, 1, {2, 3}, {3, 1}), stored("0", 6, 0, {2, 3}, {4, 1}), stored("0", 6, 6, {}, {}),
          stored("0", 6, 0, {2, 2, 2}, {2147483647, 2147483647, 2147483647}), stored("0", 6, 2147483647, {1}, {1}),
          stored("0", 6, 7, {0}, {1})}) {
      CHECK(has(refusal(dict_of(text("w") + tensor)), "outside its storage"));
    }
    CHECK(has(refusal(dict_of(text("w") + stored("0", 6, -1, {1}, {1}))), "no size as a tensor's offset"));
    CHECK(has(refusal(dict_of(text("w") + stored("0", 6, 5, {2}, {-1}))), "no size as a tensor's strides"));
    CHECK(has(refusal(dict_of(text("w") + stored("0", 6, 0, {-2}, {1}))), "no size as a tensor's shape"));
    CHECK(has(refusal(dict_of(text("w") + stored("0", 6, 0, {2, 3}, {1}))), "2 axes and 1 strides"));
    const std::vector<std::int32_t> endless(4, 2147483647);
    CHECK(has(refusal(dict_of(text("w") + stored("0", 6, 0, endless, endless))), "more elements than memory"));
    CHECK(has(refusal(dict_of(text("w") + stored("0", 7, 0, {1}, {1}))), "24 bytes, its tensors say 28"));
    CHECK(has(refusal(dict_of(text("w") + stored("1", 6, 0, {1}, {1}))), "lacks the storage x/data/1"));
  }

  TEST_CASE("a small file cannot ask for much memory") {
    CHECK(has(refusal(dict_of(text("w") + stored("0", 6, 0, {100000, 100000}, {0, 0}))), "again and again"));
    std::string many;
    for (int i = 0; i < 100; ++i) many += text("w" + std::to_string(i)) + stored("0", 6, 0, {1000, 1000}, {0, 0});
    CHECK(has(refusal(dict_of(many)), "again and again"));
    CHECK(has(refusal(dict_of(text("w") + "\x8d\xff\xff\xff\xff\xff\xff\xff\x7f")), "is cut"));
    CHECK(has(refusal(dict_of(text("w") + "T\xff\xff\xff\xff")), "is cut"));
    // a dict of twenty levels, each holding the one below ten times
    std::string laughs = "\x80\x02" + stored("0", 6, 0, {1}, {1}) +
                         "q\x01"
                         "0";
    for (char level = 1; level < 21; ++level) {
      laughs += "}(";
      for (int i = 0; i < 10; ++i) laughs += text(std::to_string(i)) + "h" + level;
      laughs += "uq" + std::string(1, static_cast<char>(level + 1)) + "0";
    }
    CHECK(has(refusal(laughs + "h\x15."), "again and again"));
    std::string copies = "\x80\x02}(";
    for (int i = 0; i < 5000; ++i) copies += text(std::to_string(i)) + "N";
    copies += "uq\x01";
    for (int i = 0; i < 2000; ++i) copies += "ccollections\nOrderedDict\nh\x01\x85R";
    CHECK(has(refusal(copies + "."), "again and again"));
  }

  TEST_CASE("nothing in a file is called, imported or executed") {
    const Folder folder;
    const auto witness = (folder.path() / "witness").string();
    for (const std::string function :
         {"os\nsystem", "posix\nsystem", "builtins\neval", "builtins\nexec", "subprocess\nPopen", "builtins\ngetattr",
          "torch.storage\n_load_from_bytes", "torch\nload", "numpy\nload"}) {
      const auto message = refusal(dict_of(text("w") + "c" + function + "\n(" + text("touch " + witness) + "tR"));
      CHECK(has(message, function.substr(function.find('\n') + 1)));
      CHECK(has(message, "nothing was executed"));
    }
    CHECK_FALSE(std::filesystem::exists(witness));
    CHECK(has(refusal("\x80\x02(" + text("touch " + witness) + "ios\nsystem\n."), "opcode 'i'"));
    CHECK(has(refusal(dict_of(text("w") + "ca b\nc\n)R")), "no name"));
    CHECK(has(refusal("\x80\x02"
                      "c" +
                      std::string(2000, 'a')),
              "more than 512 letters"));
  }

  TEST_CASE("an instance of an unknown class is passed over and named, the weights beside it are read") {
    const Folder folder;
    const auto object = "cargparse\nNamespace\n)\x81}(" + text("lr") + "G\x3f\x50\x62\x4d\xd2\xf1\xa9\xfc" + "ub"s;
    write_archive(folder.path() / "a.pt", dict_of(text("args") + object + text("state_dict") + "}(" + text("w") +
                                                  stored("0", 6, 0, {6}, {1}) + "u"));
    const auto read = read_weights(folder.path() / "a.pt");
    CHECK(read.under == "state_dict");
    CHECK(read.tensors.size() == 1);
    CHECK(has(read.remarks(), "argparse.Namespace"));
    CHECK(has(refusal("\x80\x02"
                      "cargparse\nNamespace\n)\x81."),
              "holds no weights"));
  }

  TEST_CASE("lists that hold themselves, and nesting without end, are refused") {
    CHECK(has(refusal("\x80\x02]q\x01h\x01"
                      "a."),
              "holds itself"));
    CHECK(has(refusal("\x80\x02}q\x01" + text("a") + "h\x01s."), "holds itself"));
    CHECK(has(refusal("\x80\x02" + std::string(100000, ']') + std::string(99999, 'a') + "."), "200 levels"));
    CHECK(has(refusal("\x80\x02)" + std::string(100000, '\x85') + "."), "200 levels"));
  }

  TEST_CASE("pickles that are no pickles are refused at the byte where they go wrong") {
    CHECK(has(refusal(""), "is cut"));
    CHECK(has(refusal("\x80\x02"), "is cut"));
    CHECK(has(refusal("\x80\x02."), "empty stack"));
    CHECK(has(refusal("\x80\x02N(."), "empty stack"));
    CHECK(has(refusal("\x80\x02tN."), "did not begin"));
    CHECK(has(refusal("\x80\x02Nh\x09."), "item 9"));
    CHECK(has(refusal("\x80\x02NNa."), "appends to no list"));
    CHECK(has(refusal("\x80\x02}(Nu."), "key without a value"));
    CHECK(has(refusal("\x80\x02NNNs."), "sets a key of no dict"));
    CHECK(has(refusal("\x80\x02N)R."), "no function"));
    CHECK(has(refusal("\x80\x01N."), "protocol 1"));
    CHECK(has(refusal("\x80\x02\xff."), "opcode 255"));
    CHECK(has(refusal("\x80\x02"
                      "ctorch._utils\n_rebuild_tensor_v2\n)R."),
              "too few arguments"));
    CHECK(has(refusal("\x80\x02" + text("s") + "Q."), "no list as a storage's name"));
    CHECK(has(refusal(dict_of(text("a\nb") + stored("0", 6, 0, {1}, {1}))), "control characters"));
  }

  TEST_CASE("a file cut at any byte, and a directory that lies, are refused") {
    const Folder folder;
    const auto file = folder.path() / "whole.pt", bad = folder.path() / "bad.pt";
    const Tensors two{{"a", tensor_of<float>(DType::f32, {3}, {1, 2, 3})},
                      {"b", tensor_of<float>(DType::f32, {3}, {4, 5, 6})}};
    write_torch(file, views_of(two));
    const auto whole = test_support::content_of(file);
    const auto refused = [&](const std::string& bytes) {
      test_support::write_bytes(bad, bytes);
      return test_support::message_of<clipbert::content_error>([&] { static_cast<void>(read_weights(bad)); });
    };
    for (std::size_t size = 0; size < whole.size(); size += 7) CHECK_FALSE(refused(whole.substr(0, size)).empty());
    const auto patched = [&](std::string from, const std::string& to) {
      std::string bytes = whole;
      for (auto at = bytes.find(from); at != bytes.npos; at = bytes.find(from, at + 1))
        bytes.replace(at, from.size(), to);
      return bytes;
    };
    CHECK_FALSE(refused(patched("archive/data/1", "archive/data/0")).empty());  // the same name twice
    std::string deflated = whole;  // the method stands 8 bytes into a local header and 10 into a directory entry
    for (const auto& [mark, place] : {std::pair("PK\x03\x04"s, 8), std::pair("PK\x01\x02"s, 10)})
      for (auto at = deflated.find(mark); at != deflated.npos; at = deflated.find(mark, at + 1))
        deflated[at + static_cast<std::size_t>(place)] = 8;
    CHECK(has(refused(deflated), "compressed"));
    std::string flipped = whole;
    const float two_point = 2;
    flipped[flipped.find(std::string(reinterpret_cast<const char*>(&two_point), 4)) + 3] ^= 1;
    CHECK(has(refused(flipped), "damaged"));
    std::string again = whole;  // the second storage's entry points to the first's bytes
    const auto last = again.rfind("archive/data/1"), first = again.rfind("archive/data/0");
    again.replace(last - 4, 4, again.substr(first - 4, 4));
    CHECK_FALSE(refused(again).empty());
  }

  TEST_CASE("random damage to the pickle never harms the reader") {
    const Folder folder;
    const std::string sound =
        dict_of(text("state_dict") + "}(" + text("w") + stored("0", 6, 0, {2, 3}, {3, 1}) + text("v") +
                stored("0", 6, 1, {2, 2}, {1, 2}) + "u" + text("n") + "cargparse\nNamespace\n)\x81}b");
    REQUIRE(read_archive(sound).size() == 2);
    std::mt19937 random(7);
    const auto below = [&](std::size_t count) { return random() % count; };
    int read = 0;
    for (int i = 0; i < 2000; ++i) {
      std::string bytes = sound;
      for (std::size_t change = below(3); change < 3; ++change) {
        const auto at = below(bytes.size());
        if (const auto kind = below(4); kind == 0)
          bytes[at] = static_cast<char>(random());
        else if (kind == 1)
          bytes[at] = static_cast<char>(bytes[at] ^ (1 << below(8)));
        else if (kind == 2)
          bytes.erase(at, below(4));
        else
          bytes.insert(at, bytes.substr(below(bytes.size()), below(8)));
        if (bytes.empty()) bytes = ".";
      }
      test_support::write_bytes(folder.path() / "a.pkl", bytes);
      write_archive(folder.path() / "a.pt", bytes);
      for (const char* name : {"a.pkl", "a.pt"}) {
        try {
          static_cast<void>(read_weights(folder.path() / name));
          ++read;
        } catch (const clipbert::content_error& e) {
          CHECK(std::string(e.what()).find('\n') == std::string::npos);
        }
      }
    }
    CHECK(read > 0);
  }

  TEST_CASE("detectron2's pickles of numpy arrays are read in every protocol") {
    // pickle.dumps({"model": {"w": np.arange(6, dtype=np.float32).reshape(2, 3), "f": np.asfortranarray(np.arange(6,
    // dtype=np.float64).reshape(2, 3)), "i": np.array([-1, 300], np.int64)}, "__author__": "x", "it": np.int64(7)},
    // protocol) of Python 3.11 with numpy 2.4.6
    const std::string two =
        "\x80\x02}q\x00(X\x05\x00\x00\x00modelq\x01}q\x02(X\x01\x00\x00\x00wq\x03"
        "cnumpy._core.multiarray\n_reconstruct\nq\x04"
        "cnumpy\nndarray\nq\x05K\x00\x85q\x06"
        "c_codecs\nencode\nq\x07X\x01\x00\x00\x00"
        "bq\x08X\x06\x00\x00\x00latin1q\t\x86q\nRq\x0b\x87q\x0cRq\r(K\x01K\x02K\x03\x86q\x0e"
        "cnumpy\ndtype\nq\x0fX\x02\x00\x00\x00"
        "f4q\x10\x89\x88\x87q\x11Rq\x12(K\x03X\x01\x00\x00\x00<q\x13NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tq\x14"
        "b\x89h\x07X\x1b\x00\x00\x00\x00\x00\x00\x00\x00\x00\xc2\x80?\x00\x00\x00@\x00\x00@@\x00\x00\xc2\x80@"
        "\x00\x00\xc2\xa0@q\x15h\t\x86q\x16Rq\x17tq\x18"
        "bX\x01\x00\x00\x00"
        "fq\x19h\x04h\x05K\x00\x85q\x1ah\x0b\x87q\x1bRq\x1c(K\x01K\x02K\x03\x86q\x1dh\x0fX\x02\x00\x00\x00"
        "f8q\x1e\x89\x88\x87q\x1fRq (K\x03h\x13NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tq!b\x88h\x07X1\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x08@\x00\x00\x00\x00\x00\x00\xc3\xb0?\x00\x00\x00\x00\x00\x00\x10@\x00\x00\x00\x00\x00\x00\x00@\x00\x00\x00\x00\x00\x00\x14@q\"h\t\x86q#Rq$tq%bX\x01\x00\x00\x00iq&h\x04h\x05K\x00\x85q'h\x0b\x87q(Rq)(K\x01K\x02\x85q*h\x0fX\x02\x00\x00\x00i8q+\x89\x88\x87q,Rq-(K\x03h\x13NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00tq.b\x89h\x07X\x18\x00\x00\x00\xc3\xbf\xc3\xbf\xc3\xbf\xc3\xbf\xc3\xbf\xc3\xbf\xc3\xbf\xc3\xbf,\x01\x00\x00\x00\x00\x00\x00q/h\t\x86q0Rq1tq2buX\n\x00\x00\x00__author__q3X\x01\x00\x00\x00xq4X\x02\x00\x00\x00itq5cnumpy._core.multiarray\nscalar\nq6h-h\x07X\x08\x00\x00\x00\x07\x00\x00\x00\x00\x00\x00\x00q7h\t\x86q8Rq9\x86q:Rq;u."s;
    const std::string four =
        "\x80\x04\x95\xb5\x01\x00\x00\x00\x00\x00\x00}\x94(\x8c\x05model\x94}\x94(\x8c\x01w\x94\x8c\x16numpy._core."
        "multiarray\x94\x8c\x0c_reconstruct\x94\x93\x94\x8c\x05numpy\x94\x8c\x07ndarray\x94\x93\x94K\x00\x85\x94"
        "C\x01"
        "b\x94\x87\x94R\x94(K\x01K\x02K\x03\x86\x94h\x07\x8c\x05"
        "dtype\x94\x93\x94\x8c\x02"
        "f4\x94\x89\x88\x87\x94R\x94(K\x03\x8c\x01<\x94NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00t\x94"
        "b\x89"
        "C\x18\x00\x00\x00\x00\x00\x00\x80?\x00\x00\x00@\x00\x00@@\x00\x00\x80@\x00\x00\xa0@\x94t\x94"
        "b\x8c\x01"
        "f\x94h\x06h\tK\x00\x85\x94h\x0b\x87\x94R\x94(K\x01K\x02K\x03\x86\x94h\x10\x8c\x02"
        "f8\x94\x89\x88\x87\x94R\x94(K\x03h\x14NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00t\x94"
        "b\x88"
        "C0\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x08@\x00\x00\x00\x00\x00\x00\xf0?"
        "\x00\x00\x00\x00\x00\x00\x10@\x00\x00\x00\x00\x00\x00\x00@\x00\x00\x00\x00\x00\x00\x14@\x94t\x94"
        "b\x8c\x01i\x94h\x06h\tK\x00\x85\x94h\x0b\x87\x94R\x94("
        "K\x01K\x02\x85\x94h\x10\x8c\x02i8\x94\x89\x88\x87\x94R\x94("
        "K\x03h\x14NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00t\x94"
        "b\x89"
        "C\x10\xff\xff\xff\xff\xff\xff\xff\xff,\x01\x00\x00\x00\x00\x00\x00\x94t\x94"
        "bu\x8c\n__author__\x94\x8c\x01x\x94\x8c\x02it\x94h\x04\x8c\x06scalar\x94\x93\x94h*C\x08\x07\x00\x00\x00\x00\x00\x00\x00\x94\x86\x94R\x94u."s;
    const std::string five =
        "\x80\x05\x95\xaf\x01\x00\x00\x00\x00\x00\x00}\x94(\x8c\x05model\x94}\x94(\x8c\x01w\x94\x8c\x13numpy._core."
        "numeric\x94\x8c\x0b_frombuffer\x94\x93\x94(\x96\x18\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x80?"
        "\x00\x00\x00@\x00\x00@@\x00\x00\x80@\x00\x00\xa0@\x94\x8c\x05numpy\x94\x8c\x05"
        "dtype\x94\x93\x94\x8c\x02"
        "f4\x94\x89\x88\x87\x94R\x94(K\x03\x8c\x01<\x94NNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00t\x94"
        "bK\x02K\x03\x86\x94\x8c\x01"
        "C\x94t\x94R\x94\x8c\x01"
        "f\x94h\x06(\x96"
        "0\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x00\x08@"
        "\x00\x00\x00\x00\x00\x00\xf0?\x00\x00\x00\x00\x00\x00\x10@\x00\x00\x00\x00\x00\x00\x00@"
        "\x00\x00\x00\x00\x00\x00\x14@\x94h\n\x8c\x02"
        "f8\x94\x89\x88\x87\x94R\x94(K\x03h\x0eNNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00t\x94"
        "bK\x02K\x03\x86\x94\x8c\x01"
        "F\x94t\x94R\x94\x8c\x01i\x94h\x06(\x96\x10\x00\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff\xff\xff\xff\xff,"
        "\x01\x00\x00\x00\x00\x00\x00\x94h\n\x8c\x02i8\x94\x89\x88\x87\x94R\x94("
        "K\x03h\x0eNNNJ\xff\xff\xff\xffJ\xff\xff\xff\xffK\x00t\x94"
        "bK\x02\x85\x94h\x11t\x94R\x94u\x8c\n__author__\x94\x8c\x01x\x94\x8c\x02it\x94\x8c\x16numpy._core.multiarray\x94\x8c\x06scalar\x94\x93\x94h\"C\x08\x07\x00\x00\x00\x00\x00\x00\x00\x94\x86\x94R\x94u."s;
    const Folder folder;
    const auto file = folder.path() / "trunk.pkl";
    for (const auto& bytes : {two, four, five}) {
      CAPTURE(bytes.size());
      test_support::write_bytes(file, bytes);
      const auto read = read_weights(file);
      CHECK(read.under == "model");
      CHECK(read.tensors.at("w") == tensor_of<float>(DType::f32, {2, 3}, {0, 1, 2, 3, 4, 5}));
      CHECK(read.tensors.at("f") == tensor_of<double>(DType::f64, {2, 3}, {0, 1, 2, 3, 4, 5}));
      CHECK(read.tensors.at("i") == tensor_of<std::int64_t>(DType::i64, {2}, {-1, 300}));
      CHECK(read_checkpoint(file).find("it")->as_int() == 7);
    }
  }

  TEST_CASE("files that only look like weights are refused with what to do") {
    const Folder folder;
    const auto said = [&](const std::string& bytes) {
      test_support::write_bytes(folder.path() / "f", bytes);
      return test_support::message_of<clipbert::content_error>(
          [&] { static_cast<void>(read_weights(folder.path() / "f")); });
    };
    CHECK(has(said(""), "empty"));
    CHECK(has(said("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n"), "git lfs pull"));
    CHECK(has(said("\x89HDF\r\n\x1a\n01234567890"), "HDF5"));
    CHECK(has(said("hello, these are no weights"), "not a safetensors file"));
    CHECK(has(said("PK\x05\x06" + std::string(18, '\0')), "no data.pkl"));
    const std::string nothing = "x";
    const std::vector<ZipEntry> script{{"m/data.pkl", std::as_bytes(std::span(nothing))},
                                       {"m/constants.pkl", std::as_bytes(std::span(nothing))}};
    write_zip(folder.path() / "f", script);
    CHECK(has(test_support::message_of<clipbert::content_error>(
                  [&] { static_cast<void>(read_weights(folder.path() / "f")); }),
              "TorchScript"));
  }

  TEST_CASE("a checkpoint that cannot be written whole leaves the one before") {
    const Folder folder;
    const auto file = folder.path() / "a.pt";
    write_torch(file, views_of(tensors_of_every_type("name \xc3\xa9")));
    const auto before = test_support::content_of(file);
    Tensor wrong{DType::f32, {3}, std::vector<std::byte>(11)};
    CHECK_THROWS_AS(write_torch(file, views_of({{"w", wrong}})), clipbert::content_error);
    CHECK(test_support::content_of(file) == before);
    CHECK_THROWS_AS(write_torch(folder.path() / "no" / "a.pt", views_of(tensors_of_every_type("name \xc3\xa9"))),
                    clipbert::content_error);
  }
}
