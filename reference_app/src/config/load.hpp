/// From a file and flags to settings: a flag wins over the file, the file over the default.
#pragma once
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "config/config.hpp"
#include "config/json.hpp"

namespace clipbert::config {

struct Loaded {
  Config config;
  std::vector<std::string> warnings;  ///< keys whose value changes nothing; one line each, the file named
};

/// Reads `file` (none: defaults only) and the words of the command line that are config keys, and checks the values.
/// flags   `--KEY VALUE...` or `--KEY=VALUE`; dashes equal underscores; JSON for objects, several words for lists,
///         `null` unsets, a 0/1 key without a value is 1
/// throws  usage_error that lists every fault: syntax, unknown keys, types, ranges, contradictions
[[nodiscard]] Loaded load(const std::optional<std::filesystem::path>& file, std::span<const std::string> flags = {});

/// The same for a text; `name` stands in messages, relative paths resolve against `folder`.
[[nodiscard]] Loaded parse(std::string_view text, const std::string& name, const std::string& folder = {},
                           std::span<const std::string> flags = {});

/// Settings from keys that a program sets itself; checked like a file.
[[nodiscard]] Loaded from_json(const Json& json, const std::string& name);

/// Makes every path of `config` absolute: values of the file against the config's folder, then the current one; values
/// of flags the other way round. output_dir is left as given. `only`: the keys to look at (empty: all). throws
/// usage_error that lists every path that does not exist, with its key
void check_paths(Config& config, std::span<const std::string> only = {});

/// The transformer's settings: the object, the file, or BERT base; with num_labels by loss_type and, where `dropout`
/// was given as a flag, both dropouts. throws  usage_error as load() does
[[nodiscard]] ModelConfig model_config(const Config& config, std::vector<std::string>* warnings = nullptr);

/// Settings without unset keys, and what the log says about how they came.
struct Effective {
  Config
      config;  ///< opt_level, amp_dtype, loss_scale, keep_batchnorm_fp32, master_weights, device, num_threads are set
  std::vector<std::string> notes;
};

/// Fills in what depends on other keys and on the machine (CLIPBERT_NUM_THREADS too).
/// throws  usage_error where the level's format contradicts another key on this device
[[nodiscard]] Effective effective(const Config& config, bool cuda_present = false);

/// All keys; log/args.json. load() reads it back to equal settings.
[[nodiscard]] Json to_json(const Config& config);
[[nodiscard]] Json to_json(const ModelConfig& model);

/// A line per key: value and where it came from; what --dry_run prints.
[[nodiscard]] std::string listing(const Config& config);

/// A paragraph per section, a line per key: flag, type, default, help.
[[nodiscard]] std::string help_text();

}  // namespace clipbert::config
