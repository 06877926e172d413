/// The result page of a search.
#pragma once
#include <string>
#include <vector>

namespace clipbert::cli {

/// One video found for a query.
struct Hit {
  std::string name;  ///< file name
  std::string path;
  double score = 0;       ///< probability of a match
  std::string thumbnail;  ///< JPEG bytes, may be empty
};

/// A query and what was found, best first.
struct Answer {
  std::string query;
  std::vector<Hit> hits;
};

/// One HTML page that needs no other file: styles and pictures stand in it.
/// note  one line about model and gallery, shown below the title
[[nodiscard]] std::string result_page(const std::vector<Answer>& answers, const std::string& note);

}  // namespace clipbert::cli
