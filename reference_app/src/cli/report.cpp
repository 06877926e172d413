#include <CLI/CLI.hpp>
#include <cmath>
#include <filesystem>
#include <iostream>
#include <map>
#include <set>
#include <sstream>

#include "cli/flags.hpp"
#include "cli/table.hpp"
#include "config/errors.hpp"
#include "config/load.hpp"
#include "data/utf8.hpp"
#include "io/atomic_file.hpp"
#include "log/chart.hpp"

namespace fs = std::filesystem;

namespace clipbert::cli {
namespace {

using log::html_escaped;
using Curves = std::map<std::string, log::Curve>;

constexpr const char* style = R"(
:root { color-scheme: light dark; }
body { font: 15px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 84rem; padding: 0 1rem; }
h1 { font-size: 1.4rem; margin: 0; } p { color: #777; margin: .2rem 0 1rem; } h2 { font-size: 1.1rem; margin: 2rem 0 .5rem; }
.charts { display: grid; grid-template-columns: repeat(auto-fill, minmax(26rem, 1fr)); gap: 1rem; }
table { border-collapse: collapse; font-size: .9rem; } td, th { padding: .15rem .7rem; text-align: right; border-bottom: 1px solid #8884; }
td:first-child, th:first-child { text-align: left; } .wide { overflow-x: auto; }
)";

/// Curves under one title; `names` are tags and what the chart calls them.
std::string chart(const Curves& curves, const std::string& title,
                  const std::vector<std::pair<std::string, std::string>>& names, bool logarithmic = false) {
  std::vector<log::Line> lines;
  for (const auto& [tag, name] : names) {
    if (const auto found = curves.find(tag); found != curves.end()) lines.push_back({name, found->second});
  }
  return log::svg_chart(title, lines, logarithmic);
}

/// The groups' figures of one kind, by the tags that start with `prefix`.
std::string chart_of_groups(const Curves& curves, const std::string& title, const std::string& prefix,
                            bool logarithmic) {
  std::vector<std::pair<std::string, std::string>> names;
  for (const auto& [tag, curve] : curves) {
    if (tag.starts_with(prefix)) names.emplace_back(tag, tag.substr(prefix.size()));
  }
  return chart(curves, title, names, logarithmic);
}

std::string charts(const Curves& curves) {
  std::string out = "<div class=\"charts\">\n";
  out += chart(curves, "loss",
               {{"train/loss", "each step"}, {"train/loss_smoothed", "smoothed"}, {"valid/loss", "validation"}});
  for (const std::string direction : {"text2video", "video2text"}) {
    const std::string tag = "valid/" + direction;
    out +=
        chart(curves, direction + " recall, %", {{tag + "_r1", "R@1"}, {tag + "_r5", "R@5"}, {tag + "_r10", "R@10"}});
  }
  out += chart(curves, "learning rate", {{"train/lr_transformer", "transformer"}, {"train/lr_cnn", "cnn"}});
  out += chart(curves, "norm of the gradients", {{"train/grad_norm", "before clipping"}}, true);
  out += chart(curves, "loss scale", {{"amp/loss_scale", "scale"}}, true);
  out += chart_of_groups(curves, "spread of the gradients by group", "amp/grad_std/", true);
  out += chart_of_groups(curves, "share of gradients below the format's normal numbers", "amp/grad_underflow/", false);
  out += chart(curves, "milliseconds a step",
               {{"perf/step_ms", "step"},
                {"perf/data_wait_ms", "data wait"},
                {"perf/forward_ms", "forward"},
                {"perf/backward_ms", "backward"},
                {"perf/optimizer_ms", "optimizer"}});
  out += chart(curves, "resident memory, bytes", {{"perf/mem_bytes", "process"}});
  return out + "</div>\n";
}

std::string cells(const std::vector<std::string>& texts, const char* kind) {
  std::string out = "<tr>";
  for (const auto& text : texts) out += std::string("<") + kind + ">" + html_escaped(text) + "</" + kind + ">";
  return out + "</tr>\n";
}

/// A row per validation, a column per figure.
std::string validations(const Curves& curves) {
  std::map<std::int64_t, std::map<std::string, double>> rows;
  std::set<std::string> tags;
  for (const auto& [tag, curve] : curves) {
    if (!tag.starts_with("valid/")) continue;
    for (const auto& [step, value] : curve) rows[step][tag] = value;
    tags.insert(tag);
  }
  if (rows.empty()) return "<p>No validation has been done.</p>\n";
  std::vector<std::string> head{"step"};
  for (const auto& tag : tags) head.push_back(tag.substr(6));
  std::string out = "<div class=\"wide\"><table>\n" + cells(head, "th");
  for (const auto& [step, values] : rows) {
    std::vector<std::string> row{std::to_string(step)};
    for (const auto& tag : tags)
      row.push_back(values.contains(tag) ? number(std::round(values.at(tag) * 1e4) / 1e4) : "");
    out += cells(row, "td");
  }
  return out + "</table></div>\n";
}

std::string settings_table(const fs::path& file) {
  std::string out = "<table>\n";
  const auto document = config::read_json(file);
  for (const auto& [key, value] : document.root.items())
    out += cells({key, value.dump(-1, ' ', false, config::Json::error_handler_t::replace)}, "td");
  return out + "</table>\n";
}

std::string warnings(const fs::path& file) {
  std::istringstream in(fs::exists(file) ? data::read_text(file) : std::string());
  std::string out;
  for (std::string line; std::getline(in, line);) {
    if (line.find("warning: ") != std::string::npos) out += "<li>" + html_escaped(line) + "</li>\n";
  }
  return out.empty() ? "<p>None.</p>\n" : "<ul>\n" + out + "</ul>\n";
}

std::string page(const fs::path& output_dir, const Curves& curves) {
  const fs::path log_folder = output_dir / "log";
  const auto loss = curves.find("train/loss_smoothed");
  std::string note = output_dir.string();
  if (loss != curves.end())
    note += ": " + std::to_string(loss->second.back().first) + " steps, smoothed loss " +
            number(std::round(loss->second.back().second * 1e4) / 1e4);
  std::string out =
      "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" "
      "content=\"width=device-width, initial-scale=1\">\n<title>Training report</title>\n<style>";
  out += style;
  out += "</style>\n<h1>Training report</h1>\n<p>" + html_escaped(note) + "</p>\n" + charts(curves);
  out += "<h2>Validations</h2>\n" + validations(curves);
  out += "<h2>Warnings</h2>\n" + warnings(log_folder / "log.txt");
  out += "<h2>Settings</h2>\n" + settings_table(log_folder / "args.json");
  return out + "</html>\n";
}

}  // namespace

int report(const Words& words) {
  CLI::App app("Writes one self-contained page from the logs of a run: curves, validations, warnings, settings",
               "report");
  std::string folder;
  app.add_option("--output_dir", folder, "folder of the run; the page is its report.html")
      ->required()
      ->type_name("FOLDER");
  if (!parse_flags(app, words)) return done;
  const fs::path output_dir = folder, log_folder = output_dir / "log";
  if (!fs::exists(log_folder / "args.json"))
    throw usage_error("report: " + folder + " holds no run (log/args.json); give the output_dir of a training");
  std::vector<std::string> bad;
  const auto curves = log::read_curves(log_folder, &bad);
  for (const auto& line : bad) std::cerr << "warning: " << line << '\n';
  if (curves.empty()) throw content_error("report: " + log_folder.string() + " holds no curve yet; train first");
  io::write_atomically(output_dir / "report.html", page(output_dir, curves));
  std::cout << (output_dir / "report.html").string() << '\n';
  return done;
}

}  // namespace clipbert::cli
