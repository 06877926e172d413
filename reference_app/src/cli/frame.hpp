/// The frame of the program: finds the command, runs it, turns what it throws into one line and an exit code.
#pragma once
#include <string>
#include <vector>

namespace clipbert::cli {

using Words = std::vector<std::string>;

/// What the program ends with.
enum exit_code : int { done = 0, wrong_use = 2, bad_content = 3, diverged = 4, interrupted = 130, other_failure = 1 };

/// Runs the program with the words after its name and returns the exit code; nothing escapes.
int run(const Words& words) noexcept;

/// The commands: each takes the words after its name and returns the exit code.
int train(const Words& words);
int eval(const Words& words);
int search(const Words& words);
int index(const Words& words);
int compare(const Words& words);
int report(const Words& words);
int demo_data(const Words& words);
int convert(const Words& words);
int info(const Words& words);

}  // namespace clipbert::cli
