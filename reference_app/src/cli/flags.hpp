/// Fixed flags of the commands, through CLI11, with the program's own rules: dashes equal underscores, an unknown flag
/// is answered with the nearest known one, errors are usage_error.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "cli/frame.hpp"
#include "config/table.hpp"

namespace CLI {
class App;
class Validator;
}  // namespace CLI

namespace clipbert::cli {

/// ", did you mean X?" for the nearest of `known`, or nothing if none is near.
[[nodiscard]] std::string did_you_mean(const std::string& word, const std::vector<std::string>& known);

/// "--some-flag=value" as "--some_flag=value"; words after a lone "--" stay as they are.
[[nodiscard]] Words with_underscores(Words words);

/// Parses `words` into the variables bound to `app`. False: help was asked for and printed.
/// `more_flags`  names of flags that the command takes besides (only for the nearest name)
/// throws        usage_error
[[nodiscard]] bool parse_flags(CLI::App& app, const Words& words, const std::vector<std::string>& more_flags = {});

/// A check for a flag that is a count: a whole number from `least` to `most`.
[[nodiscard]] CLI::Validator whole_number(std::int64_t least, std::int64_t most = config::largest_count);

/// The words of a command line that takes config keys besides its own flags.
struct SplitWords {
  Words fixed;  ///< flags of the command itself
  Words keys;   ///< `--KEY VALUE...` for config::load(), unknown ones too
};

/// Sorts each `--flag words...` to one side by the flags of `app`.
[[nodiscard]] SplitWords split_words(const CLI::App& app, const Words& words);

}  // namespace clipbert::cli
