/// How each type of setting is read from JSON and written to it.
#pragma once
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "config/table.hpp"

namespace clipbert::config::detail {

[[nodiscard]] std::string lower(std::string_view text);
/// A value as a message shows it: JSON, cut to one short line.
[[nodiscard]] std::string shown(const Json& json);
[[nodiscard]] std::string number_text(double value);
/// "in [0, 1)", "at least 1" and the like; empty without bounds.
[[nodiscard]] std::string range_text(const Rule& rule);
/// "a number in [0, 1)", "a number of at least 1" and the like.
[[nodiscard]] std::string with_range(const std::string& kind, const Rule& rule);
[[nodiscard]] std::string choices_text(const Rule& rule);
[[nodiscard]] bool in_range(double value, const Rule& rule);
/// True if the whole of `text` is one finite number.
[[nodiscard]] bool parse_number(std::string_view text, double& out);

inline void wrong_type(const Json& json, const std::string& type, const std::string& path, Faults& faults) {
  faults.add(path, "must be " + type + ", not " + shown(json));
}
inline void check_range(double value, const Json& json, const Rule& rule, const std::string& path, Faults& faults) {
  if (!in_range(value, rule)) faults.add(path, "must be " + range_text(rule) + ", not " + shown(json));
}

template <class T>
struct Codec;

template <>
struct Codec<bool> {
  static constexpr Shape shape = Shape::boolean;
  static std::string type(const Rule&) { return "0 or 1"; }
  static void read(const Json& json, bool& out, const Rule& rule, const std::string& path, Faults& faults) {
    if (json.is_boolean())
      out = json.get<bool>();
    else if (json.is_number_integer() && (json == 0 || json == 1))
      out = json == 1;
    else
      wrong_type(json, type(rule), path, faults);
  }
  static Json write(bool value) { return value; }
};

template <>
struct Codec<std::int64_t> {
  static constexpr Shape shape = Shape::number;
  static std::string type(const Rule& rule) { return with_range("a whole number", rule); }
  static void read(const Json& json, std::int64_t& out, const Rule& rule, const std::string& path, Faults& faults) {
    if (!json.is_number_integer()) return wrong_type(json, type(rule), path, faults);
    const auto most = static_cast<std::uint64_t>(rule.any_size ? std::int64_t{1} << 62 : largest_count);
    if (json.is_number_unsigned() && json.get<std::uint64_t>() > most)
      return faults.add(path, "is too large: " + shown(json) + "; at most " + std::to_string(most));
    check_range(json.get<double>(), json, rule, path, faults);
    out = json.get<std::int64_t>();
  }
  static Json write(std::int64_t value) { return value; }
};

template <>
struct Codec<double> {
  static constexpr Shape shape = Shape::number;
  static std::string type(const Rule& rule) { return with_range("a number", rule); }
  static void read(const Json& json, double& out, const Rule& rule, const std::string& path, Faults& faults) {
    if (!json.is_number()) return wrong_type(json, type(rule), path, faults);
    check_range(json.get<double>(), json, rule, path, faults);
    out = json.get<double>();
  }
  static Json write(double value) { return value; }
};

template <>
struct Codec<std::string> {
  static constexpr Shape shape = Shape::text;
  static std::string type(const Rule& rule) {
    if (rule.device) return "cpu, cuda or cuda:N";
    return rule.choices.empty() ? "text" : choices_text(rule);
  }
  static void read(const Json& json, std::string& out, const Rule& rule, const std::string& path, Faults& faults) {
    if (!json.is_string()) return wrong_type(json, type(rule), path, faults);
    const auto& text = json.get_ref<const std::string&>();
    if (text.find('\0') != std::string::npos) return faults.add(path, "holds a zero byte");
    if (rule.device && !is_device(text)) return wrong_type(json, type(rule), path, faults);
    if (rule.choices.empty()) {
      out = text;
      return;
    }
    const auto found = std::ranges::find_if(rule.choices, [&](std::string_view choice) {
      return rule.any_case ? lower(choice) == lower(text) : choice == text;
    });
    if (found == rule.choices.end()) return wrong_type(json, type(rule), path, faults);
    out = *found;
  }
  static Json write(const std::string& value) { return value; }

