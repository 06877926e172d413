#include "config/load.hpp"

#include <doctest/doctest.h>

#include <array>
#include <filesystem>
#include <fstream>

#include "config/errors.hpp"
#include "support/errors.hpp"
#include "support/temp_folder.hpp"

namespace fs = std::filesystem;
using namespace clipbert::config;
using test_support::has;
using Folder = test_support::TempFolder;

namespace {

using Words = std::vector<std::string>;

Config with(std::string_view text, const Words& flags = {}) { return parse(text, "f.json", {}, flags).config; }

std::string refusal(std::string_view text, const Words& flags = {}) {
  try {
    static_cast<void>(parse(text, "f.json", {}, flags));
  } catch (const clipbert::usage_error& e) {
    return e.what();
  }
  return "accepted";
}

}  // namespace

TEST_SUITE("config/load") {
  TEST_CASE("a flag wins over the file, the file over the default") {
    CHECK(with("{}").learning_rate == 5e-5);
    CHECK(with(R"({"learning_rate": 1e-3})").learning_rate == 1e-3);
    CHECK(with(R"({"learning_rate": 1e-3})", {"--learning_rate", "2"}).learning_rate == 2.0);
    const auto config = with(R"({"seed": 7})", {"--fps=2"});
    CHECK(config.given.at("seed") == Source::file);
    CHECK(config.given.at("fps") == Source::flag);
    CHECK_FALSE(is_given(config, "num_frm"));
  }

  TEST_CASE("flags take dashes, equals signs, several words, JSON, negative numbers, null and no value") {
    const auto config = with(R"({"seed": 7, "bert_weights_path": "x", "grad_norm": 5})",
                             {"--max-txt-len=30",
                              "--betas",
                              "0.8",
                              "0.99",
                              "--img_pixel_std",
                              "[60, 60, 60]",
                              "--grad-norm",
                              "-1",
                              "--seed",
                              "null",
                              "--bert_weights_path",
                              "null",
                              "--dry_run",
                              "--val_datasets",
                              R"([{"name": "v", "txt": "a.jsonl", "img": "b"}])",
                              "--cnn",
                              R"({"depths": [1, 1, 1, 1]})",
                              "--loss_scale",
                              "128",
                              "--keep_batchnorm_fp32",
                              "True",
                              "--opt-level",
                              "o2",
                              "--cnn_lr_mul_prefix",
                              "7",
                              "--model_config",
                              R"({"hidden_size": 24})"});
    CHECK(config.max_txt_len == 30);
    CHECK(config.betas == std::vector{0.8, 0.99});
    CHECK(config.img_pixel_std == std::vector{60.0, 60.0, 60.0});
    CHECK(config.grad_norm == -1.0);
    CHECK(config.seed == 42);
    CHECK_FALSE(config.bert_weights_path.has_value());
    CHECK(config.dry_run);
    REQUIRE(config.val_datasets.size() == 1);
    CHECK(config.val_datasets[0] == DatasetConfig{"v", "a.jsonl", "b"});
    CHECK(config.cnn.depths == std::vector<std::int64_t>{1, 1, 1, 1});
    CHECK(config.cnn.stem_width == 64);
    CHECK(config.loss_scale == LossScale{.dynamic = false, .value = 128.0});
    CHECK(config.keep_batchnorm_fp32 == true);
    CHECK(config.opt_level == "O2");
    CHECK(config.cnn_lr_mul_prefix == "7");
    CHECK(std::get<ModelConfig>(config.model_config).hidden_size == 24);
    CHECK(with("{}", {"--model_config", "m.json"}).model_config == ModelSource("m.json"));
  }

  TEST_CASE("B96 a misspelt key is refused with its path and the nearest key, at any depth and as a flag") {
    CHECK(refusal("{\n\"learning_rat\": 1}") ==
          "f.json: learning_rat (line 2) is not known; the nearest key is learning_rate");
    CHECK(has(refusal(R"({"model_config": {"hiden_size": 8}})"),
              "model_config.hiden_size (line 1) is not known; the nearest key is hidden_size"));
    CHECK(has(refusal(R"({"cnn": {"depth": [1]}})"), "cnn.depth (line 1) is not known; the nearest key is depths"));
    CHECK(has(refusal(R"({"train_datasets": [{"name": "a", "txt": "b", "image": "c"}]})"),
              "train_datasets[0].image (line 1) is not known; the nearest key is img"));
    CHECK(has(refusal(R"({"train_datasets": [{"name": "a", "txt": "b"}]})"),
              "train_datasets[0].img (line 1) is missing"));
    CHECK(has(refusal("{}", {"--lerning-rate", "1"}),
              "--lerning_rate is not a known flag; the nearest key is learning_rate"));
  }

  TEST_CASE("B96 a misplaced key is sent to where it belongs") {
    CHECK(has(refusal(R"({"hidden_size": 8})"), "it belongs into model_config"));
    CHECK(has(refusal(R"({"model_config": {"learning_rate": 8}})"), "it belongs to the top level"));
    CHECK(has(refusal(R"({"norm": "bn"})"), "it belongs into cnn"));
  }

  TEST_CASE("all faults of file and flags are in one report of one line") {
    const auto message = refusal("{\"seed\": null,\n\"betas\": 0.9, \"fp16\": \"yes\", \"fps\": \"2\"}",
                                 {"--num_frm", "2.5", "--what", "1", "--train_datasets", "[1,]", "--learning_rate"});
    CHECK(message.starts_with("f.json: 8 faults: "));
    CHECK(message.find('\n') == std::string::npos);
    for (const auto* part :
         {"seed (line 1) must be a whole number", "betas (line 2) must be a list of 2", "fp16 (line 2)",
          "fps (line 2) must be a whole number of at least 1, not \"2\"", "num_frm must be a whole number", "--what",
          "--train_datasets:1: a comma before ']'", "--learning_rate needs a value"})
      CHECK_MESSAGE(has(message, part), message);
  }

  TEST_CASE("a count that is larger than any run's is refused, a seed is not") {
    CHECK(has(refusal(R"({"train_batch_size": 2147483648})"), "train_batch_size (line 1) is too large: 2147483648"));
    CHECK(has(refusal(R"({"seed": 9223372036854775807})"), "seed (line 1) is too large"));
    CHECK(with(R"({"seed": 4611686018427387904})").seed == std::int64_t{1} << 62);
    CHECK(with(R"({"train_batch_size": 2147483647})").train_batch_size == 2147483647);
    CHECK(has(refusal(R"({"train_batch_size": 0})"), "train_batch_size (line 1) must be at least 1, not 0"));
  }

  TEST_CASE("ranges and choices are checked, each with what is allowed") {
    for (const auto* text : {R"({"warmup_ratio": 1.1})",
                             R"({"warmup_ratio": -0.1})",
                             R"({"betas": [0.9, 1]})",
                             R"({"data_ratio": 0})",
                             R"({"train_batch_size": 0})",
                             R"({"max_img_size": 32})",
                             R"({"grad_norm": 0})",
                             R"({"grad_norm": -2})",
                             R"({"optim": "sgd"})",
                             R"({"img_input_format": "RGB"})",
                             R"({"img_pixel_std": [1, 1, 0]})",
                             R"({"loss_scale": 0})",
                             R"({"loss_scale": "big"})",
                             R"({"device": "gpu"})",
                             R"({"device": "cuda:"})",
                             R"({"cnn": {"depths": [1, 2, 3]}})",
                             R"({"cnn": {"freeze_at": 6}})",
                             R"({"seed": 99999999999999999999})",
                             R"({"inference_model_step": "last"})",
                             R"({"betas": [0.9]})",
                             R"({"fp16": 2})",
                             R"({"keep_batchnorm_fp32": "true"})",
                             R"({"dropout": 1})",
                             R"({"cnn": []})",
                             R"({"model_config": 3})",
                             R"([])"})
      CHECK_MESSAGE(has(refusal(text), "must be"), text);
    CHECK(has(refusal(R"({"optim": "sgd"})"), "must be adamw, adam or adamax, not \"sgd\""));
    CHECK(
        with(
            R"({"grad_norm": -1, "device": "cuda:1", "fp16": true, "loss_scale": "128", "inference_model_step": "best"})")
            .device == "cuda:1");
  }

  TEST_CASE("B16 keys that contradict are refused by name, whatever the spelling of the value") {
    for (const auto* value : {"true", "false", "\"True\"", "\"False\""}) {
      const auto message = refusal(std::string(R"({"opt_level": "O1", "keep_batchnorm_fp32": )") + value + "}");
      CHECK(has(message, "keep_batchnorm_fp32"));
      CHECK(has(message, "opt_level O1"));
      for (const auto* level : {"O2", "O3"})
        CHECK(refusal(std::string(R"({"opt_level": ")") + level + R"(", "keep_batchnorm_fp32": )" + value + "}") ==
              "accepted");
    }
    const auto both = [](std::string_view text, std::string_view a, std::string_view b) {
      const auto message = refusal(text);
      CHECK_MESSAGE((has(message, a) && has(message, b)), message);
    };
    both(R"({"score_agg_func": "lse", "loss_type": "rank"})", "score_agg_func", "loss_type");
    both(R"({"itm_neg_size": 0, "loss_type": "rank", "score_agg_func": "max"})", "itm_neg_size", "loss_type");
    both(R"({"itm_hard_neg": 2})", "itm_hard_neg", "itm_neg_size");
    both(R"({"opt_level": "O2", "amp_dtype": "fp16", "fp8_recipe": "delayed"})", "fp8_recipe", "amp_dtype");
    both(R"({"fp8_recipe": "delayed"})", "fp8_recipe", "opt_level");
    both(R"({"opt_level": "O0", "master_weights": "kahan"})", "master_weights", "opt_level");
    both(R"({"opt_level": "O1", "master_weights": "none"})", "master_weights", "opt_level");
    both(R"({"fp16": 1, "amp_dtype": "fp16", "master_weights": "remainder"})", "master_weights", "amp_dtype");
    both(R"({"fp16": 1, "optimizer_state": "fp8", "master_weights": "none"})", "optimizer_state", "master_weights");
    both(R"({"scale_init": 1e9})", "scale_init", "max_loss_scale");
    both(R"({"min_loss_scale": 8, "max_loss_scale": 4})", "min_loss_scale", "max_loss_scale");
    both(R"({"decay": "multi_step"})", "decay", "step_decay_epochs");
    both(R"({"model_config": {"hidden_size": 10, "num_attention_heads": 4}})", "hidden_size", "num_attention_heads");
  }

  TEST_CASE("keys that the original reads and ignores give one warning where their value says something else") {
    CHECK(parse(R"({"classifier": "mlp", "cls_hidden_scale": 2, "cnn_optim": "adamw"})", "f").warnings.empty());
    const auto warnings =
        parse(R"({"classifier": "linear", "cnn_optim": "sgd", "cnn_sgd_momentum": 0.5})", "f").warnings;
    REQUIRE(warnings.size() == 1);
    CHECK(has(warnings[0], "classifier linear, cnn_optim sgd, cnn_sgd_momentum 0.5"));
    CHECK(warnings[0].starts_with("f: "));
    CHECK(parse(R"({"step_decay_epochs": [2]})", "f").warnings.size() == 1);
    CHECK(parse(R"({"decay": "invsqrt", "warmup_ratio": 0})", "f").warnings.size() == 1);
  }

  TEST_CASE("args.json reads back to equal settings") {
    const auto config =
        effective(with(R"({"fp16": 1, "cnn": {"norm": "bn"}, "model_config": {"hidden_size": 24}, "loss_scale": 8,
        "train_datasets": [{"name": "a", "txt": "b", "img": "c"}], "inference_model_step": "best", "learning_rate": 0.1})"))
            .config;
    const auto written = to_json(config);
    const auto again = from_json(parse_json(written.dump(), "args.json").root, "args.json").config;
    CHECK(to_json(again) == written);
    CHECK(to_json(with("{}")).size() == to_json(config).size());
    CHECK(parse(to_json(Config{}).dump(), "defaults").warnings.empty());
  }

  TEST_CASE("what a run of any level writes down is read again, its own contradictions not among it") {
    for (const auto* level : {"O0", "O1", "O2", "O3"}) {
      CAPTURE(level);
      const auto written = to_json(effective(with(std::string(R"({"opt_level": ")") + level + "\"}")).config);
      CHECK(to_json(from_json(parse_json(written.dump(), "args.json").root, "args.json").config) == written);
    }
  }

  TEST_CASE("help and listing have a line for every key, with default and source") {
    const auto help = help_text();
    const auto list = listing(with(R"({"seed": 3})", {"--fps", "2"}));
    const auto defaults = to_json(Config{});
    for (const auto& [key, value] : defaults.items()) {
      CHECK(has(help, "  --" + key + " "));
      CHECK((list.starts_with(key + " ") || has(list, "\n" + key + " ")));
    }
    CHECK(has(help, "peak rate of the transformer; a number of at least 0 [5e-05]"));
    CHECK(has(list, "3  (file)\n"));
    CHECK(has(list, "2  (flag)\n"));
  }
}

TEST_SUITE("config/effective") {
  TEST_CASE("precision defaults follow level and device") {
    const auto at = [](std::string_view text, bool cuda = false) { return effective(with(text), cuda).config; };
    auto c = at("{}");
    CHECK(c.opt_level == "O0");
    CHECK(c.device == "cpu");
    CHECK(c.loss_scale == LossScale{.dynamic = false, .value = 1.0});
    c = at(R"({"fp16": 1})");
    CHECK(c.opt_level == "O2");
    CHECK(c.amp_dtype == "bf16");
    CHECK(c.loss_scale == LossScale{.dynamic = false, .value = 1.0});
    CHECK(c.keep_batchnorm_fp32 == true);
    CHECK(c.master_weights == "fp32");
    c = at(R"({"fp16": 1})", true);
    CHECK(c.device == "cuda");
    CHECK(c.amp_dtype == "fp16");
    CHECK(c.loss_scale == LossScale{});
    c = at(R"({"opt_level": "o3", "amp_dtype": "fp16"})");
    CHECK(c.keep_batchnorm_fp32 == false);
    CHECK(c.master_weights == "none");
    CHECK(c.loss_scale == LossScale{});
    CHECK(at(R"({"fp16": 1, "fp8_recipe": "delayed"})", true).amp_dtype == "bf16");
  }

  TEST_CASE("threads come from the key, else the environment, else the cores") {
    ::unsetenv("CLIPBERT_NUM_THREADS");
    CHECK(effective(with("{}")).config.num_threads >= 1);
    ::setenv("CLIPBERT_NUM_THREADS", "3", 1);
    CHECK(effective(with("{}")).config.num_threads == 3);
    CHECK(effective(with(R"({"num_threads": 5})")).config.num_threads == 5);
    ::setenv("CLIPBERT_NUM_THREADS", "many", 1);
    CHECK_THROWS_AS(static_cast<void>(effective(with("{}"))), clipbert::usage_error);
    ::unsetenv("CLIPBERT_NUM_THREADS");
  }

  TEST_CASE("what was decided is said, and an absent device is refused") {
    const auto notes = effective(with(R"({"fp16": 1, "opt_level": "O0"})")).notes;
    REQUIRE(notes.size() == 1);
    CHECK(notes[0] == "opt_level O0 beats fp16 1");
    CHECK(has(effective(with(R"({"fp16": 1})")).notes.at(0), "amp_dtype bf16"));
    CHECK(has(effective(with(R"({"fp16": 1, "amp_dtype": "fp16", "loss_scale": 1})")).notes.at(0),
              "loss_scale 1 with fp16"));
    CHECK_THROWS_WITH_AS(static_cast<void>(effective(with(R"({"device": "cuda:3"})"))),
                         "device cuda:3: no CUDA device is present; take cpu", clipbert::usage_error);
    CHECK_THROWS_AS(static_cast<void>(effective(with(R"({"fp16": 1, "master_weights": "remainder"})"), true)),
                    clipbert::usage_error);
  }
}

TEST_SUITE("config/paths") {
  TEST_CASE("B68 every path that does not exist is named with its key and place") {
    auto config =
        with(R"({"tokenizer_dir": "nowhere", "train_datasets": [{"name": "a", "txt": "no.jsonl", "img": "no_folder"}],
                           "detectron2_model_cfg": "also/nowhere.yaml", "output_dir": "new"})");
    try {
      check_paths(config);
      FAIL("accepted");
    } catch (const clipbert::usage_error& e) {
      const std::string message = e.what();
      CHECK(message.starts_with("config: 3 faults: "));
      for (const auto& [key, value] : {std::pair{"tokenizer_dir", "nowhere"},
                                       {"train_datasets[0].txt", "no.jsonl"},
                                       {"train_datasets[0].img", "no_folder"}})
        CHECK_MESSAGE(
            has(message, std::string(key) + " does not exist: " + value + " (" + fs::absolute(value).string() + ")"),
            message);
    }
    const std::array<std::string, 1> only{"bert_weights_path"};
    CHECK_NOTHROW(check_paths(config, only));
  }

  TEST_CASE("paths resolve against the config's folder, then the current one, flags the other way round") {
    const Folder folder;
    folder.write("run.json", R"({"tokenizer_dir": "vocab", "model_config": "model.json",
                                 "val_datasets": [{"name": "v", "txt": "a.jsonl", "img": "clips"}]})");
    folder.write("vocab/vocab.txt", "x");
    folder.write("model.json", R"({"hidden_size": 24, "num_attention_heads": 2})");
    folder.write("a.jsonl", "");
    fs::create_directories(folder.path() / "clips");
    auto config = load(folder.path() / "run.json").config;
    check_paths(config);
    CHECK(config.tokenizer_dir == (folder.path() / "vocab").string());
    CHECK(config.val_datasets[0].img == (folder.path() / "clips").string());
    CHECK(model_config(config).hidden_size == 24);

    const std::vector<std::string> flags{"--inference_img_db", "tests"};
    config = load(folder.path() / "run.json", flags).config;
    if (fs::exists("tests")) {  // the folder where tests run
      check_paths(config);
      CHECK(config.inference_img_db == fs::absolute("tests").string());
    }
    folder.write("run.json", R"({"tokenizer_dir": "a.jsonl", "e2e_weights_path": "clips"})");
    config = load(folder.path() / "run.json").config;
    CHECK_THROWS_AS(check_paths(config), clipbert::usage_error);
  }

  TEST_CASE("the model's settings come from a file or the object, with labels by loss and dropout by flag") {
    CHECK(model_config(with("{}")).num_labels == 2);
    CHECK(model_config(with(R"({"loss_type": "rank"})")).num_labels == 1);
    CHECK_THROWS_AS(static_cast<void>(model_config(with(R"({"model_config": {"num_labels": 1}})"))),
                    clipbert::usage_error);
    std::vector<std::string> warnings;
    CHECK(model_config(with(R"({"dropout": 0.3})"), &warnings).hidden_dropout_prob == 0.1);
    CHECK(warnings.size() == 1);
    const auto model = model_config(with(R"({"dropout": 0.3})", {"--dropout", "0"}));
    CHECK(model.hidden_dropout_prob == 0.0);
    CHECK(model.attention_probs_dropout_prob == 0.0);
    const Folder folder;
    folder.write("m.json", "{\"hidden_size\": 24,\n\"num_atention_heads\": 2}");
    try {
      static_cast<void>(model_config(with(R"({"model_config": ")" + (folder.path() / "m.json").string() + "\"}")));
      FAIL("accepted");
    } catch (const clipbert::usage_error& e) {
      CHECK(has(e.what(), "num_atention_heads (line 2) is not known; the nearest key is num_attention_heads"));
    }
  }

  TEST_CASE("the configs of this project load without a warning and find their model") {
    const fs::path folder("reference_app/configs");
    REQUIRE(fs::exists(folder));
    std::size_t count = 0;
    for (const auto& entry : fs::directory_iterator(folder)) {
      if (entry.path().filename() == "base_model.json") continue;
      CAPTURE(entry.path());
      const auto loaded = load(entry.path());
      CHECK(loaded.warnings.empty());
      std::vector<std::string> warnings;
      CHECK(model_config(loaded.config, &warnings).num_labels == 2);
      CHECK(warnings.empty());
      ++count;
    }
    CHECK(count >= 4);
  }
}
