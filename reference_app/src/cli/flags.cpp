#include "cli/flags.hpp"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <charconv>
#include <iostream>

#include "config/errors.hpp"

namespace clipbert::cli {
namespace {

std::string flag_name(const std::string& word) { return word.substr(0, word.find('=')); }

}  // namespace

std::string did_you_mean(const std::string& word, const std::vector<std::string>& known) {
  std::string best;
  std::size_t least = std::max<std::size_t>(2, word.size() / 3) + 1;
  for (const auto& name : known) {
    if (const std::size_t n = config::edit_distance(word, name); n < least) least = n, best = name;
  }
  return best.empty() ? "" : ", did you mean " + best + "?";
}

Words with_underscores(Words words) {
  for (auto& word : words) {
    if (word == "--") break;
    if (word.size() < 3 || word.compare(0, 2, "--") != 0) continue;
    const std::size_t end = std::min(word.find('='), word.size());
    std::replace(word.begin() + 2, word.begin() + static_cast<std::ptrdiff_t>(end), '-', '_');
  }
  return words;
}

namespace {

/// An unknown flag is told before one that is missing: it is likely the same one, misspelt.
void expect_known(const CLI::App& app, const Words& words, const std::vector<std::string>& more_flags,
                  const std::string& ask) {
  for (const auto& word : words) {
    if (word == "--") return;
    if (word.compare(0, 2, "--") != 0 || app.get_option_no_throw(flag_name(word)) != nullptr) continue;
    std::vector<std::string> known = more_flags;
    for (const auto* option : app.get_options()) {
      for (const auto& name : option->get_lnames()) known.push_back("--" + name);
    }
    throw usage_error(app.get_name() + ": unknown flag " + flag_name(word) + did_you_mean(flag_name(word), known) +
                      ask);
  }
}

}  // namespace

bool parse_flags(CLI::App& app, const Words& words, const std::vector<std::string>& more_flags) {
  const std::string ask = " (`clipbert " + app.get_name() + " --help` lists the flags)";
  app.allow_extras();
  Words all = with_underscores(words);
  expect_known(app, all, more_flags, ask);
  try {
    std::reverse(all.begin(), all.end());  // CLI11 takes words from the back
    app.parse(std::move(all));
  } catch (const CLI::CallForHelp&) {
    std::cout << app.help();
    return false;
  } catch (const CLI::ParseError& e) {
    throw usage_error(app.get_name() + ": " + e.what() + ask);
  }
  const auto left = app.remaining();
  if (!left.empty()) throw usage_error(app.get_name() + ": unexpected word '" + left.front() + "'" + ask);
  return true;
}

CLI::Validator whole_number(std::int64_t least, std::int64_t most) {
  return {[least, most](std::string& word) -> std::string {
            std::int64_t value = 0;
            const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
            if (error == std::errc() && end == word.data() + word.size() && value >= least && value <= most) return {};
            return "must be a whole number from " + std::to_string(least) + " to " + std::to_string(most) + ", not " +
                   word;
          },
          ""};
}

SplitWords split_words(const CLI::App& app, const Words& words) {
  SplitWords out;
  bool fixed = true;
  for (const auto& word : with_underscores(words)) {
    if (word.size() > 1 && word[0] == '-' && std::isdigit(static_cast<unsigned char>(word[1])) == 0 && word[1] != '.') {
      const auto* option = app.get_option_no_throw(flag_name(word));
      fixed = option != nullptr || word.compare(0, 2, "--") != 0;
    }
    (fixed ? out.fixed : out.keys).push_back(word);
  }
  return out;
}

}  // namespace clipbert::cli
