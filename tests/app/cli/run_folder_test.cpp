// What becomes of a run's folder: two processes, another run, another model, a full disk, signals.
#include <doctest/doctest.h>
#include <signal.h>

#include <cstdlib>
#include <sstream>

#include "tiny.hpp"

namespace fs = std::filesystem;
using test_support::Folder;
using test_support::has;
using test_support::last_line;
using test_support::metrics_of;
using test_support::one_line;
using test_support::Program;
using test_support::read_text;
using test_support::tiny_folder;
using test_support::train_words;
using test_support::wait_for_steps;

namespace {

std::size_t count_files(const fs::path& folder, const std::string& part) {
  std::size_t count = 0;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(folder, none)) count += has(entry.path().filename().string(), part);
  return count;
}

/// Exit code of a shell line in `folder`, where $CLIPBERT is the program.
int shell(const Folder& folder, const std::string& line) {
  const std::string program = fs::absolute(std::getenv("AMP_CLIPBERT")).string();
  const int status =
      std::system(("cd '" + folder.path().string() + "' && CLIPBERT='" + program + "' && " + line).c_str());
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

/// What the log says of each validation, without the time.
std::vector<std::string> validations(const fs::path& run) {
  std::vector<std::string> lines;
  std::istringstream in(read_text(run / "log" / "log.txt"));
  for (std::string line; std::getline(in, line);) {
    if (const auto at = line.find("validation at step"); at != std::string::npos) lines.push_back(line.substr(at));
  }
  return lines;
}

}  // namespace

