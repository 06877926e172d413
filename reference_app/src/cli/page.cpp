#include "cli/page.hpp"

#include "cli/picture.hpp"
#include "cli/table.hpp"

namespace clipbert::cli {
namespace {

constexpr const char* style = R"(
:root { color-scheme: light dark; --line: #8884; --dim: #777; }
body { font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 72rem; padding: 0 1rem; }
h1 { font-size: 1.4rem; margin: 0; } p.note { color: var(--dim); margin: .2rem 0 2rem; }
h2 { font-size: 1.1rem; border-bottom: 1px solid var(--line); padding-bottom: .3rem; }
ol { list-style: none; padding: 0; display: grid; grid-template-columns: repeat(auto-fill, minmax(11rem, 1fr)); gap: 1rem; }
figure { margin: 0; } img, .none { width: 100%; aspect-ratio: 4/3; object-fit: contain; background: #0002; border-radius: 6px; display: block; }
figcaption { font-size: .9rem; overflow-wrap: anywhere; } .bar { height: 4px; background: #0002; border-radius: 2px; }
.bar i { display: block; height: 100%; background: #2a7de1; border-radius: 2px; } small { color: var(--dim); }
)";

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string figure(const Hit& hit, std::size_t rank) {
  const std::string name = escaped(hit.name);
  std::string out = "<li><figure>";
  out += hit.thumbnail.empty()
             ? "<div class=\"none\"></div>"
             : "<img alt=\"" + name + "\" src=\"data:image/jpeg;base64," + base64(hit.thumbnail) + "\">";
  out += "<div class=\"bar\"><i style=\"width:" + fixed(100 * hit.score, 1) + "%\"></i></div>";
  out += "<figcaption title=\"" + escaped(hit.path) + "\">" + std::to_string(rank) + ". " + name + "<br><small>" +
         fixed(hit.score, 4) + "</small></figcaption></figure></li>\n";
  return out;
}

}  // namespace

std::string result_page(const std::vector<Answer>& answers, const std::string& note) {
  std::string out =
      "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n<title>Video search</title>\n<style>";
  out += style;
  out += "</style>\n<h1>Video search</h1>\n<p class=\"note\">" + escaped(note) + "</p>\n";
  for (const auto& answer : answers) {
    out += "<section><h2>" + escaped(answer.query) + "</h2>\n<ol>\n";
    for (std::size_t i = 0; i < answer.hits.size(); ++i) out += figure(answer.hits[i], i + 1);
    out += "</ol></section>\n";
  }
  return out + "</html>\n";
}

}  // namespace clipbert::cli
