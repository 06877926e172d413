// Wrong use: the exit code, and one line that says what is wrong, where, and what to do.
#include <doctest/doctest.h>
#include <sys/stat.h>

#include <array>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "program.hpp"

using test_support::Folder;
using test_support::has;
using test_support::one_line;

namespace {

/// A config that is right but for what a test changes; its data does not exist unless a test writes it.
nlohmann::json small_config() {
  return nlohmann::json::parse(R"({
    "train_datasets": [{"name": "t", "txt": "train.jsonl", "img": "videos"}],
    "val_datasets": [{"name": "t", "txt": "train.jsonl", "img": "videos"}],
    "tokenizer_dir": "vocabulary", "max_img_size": 64, "num_frm": 1, "train_n_clips": 1, "max_train_steps": 1,
    "cnn": {"depths": [1, 1, 1, 1], "stem_width": 8, "bottleneck_width": 8, "out_width": 32, "norm": "bn", "freeze_at": 0},
    "model_config": {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32,
                     "vocab_size": 16, "max_position_embeddings": 32}
  })");
}

constexpr const char* vocabulary = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nred\nball\n";

constexpr const char* two_captions =
    "{\"caption\": \"a red ball\", \"clip_name\": \"v\"}\n{\"caption\": \"a ball\", \"clip_name\": \"v2\"}\n";

/// A folder where all that the config names exists, with captions as given.
void write_data(const Folder& folder, const std::string& captions) {
  folder.write("c.json", small_config().dump());
  folder.write("train.jsonl", captions);
  folder.write("vocabulary/vocab.txt", vocabulary);
  folder.write("videos/v.mp4", "this is no video");
  folder.write("videos/v2.mp4", "this is no video either");
}

}  // namespace

