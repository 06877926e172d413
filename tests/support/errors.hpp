/// What a refused call says.
#pragma once
#include <amp/core/check.hpp>
#include <string>
#include <string_view>

namespace test_support {

/// The message of the `Error` that `call` throws; empty if it throws none.
template <class Error = amp::error, class Call>
std::string message_of(Call&& call) {
  try {
    call();
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

inline bool has(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

}  // namespace test_support
