/// The saved forms of a loss scaler: apex's amp.state_dict() and torch's GradScaler.state_dict(), by their own names.
#pragma once
#include <amp/core/check.hpp>
#include <amp/scaling/saved_dict.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace amp {

/// One scaler in amp.state_dict() of NVIDIA apex.
struct apex_scaler_state {
  float loss_scale;
  std::int64_t unskipped;
  friend bool operator==(const apex_scaler_state&, const apex_scaler_state&) = default;
};

/// GradScaler.state_dict() of torch; the hysteresis tracker where the policy has one.
struct torch_scaler_state {
  float scale;
  double growth_factor, backoff_factor;
  std::int64_t growth_interval, growth_tracker;
  std::optional<std::int64_t> hysteresis_tracker = {};
  friend bool operator==(const torch_scaler_state&, const torch_scaler_state&) = default;
};

/// {"loss_scaler0": {"loss_scale": 65536.0, "unskipped": 7}, ...}
[[nodiscard]] inline saved_dict to_dict(const std::vector<apex_scaler_state>& scalers) {
  saved_dict dict;
  for (const auto& s : scalers) {
    dict.push_back({"loss_scaler" + std::to_string(dict.size()),
                    {},
                    {{"loss_scale", number_text(s.loss_scale)}, {"unskipped", number_text(s.unskipped)}}});
  }
  return dict;
}
/// {"scale": 65536.0, "growth_factor": 2.0, "backoff_factor": 0.5, "growth_interval": 2000, "_growth_tracker": 7}
[[nodiscard]] inline saved_dict to_dict(const torch_scaler_state& s) {
  saved_dict dict{{"scale", number_text(s.scale)},
                  {"growth_factor", number_text(s.growth_factor)},
                  {"backoff_factor", number_text(s.backoff_factor)},
                  {"growth_interval", number_text(s.growth_interval)},
                  {"_growth_tracker", number_text(s.growth_tracker)}};
  if (s.hysteresis_tracker) dict.push_back({"hysteresis_tracker", number_text(*s.hysteresis_tracker)});
  return dict;
}

/// What a dictionary held, and the keys that belong to no such form.
template <class State>
struct read_form {
  State state;
  std::vector<std::string> foreign;
};

namespace detail {
inline const saved_entry_of_dict& wanted_entry(const saved_dict& dict, const std::string& key, where at) {
  const auto* e = find(dict, key);
  expects(
      e != nullptr, [&] { return "the saved scaler lacks \"" + key + "\""; }, at);
  return *e;
}
inline void expect_filled(const saved_dict& dict, where at) {
  expects(!dict.empty(), "the saved scaler is empty: it was saved by a disabled one, so there is nothing to load", at);
}
}  // namespace detail

/// Entries whose key has "loss_scaler" in it, in order, as apex reads them.
/// throws  amp::error for an empty dictionary, and for an entry that lacks its numbers
[[nodiscard]] inline read_form<std::vector<apex_scaler_state>> read_apex(const saved_dict& dict,
                                                                         where at = where::here()) {
  detail::expect_filled(dict, at);
  read_form<std::vector<apex_scaler_state>> out;
  for (const auto& e : dict) {
    if (e.key.find("loss_scaler") == std::string::npos) {
      out.foreign.push_back(e.key);
      continue;
    }
    out.state.push_back({read_number<float>(detail::wanted_entry(e.entries, "loss_scale", at), at),
                         read_number<std::int64_t>(detail::wanted_entry(e.entries, "unskipped", at), at)});
  }
  return out;
}
/// throws  amp::error for an empty dictionary, and for one that lacks a number
[[nodiscard]] inline read_form<torch_scaler_state> read_torch(const saved_dict& dict, where at = where::here()) {
  detail::expect_filled(dict, at);
  const auto real = [&](const char* key) { return read_number<double>(detail::wanted_entry(dict, key, at), at); };
  const auto whole = [&](const char* key) {
    return read_number<std::int64_t>(detail::wanted_entry(dict, key, at), at);
  };
  read_form<torch_scaler_state> out{
      {read_number<float>(detail::wanted_entry(dict, "scale", at), at), real("growth_factor"), real("backoff_factor"),
       whole("growth_interval"), whole("_growth_tracker")},
      {}};
  if (find(dict, "hysteresis_tracker") != nullptr) out.state.hysteresis_tracker = whole("hysteresis_tracker");
  const saved_dict known = to_dict(out.state);
  for (const auto& e : dict)
    if (find(known, e.key) == nullptr) out.foreign.push_back(e.key);
  return out;
}

}  // namespace amp