TEST_SUITE("cli/usage") {
  TEST_CASE("help lists every command, and every command has its own with defaults and units") {
    const Folder folder;
    const auto top = folder.run({"--help"});
    CHECK(top.code == 0);
    for (const std::string command : {"train", "eval", "search", "compare", "report", "demo-data", "info"}) {
      CAPTURE(command);
      CHECK(has(top.out, command));
      const auto help = folder.run({command, "--help"});
      CHECK(help.code == 0);
      CHECK(help.err.empty());
      CHECK(has(help.out, "--"));
    }
    CHECK(has(folder.run({"train", "--help"}).out, "--learning_rate"));
    CHECK(has(folder.run({"search", "--help"}).out, "--top_k"));
  }

  TEST_CASE("the version and the facts about the machine are printed, as JSON on request") {
    const Folder folder;
    const auto version = folder.run({"--version"});
    CHECK(version.code == 0);
    CHECK(has(version.out, "clipbert"));
    CHECK(has(version.out, "LibTorch"));
    const auto table = folder.run({"info"});
    CHECK(table.code == 0);
    CHECK(has(table.out, "cpu_features"));
    const auto json = nlohmann::json::parse(folder.run({"info", "--json"}).out);
    CHECK(json.at("threads").at("cores").get<int>() > 0);
    CHECK(json.at("decoders").is_array());
  }

  TEST_CASE("B60 info prints the devices, and why there is no other") {
    const Folder folder;
    const auto json = nlohmann::json::parse(folder.run({"info", "--json"}).out);
    CHECK(json.at("devices").at(0) == "cpu");
    if (json.at("devices").size() == 1) {
      CHECK(!json.at("why_no_cuda").get<std::string>().empty());
    } else {
      CHECK(!json.contains("why_no_cuda"));
    }
  }

  TEST_CASE("an unknown command or flag is answered with the nearest known one") {
    const Folder folder;
    const auto command = folder.run({"trian"});
    CHECK(command.code == 2);
    CHECK(one_line(command.err));
    CHECK(has(command.err, "did you mean train"));
    const auto flag = folder.run({"search", "--vidoes", "x"});
    CHECK(flag.code == 2);
    CHECK(one_line(flag.err));
    CHECK(has(flag.err, "--videos"));
    CHECK(folder.run({}).code == 2);
    CHECK(folder.run({"info", "word"}).code == 2);
  }

  TEST_CASE("B96 a misspelt key is refused with its path and the nearest name before any work") {
    const Folder folder;
    write_data(folder, R"({"caption": "a red ball", "clip_name": "v"})");
    auto config = small_config();
    config["lerning_rate"] = 1e-3;
    folder.write("top.json", config.dump());
    config = small_config();
    config["cnn"]["stem_widht"] = 8;
    folder.write("nested.json", config.dump());
    for (const auto& [file, wrong, right] : std::vector<std::array<std::string, 3>>{
             {"top.json", "lerning_rate", "learning_rate"}, {"nested.json", "cnn.stem_widht", "stem_width"}}) {
      CAPTURE(file);
      const auto outcome = folder.run({"train", "--config", file, "--output_dir", "out"});
      CHECK(outcome.code == 2);
      CHECK(one_line(outcome.err));
      CHECK(has(outcome.err, wrong));
      CHECK(has(outcome.err, right));
    }
    const auto flag = folder.run({"train", "--config", "c.json", "--output_dir", "out", "--lerning-rate", "1"});
    CHECK(flag.code == 2);
    CHECK(has(flag.err, "learning_rate"));
    CHECK_FALSE(std::filesystem::exists(folder / "out"));
  }

  TEST_CASE("B68 a path that does not exist is named with key, value and absolute path before any work") {
    const Folder folder;
    write_data(folder, R"({"caption": "a red ball", "clip_name": "v"})");
    auto config = small_config();
    config["train_datasets"][0]["img"] = "no_such_folder";
    folder.write("c.json", config.dump());
    const auto outcome = folder.run({"train", "--config", "c.json", "--output_dir", "out"});
    CHECK(outcome.code == 2);
    CHECK(one_line(outcome.err));
    CHECK(has(outcome.err, "train_datasets[0].img"));
    CHECK(has(outcome.err, "no_such_folder"));
    CHECK(has(outcome.err, (folder / "no_such_folder").string()));
    CHECK_FALSE(std::filesystem::exists(folder / "out"));
    const auto no_config = folder.run({"train", "--config", "none.json", "--output_dir", "out"});
    CHECK(no_config.code == 2);
    CHECK(has(no_config.err, "none.json"));
    const auto no_output = folder.run({"train", "--config", "c.json"});
    CHECK(no_output.code == 2);
    CHECK(has(no_output.err, "output_dir"));
  }

  TEST_CASE("captions that cannot be used are listed with all their lines") {
    const Folder folder;
    write_data(folder, "{\"caption\": \"a red ball\", \"clip_name\": \"v\"}\n{\"caption\": \"a\"}\n\nnonsense\n");
    const auto outcome = folder.run({"train", "--config", "c.json", "--output_dir", "out"});
    CHECK(outcome.code == 3);
    CHECK(one_line(outcome.err));
    CHECK(has(outcome.err, "train.jsonl"));
    CHECK(has(outcome.err, "2"));
    CHECK(has(outcome.err, "4"));
  }

  TEST_CASE("a vocabulary larger than the model's is refused with both sizes") {
    const Folder folder;
    write_data(folder, R"({"caption": "a red ball", "clip_name": "v"})");
    std::string words = vocabulary;
    for (int i = 0; i < 20; ++i) words += "word" + std::to_string(i) + "\n";
    folder.write("vocabulary/vocab.txt", words);
    const auto outcome = folder.run({"train", "--config", "c.json", "--output_dir", "out"});
    CHECK(outcome.code == 3);
    CHECK(one_line(outcome.err));
    CHECK(has(outcome.err, "vocab_size"));
    CHECK(has(outcome.err, "28"));
    CHECK(has(outcome.err, "16"));
  }

  TEST_CASE("a set whose videos cannot be read ends with code 3 and names them") {
    const Folder folder;
    write_data(
        folder,
        "{\"caption\": \"a red ball\", \"clip_name\": \"v\"}\n{\"caption\": \"a ball\", \"clip_name\": \"w\"}\n");
    folder.write("videos/w.mp4", "");
    const auto outcome = folder.run({"train", "--config", "c.json", "--output_dir", "out"});
    CHECK(outcome.code == 3);
    CHECK(has(outcome.err, "v.mp4"));
    CHECK(has(outcome.err, "w.mp4"));
  }

  TEST_CASE("eval and search of a run that is not there say what is missing") {
    const Folder folder;
    const auto eval =
        folder.run({"eval", "--output_dir", "nowhere", "--inference_txt_db", "a", "--inference_img_db", "b"});
    CHECK(eval.code == 2);
    CHECK(one_line(eval.err));
    CHECK(has(eval.err, "nowhere"));
    const auto search = folder.run({"search", "--output_dir", "nowhere", "--videos", ".", "a red ball"});
    CHECK(search.code == 2);
    CHECK(one_line(search.err));
    CHECK(has(search.err, "nowhere"));
  }

  TEST_CASE("numbers that are none, of the wrong kind, or out of all proportion are refused with key and reason") {
    const Folder folder;
    write_data(folder, two_captions);
    for (const auto& [flag, value] :
         std::vector<std::array<std::string, 2>>{{"seed", "nan"},
                                                 {"seed", "-1"},
                                                 {"seed", "1.5"},
                                                 {"learning_rate", "nan"},
                                                 {"learning_rate", "1e999"},
                                                 {"learning_rate", "-1e-3"},
                                                 {"betas", "0.9"},
                                                 {"max_img_size", "1000000000"},
                                                 {"max_img_size", "4294967360"},  // 64 in 32 bits
                                                 {"train_batch_size", "0"},
                                                 {"train_batch_size", "3000000000"},
                                                 {"max_train_steps", "99999999999999999999"},
                                                 {"num_threads", "-1"},
                                                 {"train_n_clips", "1000000000"},  // no machine holds so many frames
                                                 {"max_txt_len", "2000000000"},
                                                 {"best_metric", "text2video_r2"},
                                                 {"tokenizer_dir", ""},
                                                 {"output_dir", ""}}) {
      CAPTURE(flag + " " + value);
      const auto outcome = folder.run({"train", "--config", "c.json", "--output_dir", "out", "--" + flag, value});
      CHECK(outcome.code == 2);
      CHECK(one_line(outcome.err));
      CHECK((has(outcome.err, flag) || has(outcome.err, "clips")));
    }
    const auto epochs = folder.run({"train", "--config", "c.json", "--output_dir", "out", "--max_train_steps", "0",
                                    "--num_train_epochs", "1e300"});
    CHECK(epochs.code == 2);
    CHECK(has(epochs.err, "num_train_epochs"));
    const auto batch = folder.run({"train", "--config", "c.json", "--output_dir", "out", "--train_batch_size",
                                   "2000000000", "--gradient_accumulation_steps", "2000000000"});
    CHECK(batch.code == 2);
    CHECK(has(batch.err, "gradient_accumulation_steps"));
    CHECK_FALSE(std::filesystem::exists(folder / "out"));
    CHECK_FALSE(std::filesystem::exists(folder / "log"));
    for (const auto& [command, flag, value] :
         std::vector<std::array<std::string, 3>>{{"demo-data", "--videos", "-1"},
                                                 {"demo-data", "--videos", "4294967297"},
                                                 {"demo-data", "--seed", "-1"},
                                                 {"demo-data", "--threads", "0"},
                                                 {"demo-data", "--shapes", "7"}}) {
      CAPTURE(flag + " " + value);
      const auto outcome = folder.run({command, "--output_dir", "demo", flag, value});
      CHECK(outcome.code == 2);
      CHECK(one_line(outcome.err));
      CHECK(has(outcome.err, flag));
    }
    CHECK_FALSE(std::filesystem::exists(folder / "demo"));
  }

  TEST_CASE("a pipe where a file is wanted is refused, not waited for") {
    const Folder folder;
    write_data(folder, two_captions);
    std::filesystem::create_directories(folder / "pipes");
    for (const char* name : {"train.jsonl", "vocab.txt", "w.safetensors"})
      REQUIRE(mkfifo((folder / "pipes" / name).c_str(), 0600) == 0);
    for (const auto& [flag, value] : std::vector<std::array<std::string, 2>>{
             {"--train_datasets", R"([{"name": "t", "txt": "pipes/train.jsonl", "img": "videos"}])"},
             {"--tokenizer_dir", "pipes"},
             {"--resume", "pipes/w.safetensors"},
             {"--e2e_weights_path", "pipes/w.safetensors"}}) {
      CAPTURE(flag);
      const auto outcome =
          folder.run({"train", "--config", "c.json", "--output_dir", "out", "--max_bad_videos", "1", flag, value});
      CHECK(outcome.code == 3);
      CHECK(has(outcome.err, "pipes/"));
      CHECK(has(outcome.err, "regular file"));
    }
    const auto compare = folder.run({"compare", "--config", "pipes/vocab.txt", "--steps", "1"});
    CHECK(compare.code == 2);
    CHECK(one_line(compare.err));
    CHECK(has(compare.err, "regular file"));
  }

  TEST_CASE("more threads than cores are cut to the cores, and that is said") {
    const Folder folder;
    write_data(folder, two_captions);
    const auto outcome =
        folder.run({"train", "--config", "c.json", "--output_dir", "out", "--num_threads", "4000", "--dry_run", "1"});
    CHECK(outcome.code == 0);
    CHECK(has(outcome.out, "note: num_threads 4000"));
    CHECK_FALSE(std::filesystem::exists(folder / "out"));
  }

  TEST_CASE("demo data cannot be written where no folder can be made, and another set's folder is kept") {
    const Folder folder;
    folder.write("file", "no folder");
    const auto file = folder.run({"demo-data", "--output_dir", "file", "--videos", "2"});
    CHECK(file.code == 2);
    CHECK(one_line(file.err));
    REQUIRE(folder.run({"demo-data", "--output_dir", "d", "--videos", "1", "--gallery", "1", "--val", "1"}).code == 0);
    const auto other = folder.run({"demo-data", "--output_dir", "d", "--videos", "2", "--gallery", "1", "--val", "1"});
    CHECK(other.code == 2);
    CHECK(has(other.err, "other options"));
  }

  TEST_CASE("output that cannot be written is an error, not silence") {
    const Folder folder;
    const std::string program = std::filesystem::absolute(std::getenv("AMP_CLIPBERT")).string();
    CHECK(WEXITSTATUS(std::system(("'" + program + "' info > /dev/full 2> /dev/null").c_str())) == 1);
  }
}