TEST_SUITE("cli/run_folder") {
  TEST_CASE("a second run in a folder in use is refused with the process that holds it, and the first goes on") {
    const Folder& folder = tiny_folder();
    Program first(train_words("shared", 5000), folder.path());
    wait_for_steps(first, folder / "shared", 1);
    const auto second = folder.run(train_words("shared", 5000));
    CHECK(second.code == 2);
    CHECK(one_line(second.err));
    CHECK(has(second.err, "in use"));
    CHECK(has(second.err, "process " + read_text(folder / "shared" / ".lock")));
    const auto steps = metrics_of(folder / "shared").size();
    wait_for_steps(first, folder / "shared", steps + 2);
    first.signal(SIGKILL);
    CHECK(first.wait().code == 128 + SIGKILL);
    CHECK(folder.run(train_words("shared", 1)).code == 0);  // nobody holds it any more
  }

  TEST_CASE("a run that starts anew keeps the earlier run beside it, whole") {
    const Folder& folder = tiny_folder();
    REQUIRE(folder.run(train_words("anew", 6)).code == 0);
    const auto again = folder.run(train_words("anew", 4, {"--resume", "never"}));
    REQUIRE_MESSAGE(again.code == 0, again.err);
    CHECK(has(again.err, "earlier_1"));
    const auto run = folder / "anew", earlier = run / "earlier_1";
    CHECK(fs::exists(earlier / "ckpt" / "model_step_6.pt"));
    CHECK(count_files(earlier / "restore", "state_") == 2);
    CHECK(metrics_of(earlier).size() == 6);
    CHECK_FALSE(fs::exists(run / "ckpt" / "model_step_6.pt"));
    CHECK(fs::exists(run / "ckpt" / "model_step_4.pt"));
    CHECK(fs::exists(run / "ckpt" / "best"));
    CHECK(metrics_of(run).size() == 4);
    const auto eval = folder.run({"eval", "--output_dir", "anew/earlier_1", "--inference_txt_db", "data/gallery.jsonl",
                                  "--inference_img_db", "data/gallery"});
    CHECK_MESSAGE(eval.code == 0, eval.err);
    CHECK(has(eval.out, "step 6"));
  }

  TEST_CASE("a run that goes on from an older state moves the newer files aside, so that they never come back") {
    const Folder& folder = tiny_folder();
    REQUIRE(folder.run(train_words("branch", 8, {"--save_steps_ratio", "0.25"})).code == 0);  // states of 6 and 8
    std::string older;
    for (const auto& entry : fs::directory_iterator(folder / "branch" / "restore")) {
      if (has(read_text(entry.path()), "\"step\":\"6\"")) older = "branch/restore/" + entry.path().filename().string();
    }
    REQUIRE(!older.empty());
    const auto on = folder.run(train_words("branch", 10, {"--resume", older}));
    REQUIRE_MESSAGE(on.code == 0, on.err);
    CHECK(has(on.err, "resumed at step 6"));
    const auto earlier = folder / "branch" / "earlier_1";
    CHECK(count_files(earlier / "restore", "state_") == 1);
    CHECK(fs::exists(earlier / "ckpt" / "model_step_8.pt"));
    CHECK(metrics_of(earlier).size() == 8);
    const auto lines = metrics_of(folder / "branch");
    REQUIRE(lines.size() == 10);
    for (std::size_t i = 0; i < lines.size(); ++i) CHECK(lines[i].at("step") == i + 1);
  }

  TEST_CASE("a finished run that is called with other settings says so and changes no file") {
    const Folder& folder = tiny_folder();
    REQUIRE(folder.run(train_words("finished", 2)).code == 0);
    const auto log = folder / "finished" / "log";
    const auto args = read_text(log / "args.json");
    const auto again = folder.run(train_words("finished", 2, {"--learning_rate", "0.25", "--max_img_size", "128"}));
    CHECK(again.code == 0);
    CHECK(has(again.err, "nothing to do"));
    CHECK(has(again.err, "learning_rate"));
    CHECK(read_text(log / "args.json") == args);
    CHECK(count_files(log, "tfevents") == 1);
  }

  TEST_CASE("a state of another model is refused, and the run's own settings stay") {
    const Folder& folder = tiny_folder();
    REQUIRE(folder.run(train_words("model", 4)).code == 0);
    const auto log = folder / "model" / "log";
    const auto args = read_text(log / "args.json"), model = read_text(log / "model_config.json");
    auto config = nlohmann::json::parse(read_text(folder / "c.json"));
    config["model_config"]["hidden_size"] = 16;
    folder.write("other.json", config.dump());
    const auto other =
        folder.run({"train", "--config", "other.json", "--output_dir", "model", "--max_train_steps", "8"});
    CHECK(other.code == 3);
    CHECK(has(last_line(other.err), "clipbert: "));
    CHECK(has(last_line(other.err), "state"));
    CHECK(read_text(log / "args.json") == args);
    CHECK(read_text(log / "model_config.json") == model);
    CHECK(folder.run(train_words("model", 6)).code == 0);
  }

  TEST_CASE("another vocabulary is warned of, and settings that cannot be read do not stop a run that goes on") {
    const Folder& folder = tiny_folder();
    REQUIRE(folder.run(train_words("words", 2)).code == 0);
    folder.write("swapped/vocab.txt", "[UNK]\n[PAD]\n" + read_text(folder / "data" / "vocab.txt").substr(12));
    const auto other = folder.run(train_words("words", 4, {"--tokenizer_dir", "swapped"}));
    CHECK(other.code == 0);
    CHECK(has(other.err, "vocabulary is not that of the run"));
    folder.write("words/log/args.json", "{\"seed\": ");
    const auto damaged = folder.run(train_words("words", 6, {"--tokenizer_dir", "swapped"}));
    CHECK(damaged.code == 0);
    CHECK(has(damaged.err, "cannot be compared"));
    CHECK(nlohmann::json::parse(read_text(folder / "words" / "log" / "args.json")).at("max_train_steps") == 6);
  }

  TEST_CASE("a best value of one metric is not held against another") {
    const Folder& folder = tiny_folder();
    REQUIRE(folder.run(train_words("metric", 2)).code == 0);
    const auto other = folder.run(train_words("metric", 4, {"--best_metric", "loss"}));
    REQUIRE(other.code == 0);
    CHECK(fs::read_symlink(folder / "metric" / "ckpt" / "best") == "model_step_4.pt");
    CHECK(has(last_line(other.err), "best loss 0."));
  }

  TEST_CASE("a full disk ends the run with code 3 and the file's name, and leaves no half-written file") {
    const Folder& folder = tiny_folder();
    // weights fit into 2 MB, a state does not
    const int code = shell(folder,
                           "ulimit -f 4000 && exec \"$CLIPBERT\" train --config c.json --output_dir full "
                           "--max_train_steps 4 2> full.err");
    CHECK(code == 3);
    const auto last = last_line(read_text(folder / "full.err"));
    CHECK(has(last, "clipbert: "));
    CHECK(has(last, "state_a.safetensors"));
    CHECK(count_files(folder / "full" / "restore", "") == 0);
    CHECK(fs::exists(folder / "full" / "ckpt" / "model_step_2.pt"));
    CHECK(folder.run(train_words("full", 4)).code == 0);
  }

  TEST_CASE("a run that diverges ends with code 4 and leaves the last sound state and weights") {
    const Folder& folder = tiny_folder();
    REQUIRE(folder.run(train_words("sound", 2)).code == 0);
    const std::vector<std::string> wild{"--learning_rate",    "1e38", "--cnn_learning_rate",     "1e38",
                                        "--save_steps_ratio", "0.01", "--max_consecutive_skips", "8",
                                        "--num_valid",        "100"};
    const auto outcome = folder.run(train_words("sound", 100, wild));
    CHECK(outcome.code == 4);
    CHECK(has(last_line(outcome.err), "diverged"));
    CHECK(has(outcome.err, "is not saved"));
    const auto again = folder.run(train_words("sound", 4));
    CHECK_MESSAGE(again.code == 0, again.err);
    CHECK(fs::exists(folder / "sound" / "ckpt" / "model_step_4.pt"));
  }

  TEST_CASE("a closed terminal saves the state, and a closed reader of the messages does not end the run") {
    const Folder& folder = tiny_folder();
    Program run(train_words("hangup", 5000), folder.path());
    wait_for_steps(run, folder / "hangup", 2);
    run.signal(SIGHUP);
    run.signal(SIGHUP);  // a shell and the system each send one
    const auto outcome = run.wait();
    CHECK(outcome.code == 130);
    CHECK(has(outcome.err, "is saved"));
    CHECK(count_files(folder / "hangup" / "restore", "state_") == 1);
    CHECK(shell(folder,
                "\"$CLIPBERT\" train --config c.json --output_dir pipe --max_train_steps 4 2>&1 | head -n 1 "
                "> /dev/null") == 0);
    CHECK(fs::exists(folder / "pipe" / "ckpt" / "model_step_4.pt"));
  }

  TEST_CASE("B48 no validation is left out of a run that a signal stopped, the last one included") {
    const Folder& folder = tiny_folder();
    const std::vector<std::string> more{"--num_valid", "24", "--save_steps_ratio", "1"};  // one after each step
    REQUIRE(folder.run(train_words("every", 24, more)).code == 0);
    for (const std::size_t at : {3U, 23U}) {  // the second one most often comes before the last validation
      Program run(train_words("stopped", 24, more), folder.path());
      wait_for_steps(run, folder / "stopped", at);
      run.signal(SIGTERM);
      const int code = run.wait().code;
      CHECK((code == 130 || at == 23));
    }
    REQUIRE(folder.run(train_words("stopped", 24, more)).code == 0);
    CHECK(validations(folder / "stopped") == validations(folder / "every"));
    CHECK(fs::read_symlink(folder / "stopped" / "ckpt" / "best") ==
          fs::read_symlink(folder / "every" / "ckpt" / "best"));
    CHECK(read_text(folder / "stopped" / "ckpt" / "best") == read_text(folder / "every" / "ckpt" / "best"));
  }

  TEST_CASE("a folder that cannot be written to is refused with its name") {
    const Folder& folder = tiny_folder();
    folder.write("file", "no folder");
    for (const auto& [out, code] :
         std::vector<std::pair<std::string, int>>{{"file", 2}, {"file/sub", 2}, {"/proc/x", 2}}) {
      CAPTURE(out);
      const auto outcome = folder.run(train_words(out, 1));
      CHECK(outcome.code == code);
      CHECK(one_line(outcome.err));
      CHECK(has(outcome.err, "output_dir " + out));
    }
    for (const std::string part : {"ckpt", "restore", "log"}) {  // a file where a folder belongs
      CAPTURE(part);
      folder.write("odd_" + part + "/" + part, "no folder");
      const auto outcome = folder.run(train_words("odd_" + part, 2));
      CHECK(outcome.code == 3);
      CHECK(has(last_line(outcome.err), "odd_" + part + "/" + part));
    }
  }
}
