/// Saved loss scalers in LibTorch archives.
#pragma once
#include <ATen/core/ivalue.h>
#include <torch/serialize/input-archive.h>
#include <torch/serialize/output-archive.h>

#include <amp/core/check.hpp>
#include <amp/scaling/saved_dict.hpp>
#include <cstdint>
#include <string>

namespace amp_torch {

/// Writes a dictionary (amp::apex_dict, amp::to_dict, GradScaler::state_dict) under its own keys: whole numbers as
/// int64, others as double, which keeps every bit of a float.
inline void write(torch::serialize::OutputArchive& archive, const amp::saved_dict& dict,
                  amp::where at = amp::where::here()) {
  for (const auto& e : dict) {
    if (e.number.empty()) {
      torch::serialize::OutputArchive nested;
      write(nested, e.entries, at);
      archive.write(e.key, nested);
    } else if (e.number.find_first_not_of("-0123456789") == std::string::npos) {
      archive.write(e.key, c10::IValue(amp::read_number<std::int64_t>(e, at)));
    } else {
      archive.write(e.key, c10::IValue(amp::read_number<double>(e, at)));
    }
  }
}

/// Reads it back, in the order in which it was written.
/// throws  amp::error naming an entry that is neither a number nor a dictionary
[[nodiscard]] inline amp::saved_dict read_dict(torch::serialize::InputArchive& archive,
                                               amp::where at = amp::where::here()) {
  amp::saved_dict dict;
  for (const std::string& key : archive.keys()) {
    c10::IValue value;
    archive.read(key, value);
    amp::saved_entry_of_dict e{key};
    if (value.isInt()) {
      e.number = amp::number_text(value.toInt());
    } else if (value.isDouble()) {
      e.number = amp::number_text(value.toDouble());
    } else {
      amp::expects(
          value.isObject(), [&] { return "archive: \"" + key + "\" is neither a number nor a dictionary"; }, at);
      torch::serialize::InputArchive nested;
      archive.read(key, nested);
      e.entries = read_dict(nested, at);
    }
    dict.push_back(std::move(e));
  }
  return dict;
}

}  // namespace amp_torch
