/// One level of a comparison, run by a process of its own (see compare.cpp).
#pragma once
#include <string_view>

#include "cli/frame.hpp"

namespace clipbert::cli {

/// The command that compare starts; no user calls it, so help does not list it.
inline constexpr std::string_view worker_command = "compare-worker";

/// Prepares a training run, says "ready", then does as each line of standard input says: "steps N", "finish".
/// Each is answered by one line of JSON on Child::answer_fd.
int compare_worker(const Words& words);

}  // namespace clipbert::cli
