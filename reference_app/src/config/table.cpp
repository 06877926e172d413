#include "config/table.hpp"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <sstream>

#include "config/codec.hpp"
#include "config/errors.hpp"

namespace clipbert::config {
namespace detail {

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return out;
}

std::string shown(const Json& json) {
  auto text = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (text.size() > 60) text = text.substr(0, 57) + "...";
  return text;
}

std::string number_text(double value) { return Json(value).dump(); }

std::string range_text(const Rule& rule) {
  const auto text = [](double bound) {
    return bound == std::floor(bound) && std::abs(bound) < 1e9 ? std::to_string(static_cast<long long>(bound))
                                                               : number_text(bound);
  };
  std::string out;
  if (std::isfinite(rule.low) && std::isfinite(rule.high))
    out = std::string("in ") + (rule.above_low ? "(" : "[") + text(rule.low) + ", " + text(rule.high) +
          (rule.below_high ? ")" : "]");
  else if (std::isfinite(rule.low))
    out = (rule.above_low ? "above " : "at least ") + text(rule.low);
  if (std::isfinite(rule.also)) out += " or " + text(rule.also);
  return out;
}

std::string with_range(const std::string& kind, const Rule& rule) {
  const auto range = range_text(rule);
  return kind + (range.empty() ? "" : range.starts_with("at least") ? " of " : " ") + range;
}

std::string choices_text(const Rule& rule) {
  std::string out;
  for (std::size_t i = 0; i < rule.choices.size(); ++i)
    out += (i == 0 ? "" : i + 1 == rule.choices.size() ? " or " : ", ") + std::string(rule.choices[i]);
  return out;
}

bool in_range(double value, const Rule& rule) {
  if (value == rule.also) return true;
  return (rule.above_low ? value > rule.low : value >= rule.low) &&
         (rule.below_high ? value < rule.high : value <= rule.high);
}

bool parse_number(std::string_view text, double& out) {
  const auto result = std::from_chars(text.data(), text.data() + text.size(), out);
  return result.ec == std::errc{} && result.ptr == text.data() + text.size() && std::isfinite(out);
}

}  // namespace detail

void Faults::add(const std::string& path, const std::string& what) {
  std::string where = path;
  if (lines_ != nullptr) {
    // a list's elements and what an object lacks stand in no line of their own: take the nearest key around
    for (std::string at = path; !at.empty();) {
      if (const auto found = lines_->find(at); found != lines_->end()) {
        where += " (line " + std::to_string(found->second) + ")";
        break;
      }
      const auto cut = at.find_last_of(".[");
      at = cut == std::string::npos ? std::string() : at.substr(0, cut);
    }
  }
  all_.push_back(where + " " + what);
}

void Faults::raise(const std::string& name) const {
  if (all_.empty()) return;
  std::string text = name;
  text += all_.size() == 1 ? ": " : ": " + std::to_string(all_.size()) + " faults: ";
  for (std::size_t i = 0; i < all_.size(); ++i) text += (i == 0 ? "" : "; ") + all_[i];
  throw usage_error(text);
}

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> d(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) d[i][0] = i;
  for (std::size_t j = 0; j <= b.size(); ++j) d[0][j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i)
    for (std::size_t j = 1; j <= b.size(); ++j) {
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, d[i - 1][j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  return d[a.size()][b.size()];
}

namespace {

template <class S>
std::string_view nearest(std::string_view name) {
  const auto wanted = detail::lower(name);
  std::string_view best;
  std::size_t least = std::string_view::npos;
  for (const auto& key : keys<S>())
    if (const auto distance = edit_distance(wanted, key.name); distance < least) {
      least = distance;
      best = key.name;
    }
  return best;
}

/// The object that does know `name`, for a key that stands at the wrong depth.
template <class S>
std::string belongs(std::string_view name) {
  if (!std::is_same_v<S, Config> && find_key<Config>(name) != nullptr) return "belongs to the top level";
  if (!std::is_same_v<S, ModelConfig> && find_key<ModelConfig>(name) != nullptr) return "belongs into model_config";
  if (!std::is_same_v<S, CnnConfig> && find_key<CnnConfig>(name) != nullptr) return "belongs into cnn";
  return {};
}

}  // namespace

template <class S>
std::string suggestion(std::string_view name) {
  const auto place = belongs<S>(name);
  return (place.empty() ? "" : "it " + place + "; ") + "the nearest key is " + std::string(nearest<S>(name));
}

template <class S>
void read_object(const Json& json, S& out, const std::string& path, Faults& faults) {
  if (!json.is_object()) {
    if (path.empty())
      faults.add("must be an object, not " + detail::shown(json));
    else
      detail::wrong_type(json, "an object", path, faults);
    return;
  }
  for (const auto& [name, value] : json.items()) {
    const auto at = path.empty() ? name : path + "." + name;
    if (const auto* key = find_key<S>(name))
      key->read(value, out, at, faults);
    else
      faults.add(at, "is not known; " + suggestion<S>(name));
  }
  for (const auto& key : keys<S>())
    if (key.required && !json.contains(key.name)) faults.add(path + "." + std::string(key.name), "is missing");
}

template <class S>
Json write_object(const S& value) {
  auto json = Json::object();
  for (const auto& key : keys<S>()) json[std::string(key.name)] = key.write(value);
  return json;
}

template std::string suggestion<Config>(std::string_view);
template std::string suggestion<ModelConfig>(std::string_view);
template std::string suggestion<CnnConfig>(std::string_view);
template std::string suggestion<DatasetConfig>(std::string_view);
template void read_object<Config>(const Json&, Config&, const std::string&, Faults&);
template void read_object<ModelConfig>(const Json&, ModelConfig&, const std::string&, Faults&);
template void read_object<CnnConfig>(const Json&, CnnConfig&, const std::string&, Faults&);
template void read_object<DatasetConfig>(const Json&, DatasetConfig&, const std::string&, Faults&);
template Json write_object<Config>(const Config&);
template Json write_object<ModelConfig>(const ModelConfig&);
template Json write_object<CnnConfig>(const CnnConfig&);
template Json write_object<DatasetConfig>(const DatasetConfig&);

}  // namespace clipbert::config
