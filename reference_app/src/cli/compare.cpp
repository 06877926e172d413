#include <CLI/CLI.hpp>
#include <algorithm>
#include <csignal>
#include <filesystem>
#include <iostream>
#include <map>
#include <nlohmann/json.hpp>

#include "cli/child.hpp"
#include "cli/flags.hpp"
#include "cli/table.hpp"
#include "cli/training.hpp"
#include "cli/worker.hpp"
#include "config/errors.hpp"
#include "log/console.hpp"
#include "model/clipbert.hpp"

namespace clipbert::cli {
namespace {

using Json = nlohmann::ordered_json;

struct CompareFlags {
  std::string file, levels = "O0,O2";
  std::int64_t steps = 50, turn = 5;
  bool json = false;
};

Words split_levels(const std::string& text) {
  Words out;
  std::string level;
  for (const char c : text + ",") {
    if (c != ',')
      level += c;
    else if (!level.empty())
      out.push_back(std::exchange(level, {}));
  }
  if (out.empty()) throw usage_error("compare: --levels is empty; give some of O0,O1,O2,O3");
  return out;
}

/// An answer of a level's process, or its end as an exception: its own line stands on standard error already.
Json answer(Child& child, const std::string& level) {
  const std::string line = child.hear();
  if (!line.empty()) return Json::parse(line);
  const std::string what = "compare: the process of " + level + " ended early; its own message stands above";
  const int code = child.wait();
  if (code > 128) {
    throw std::runtime_error("compare: the process of " + level + " was ended by signal " + std::to_string(code - 128) +
                             (code == 128 + SIGKILL ? "; often the system ends what takes too much memory" : ""));
  }
  switch (code) {
    case wrong_use:
      throw usage_error(what);
    case bad_content:
      throw content_error(what);
    case diverged:
      throw diverged_error(what);
    default:
      throw std::runtime_error(what);
  }
}

/// Each level is a process of its own, so that memory is its own too. They run in turns of a few steps, so that all see
/// the same machine: what else it does hits each alike.
Json run_levels(const CompareFlags& flags, const Words& levels, const Words& keys) {
  std::vector<std::unique_ptr<Child>> children;
  for (const auto& level : levels) {
    Words words{std::string(worker_command), "--config=" + flags.file, "--steps=" + std::to_string(flags.steps)};
    words.insert(words.end(), keys.begin(), keys.end());
    words.push_back("--opt_level=" + level);
    children.push_back(std::make_unique<Child>(words));
    answer(*children.back(), level);  // ready; one after the other, since preparing takes memory and cores
  }
  for (std::int64_t step = 0; step < flags.steps;) {
    const std::int64_t count = step == 0 ? 1 : std::min(flags.turn, flags.steps - step);
    for (std::size_t i = 0; i < children.size(); ++i) {
      children[i]->say("steps " + std::to_string(count));
      answer(*children[i], levels[i]);
    }
    step += count;
    if (log::stderr_is_terminal()) std::cerr << "\rstep " << step << '/' << flags.steps << std::flush;
  }
  if (log::stderr_is_terminal()) std::cerr << "\r" << std::flush;
  Json out = Json::object();
  for (std::size_t i = 0; i < children.size(); ++i) {
    children[i]->say("finish");
    out[levels[i]] = answer(*children[i], levels[i]);
  }
  return out;
}

/// A number of a level's answer; JSON has no word for one that is not finite.
std::string shown(const Json& value, double factor, int digits) {
  return value.is_number() ? fixed(factor * value.get<double>(), digits) : "not finite";
}

void print_tables(const Json& levels) {
  std::vector<std::string> head{""};
  for (const auto& [level, facts] : levels.items()) head.push_back(level + " " + facts.at("dtype").get<std::string>());
  const auto print = [&](const std::string& title, const char* part, const auto& text) {
    head[0] = title;
    Table table(head);
    const Json& first = levels.begin().value().at(part);
    for (const auto& [key, unused] : first.items()) {
      std::vector<std::string> row{"  " + key};
      for (const auto& [level, facts] : levels.items()) row.push_back(text(facts.at(part).at(key)));
      table.row(std::move(row));
    }
    std::cout << table.text() << '\n';
  };
  print("milliseconds a step", "seconds_per_step", [](const Json& v) { return shown(v, 1e3, 1); });
  print("memory", "bytes", [](const Json& v) { return megabytes(v.get<std::int64_t>()); });
  head[0] = "loss";
  Table losses(head);
  const std::size_t steps = levels.begin().value().at("loss").at("curve").size();
  for (std::size_t i = 0; i < steps;
       i = i + 1 == steps ? steps : std::min(i + std::max<std::size_t>(1, steps / 8), steps - 1)) {
    std::vector<std::string> row{"  step " + std::to_string(i + 1)};
    for (const auto& [level, facts] : levels.items()) row.push_back(shown(facts.at("loss").at("curve")[i], 1, 4));
    losses.row(std::move(row));
  }
  std::cout << losses.text() << '\n';
  if (!levels.begin().value().at("final").empty()) {
    print("validation after the last step", "final", [](const Json& v) { return shown(v, 1, 4); });
  }
}

}  // namespace

int compare(const Words& words) {
  CLI::App app("Runs the same steps from the same start at several opt levels, in turns, each in a process of its own",
               "compare");
  CompareFlags flags;
  app.add_option("--config", flags.file, "JSON file of settings")->required()->type_name("FILE");
  app.add_option("--steps", flags.steps, "count of optimizer steps")->check(whole_number(1))->capture_default_str();
  app.add_option("--levels", flags.levels, "opt levels, with commas")->capture_default_str();
  app.add_option("--turn", flags.turn, "steps of one level before the next has its turn")
      ->check(whole_number(1))
      ->capture_default_str();
  app.add_flag("--json", flags.json, "print JSON");
  app.footer(
      "\nEvery config key is a flag too (`clipbert train --help`).\n"
      "Time is the median over the steps but the first ones; activations are what the forward pass keeps for the\n"
      "backward pass; peak_rss is the whole process.\n");
  const auto split = split_words(app, words);
  if (!parse_flags(app, split.fixed)) return done;
  std::error_code error;
  if (std::filesystem::exists(flags.file, error) && !std::filesystem::is_regular_file(flags.file, error))
    throw usage_error("compare: config " + flags.file +
                      " is no regular file; every level reads it, so a pipe is not enough");
  Words levels = split_levels(flags.levels);
  for (auto& level : levels) {  // all levels and keys are checked before any process starts
    Words keys = split.keys;
    keys.push_back("--opt_level=" + level);
    level = config::load(flags.file, keys).config.opt_level.value();
  }
  for (const auto& level : levels) {
    if (std::ranges::count(levels, level) > 1) throw usage_error("compare: --levels has " + level + " twice; keep one");
  }
  const Json result = run_levels(flags, levels, split.keys);
  if (flags.json) {
    std::cout << Json{{"config", flags.file}, {"steps", flags.steps}, {"levels", result}}.dump(
                     2, ' ', false, Json::error_handler_t::replace)
              << '\n';
  } else {
    print_tables(result);
  }
  return done;
}

}  // namespace clipbert::cli