 private:
  static bool is_device(std::string_view text) {
    if (text == "cpu" || text == "cuda") return true;
    return text.starts_with("cuda:") && text.size() > 5 && text.size() < 9 &&
           text.find_first_not_of("0123456789", 5) == std::string_view::npos;
  }
};

template <>
struct Codec<LossScale> {
  static constexpr Shape shape = Shape::number;
  static std::string type(const Rule&) { return "dynamic or a number above 0"; }
  static void read(const Json& json, LossScale& out, const Rule& rule, const std::string& path, Faults& faults) {
    double value = 0.0;
    if (json.is_string() && lower(json.get_ref<const std::string&>()) == "dynamic")
      out = {};
    else if ((json.is_number() && (value = json.get<double>()) > 0) ||
             (json.is_string() && parse_number(json.get_ref<const std::string&>(), value) && value > 0))
      out = {.dynamic = false, .value = value};
    else
      wrong_type(json, type(rule), path, faults);
  }
  static Json write(const LossScale& value) { return value.dynamic ? Json("dynamic") : Json(value.value); }
};

template <>
struct Codec<ModelStep> {
  static constexpr Shape shape = Shape::number;
  static std::string type(const Rule&) { return "a step, best, or -1 for the newest"; }
  static void read(const Json& json, ModelStep& out, const Rule& rule, const std::string& path, Faults& faults) {
    if (json == "best")
      out = {.best = true};
    else if (json.is_number_integer() && json >= -1 && json <= std::int64_t{1} << 62)
      out = {.step = json.get<std::int64_t>()};
    else
      wrong_type(json, type(rule), path, faults);
  }
  static Json write(const ModelStep& value) { return value.best ? Json("best") : Json(value.step); }
};

template <class S>
concept Tabled = requires {
  keys<S>();
};

template <Tabled S>
struct Codec<S> {
  static constexpr Shape shape = Shape::json;
  static std::string type(const Rule&) { return "an object"; }
  static void read(const Json& json, S& out, const Rule&, const std::string& path, Faults& faults) {
    out = S{};
    read_object(json, out, path, faults);
  }
  static Json write(const S& value) { return write_object(value); }
};

template <class T>
struct Codec<std::vector<T>> {
  static constexpr Shape shape = Codec<T>::shape == Shape::json ? Shape::json : Shape::list;
  static std::string type(const Rule& rule) {
    const auto each = Codec<T>::type(rule);
    if (rule.least == rule.most) return "a list of " + std::to_string(rule.least) + ", each " + each;
    return "a list, each " + each;
  }
  static void read(const Json& json, std::vector<T>& out, const Rule& rule, const std::string& path, Faults& faults) {
    if (!json.is_array() || json.size() < rule.least || json.size() > rule.most)
      return wrong_type(json, type(rule), path, faults);
    out.assign(json.size(), T{});
    for (std::size_t i = 0; i < json.size(); ++i)
      Codec<T>::read(json[i], out[i], rule, path + "[" + std::to_string(i) + "]", faults);
  }
  static Json write(const std::vector<T>& values) {
    auto json = Json::array();
    for (const auto& value : values) json.push_back(Codec<T>::write(value));
    return json;
  }
};

template <>
struct Codec<ModelSource> {
  static constexpr Shape shape = Shape::text_or_json;
  static std::string type(const Rule&) { return "a path or an object"; }
  static void read(const Json& json, ModelSource& out, const Rule& rule, const std::string& path, Faults& faults) {
    if (json.is_string())
      out = json.get<std::string>();
    else if (json.is_object())
      Codec<ModelConfig>::read(json, out.emplace<ModelConfig>(), rule, path, faults);
    else
      wrong_type(json, type(rule), path, faults);
  }
  static Json write(const ModelSource& value) {
    if (const auto* path = std::get_if<std::string>(&value)) return *path;
    if (const auto* model = std::get_if<ModelConfig>(&value)) return write_object(*model);
    return nullptr;
  }
};

/// `keep_batchnorm_fp32` takes apex's "True" and "False" as well.
template <>
struct Codec<std::optional<bool>> {
  static constexpr Shape shape = Shape::boolean;
  static std::string type(const Rule&) { return "true or false"; }
  static void read(const Json& json, std::optional<bool>& out, const Rule& rule, const std::string& path,
                   Faults& faults) {
    if (json.is_boolean())
      out = json.get<bool>();
    else if (json.is_string() && (json == "True" || json == "False"))
      out = json == "True";
    else
      wrong_type(json, type(rule), path, faults);
  }
  static Json write(const std::optional<bool>& value) { return value ? Json(*value) : Json(nullptr); }
};

template <class T>
struct Codec<std::optional<T>> {
  static constexpr Shape shape = Codec<T>::shape;
  static std::string type(const Rule& rule) { return Codec<T>::type(rule); }
  static void read(const Json& json, std::optional<T>& out, const Rule& rule, const std::string& path, Faults& faults) {
    Codec<T>::read(json, out.emplace(), rule, path, faults);
  }
  static Json write(const std::optional<T>& value) { return value ? Codec<T>::write(*value) : Json(nullptr); }
};

template <class T>
inline constexpr bool can_be_null = false;
template <class T>
inline constexpr bool can_be_null<std::optional<T>> = true;
template <>
inline constexpr bool can_be_null<ModelSource> = true;
template <class T>
inline constexpr bool can_be_null<std::vector<T>> = true;  // the original writes null for an empty list

/// The text that a setting holds, or nullptr.
template <class T>
std::string* text_in(T& value) {
  if constexpr (std::is_same_v<T, std::string>)
    return &value;
  else if constexpr (std::is_same_v<T, std::optional<std::string>>)
    return value ? &*value : nullptr;
  else if constexpr (std::is_same_v<T, ModelSource>)
    return std::get_if<std::string>(&value);
  else
    return nullptr;
}

/// A row of the table; type, shape, default, reading and writing follow from the member.
template <class S, class T>
Key<S> make_key(T S::*member, std::string_view name, std::string_view section, std::string_view help, Rule rule = {},
                std::string_view fallback = {}, PathKind path = PathKind::none) {
  Key<S> key;
  key.name = name;
  key.section = section;
  key.help = help;
  key.fallback = fallback;
  key.shape = Codec<T>::shape;
  key.nullable = can_be_null<T> && rule.least == 0;
  key.path = path;
  const bool nullable = key.nullable;
  key.read = [=](const Json& json, S& out, const std::string& at, Faults& faults) {
    if (json.is_null() && nullable)
      out.*member = T{};
    else
      Codec<T>::read(json, out.*member, rule, at, faults);
  };
  key.write = [=](const S& value) { return Codec<T>::write(value.*member); };
  key.type = [=] { return Codec<T>::type(rule); };
  key.reset = [=](S& value, const S& defaults) { value.*member = defaults.*member; };
  key.text = [=](S& value) { return text_in(value.*member); };
  return key;
}

}  // namespace clipbert::config::detail
