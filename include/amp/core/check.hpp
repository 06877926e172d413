/// Errors of the toolkit: `error` for a wrong call, with the caller's place.
#pragma once
#include <stdexcept>
#include <string>
#include <string_view>

namespace amp {

/// A place in the caller's source, taken as a default argument: `void f(where at = where::here());`
/// (clang 14 has no std::source_location.)
struct where {
  const char* file;
  int line;

  static constexpr where here(const char* file = __builtin_FILE(), int line = __builtin_LINE()) noexcept {
    return {file, line};
  }
};

/// A wrong call: what is wrong, where (argument, tensor), what to do. Numeric events such as an overflow are no errors.
class error : public std::runtime_error {
 public:
  error(std::string_view message, where at)
      : std::runtime_error("amp: " + std::string(message) + " [" + at.file + ':' + std::to_string(at.line) + ']'),
        at_(at) {}

  [[nodiscard]] where at() const noexcept { return at_; }

 private:
  where at_;
};

/// Throws amp::error unless `ok`. The message is built only when it is needed if `message` is a callable.
template <class Message>
constexpr void expects(bool ok, Message&& message, where at = where::here()) {
  if (ok) [[likely]]
    return;
  if constexpr (requires { std::string_view(message); }) {
    throw error(std::string_view(message), at);
  } else {
    throw error(message(), at);
  }
}

}  // namespace amp
