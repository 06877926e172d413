// What goes wrong outside of the program: memory, devices, weights of another run, disks; the exit code and one line.
#include <doctest/doctest.h>

#include <cstdlib>
#include <sstream>

#include "support/shared_data.hpp"
#include "tiny.hpp"

namespace fs = std::filesystem;
using test_support::Folder;
using test_support::has;
using test_support::last_line;
using test_support::metrics_of;
using test_support::one_line;
using test_support::read_text;
using test_support::tiny_folder;
using test_support::tiny_run;
using test_support::train_words;

namespace {

/// Exit code of a shell line in `folder`, where $CLIPBERT is the program.
int shell(const Folder& folder, const std::string& line) {
  const std::string program = fs::absolute(std::getenv("AMP_CLIPBERT")).string();
  const int status =
      std::system(("cd '" + folder.path().string() + "' && CLIPBERT='" + program + "' && " + line).c_str());
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

TEST_SUITE("cli/errors") {
  TEST_CASE("a device that is not there is refused with what there is") {
    const Folder& folder = tiny_folder();
    const auto outcome = folder.run(train_words("device", 1, {"--device", "cuda:7"}));
    CHECK(outcome.code == 2);
    CHECK(one_line(outcome.err));
    CHECK(has(outcome.err, "cuda:7"));
    CHECK(has(outcome.err, "cpu"));
    CHECK_FALSE(fs::exists(folder / "device"));
  }

  TEST_CASE("too little memory ends with code 1 and one line that says what needs less, and what was saved stays") {
    const Folder& folder = tiny_run();
    const auto state = read_text(folder / "run" / "restore" / "state_a.safetensors");
    // address space for the program and its libraries, but not for the frames of the batch
    const int code = shell(folder,
                           "ulimit -v 6000000 && exec \"$CLIPBERT\" train --config c.json --output_dir run "
                           "--max_train_steps 8 --train_batch_size 8 --max_img_size 4096 --num_frm 2 --resume auto "
                           "2> memory.err");
    const auto last = last_line(read_text(folder / "memory.err"));
    CHECK_MESSAGE(code == 1, last);
    CHECK_MESSAGE(has(last, "out of memory"), last);
    CHECK(has(last, "max_img_size"));
    CHECK(read_text(folder / "run" / "restore" / "state_a.safetensors") == state);
    CHECK(folder.run(train_words("run", 4)).code == 0);
  }

  TEST_CASE("a run whose losses are no numbers from the start ends with code 4, the first bad tensor, and no weights") {
    const Folder& folder = tiny_folder();
    const auto outcome = folder.run(
        train_words("wild", 40,
                    {"--learning_rate", "1e38", "--cnn_learning_rate", "1e38", "--decay", "constant", "--cnn_lr_decay",
                     "constant", "--max_consecutive_skips", "3", "--num_valid", "1", "--save_steps_ratio", "1"}));
    CHECK(outcome.code == 4);
    const auto last = last_line(outcome.err);
    CHECK(has(last, "diverged"));
    CHECK((has(last, "transformer.") || has(last, "cnn.")));
    CHECK_FALSE(fs::exists(folder / "wild" / "ckpt"));
    CHECK_FALSE(fs::exists(folder / "wild" / "restore"));
  }

  TEST_CASE("a run that ends on weights that are not finite, without a skipped step, ends with code 4 and says so") {
    const Folder& folder = tiny_folder();
    // one step of a size that no weight survives; it is the last one, so that no gradient tells of it
    const auto outcome = folder.run(
        train_words("burst", 1,
                    {"--learning_rate", "3e38", "--cnn_learning_rate", "3e38", "--decay", "constant", "--cnn_lr_decay",
                     "constant", "--weight_decay", "3e38", "--val_datasets", "[]", "--opt_level", "O2"}));
    CHECK(outcome.code == 4);
    CHECK(has(outcome.err, "is not saved"));
    CHECK(has(last_line(outcome.err), "not finite"));
    CHECK_FALSE(fs::exists(folder / "burst" / "restore"));
  }

  TEST_CASE("validation at O1 casts as eval does: both give the same figures") {
    const Folder& folder = tiny_folder();
    REQUIRE(folder.run(train_words("o1", 2, {"--opt_level", "O1", "--num_valid", "1"})).code == 0);
    const auto outcome = folder.run({"eval", "--output_dir", "o1", "--inference_txt_db", "data/val.jsonl",
                                     "--inference_img_db", "data/videos", "--inference_n_clips", "2", "--json"});
    REQUIRE_MESSAGE(outcome.code == 0, outcome.err);
    const auto result = nlohmann::json::parse(outcome.out);
    std::istringstream log(read_text(folder / "o1" / "log" / "log.txt"));
    std::string said;
    for (std::string line; std::getline(log, line);) {
      if (const auto at = line.find("valid/text2video_meanR "); at != std::string::npos) said = line.substr(at);
    }
    REQUIRE(!said.empty());
    CHECK(std::stod(said.substr(said.find(' '))) ==
          doctest::Approx(result.at("text2video").at("meanR").get<double>()).epsilon(1e-3));
  }

  TEST_CASE(
      "a dry run of the published configuration counts its parameters and plans steps and memory, opening no video") {
    const Folder folder;
    const auto configs = fs::absolute("reference_app/configs");
    const auto vocabulary = test_support::fixtures_folder() / "vocab.txt";
    if (!fs::exists(configs / "msrvtt_ret_base_resnet50.json") || !test_support::have(vocabulary)) return;
    folder.write(
        "c.jsonl",
        "{\"caption\": \"a red ball\", \"clip_name\": \"v\"}\n{\"caption\": \"a dog\", \"clip_name\": \"w\"}\n");
    folder.write("videos/v.mp4", "no video");
    folder.write("videos/w.mp4", "no video either");
    const std::string sets = R"([{"name": "x", "txt": "c.jsonl", "img": "videos"}])";
    const auto outcome = folder.run(
        {"train", "--config", (configs / "msrvtt_ret_base_resnet50.json").string(), "--dry_run", "1", "--output_dir",
         "D", "--e2e_weights_path", "null", "--model_config", (configs / "base_model.json").string(), "--tokenizer_dir",
         fs::absolute(vocabulary).parent_path().string(), "--train_datasets", sets, "--val_datasets", sets});
    CHECK_MESSAGE(outcome.code == 0, outcome.err);
    for (const char* part :
         {"148,826,306 (148,603,906 trainable)", "steps        3 (",
          "16 videos x 1 captions x accumulation 1 = 16 examples", "memory       weights 298.", "masters 594.",
          "optimizer state 1188.", "activations about", "learning_rate", "INIT FROM SCRATCH"}) {
      CHECK_MESSAGE(has(outcome.out, part), part);
    }
    CHECK_FALSE(fs::exists(folder / "D"));
  }
}
