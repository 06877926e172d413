#include "cli/frame.hpp"

#include <c10/util/Exception.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <iostream>
#include <new>
#include <string_view>

#include "cli/flags.hpp"
#include "cli/info.hpp"
#include "cli/worker.hpp"
#include "config/errors.hpp"
#include "train/memory.hpp"

namespace clipbert::cli {
namespace {

struct Command {
  std::string_view name, summary;
  int (*call)(const Words&);
};

constexpr std::array<Command, 9> commands{{
    {"train", "trains a video-text retrieval model, validates, checkpoints and logs", &train},
    {"eval", "scores every caption against every video with a trained model", &eval},
    {"search", "ranks the videos of a folder or an index for each query", &search},
    {"index", "encodes the videos of a folder once, for later searches", &index},
    {"compare", "runs the same steps at several opt levels: time, memory by kind, loss", &compare},
    {"report", "writes a page of curves, validations and settings from a run's logs", &report},
    {"demo-data", "writes a small data set of real H.264 files with captions", &demo_data},
    {"convert", "weights between PyTorch's .pt and .safetensors, both ways", &convert},
    {"info", "versions, CPU features in use, devices, codecs, threads", &info},
}};

void print_help(std::ostream& out) {
  out << "clipbert: trains and uses a video search in mixed precision\n\nUsage: clipbert COMMAND [flags]\n\n";
  for (const auto& command : commands) {
    out << "  " << command.name << std::string(12 - command.name.size(), ' ') << command.summary << '\n';
  }
  out << "  --version   prints the versions of the program and of what it is built on\n\n"
         "`clipbert COMMAND --help` lists the flags with defaults and units.\n"
         "Exit codes: 0 done, 1 another failure, 2 wrong use, 3 content that cannot be used, 4 training diverged, 130 "
         "interrupted with "
         "the "
         "state saved.\n";
}

int dispatch(const Words& words) {
  if (words.empty()) {
    print_help(std::cerr);
    return wrong_use;
  }
  std::string name = words.front();
  if (name == "--help" || name == "-h" || name == "help") return print_help(std::cout), done;
  if (name == "--version" || name == "-V") return print_version(std::cout), done;
  std::replace(name.begin(), name.end(), '_', '-');
  for (const auto& command : commands) {
    if (command.name == name) return command.call({words.begin() + 1, words.end()});
  }
  if (name == worker_command) return compare_worker({words.begin() + 1, words.end()});
  std::vector<std::string> names;
  for (const auto& command : commands) names.emplace_back(command.name);
  throw usage_error("unknown command '" + words.front() + "'" + did_you_mean(name, names) +
                    "; `clipbert --help` lists the commands");
}

constexpr std::string_view out_of_memory =
    "out of memory; smaller batches, fewer clips or frames, or a smaller max_img_size need less";

/// Errors are one line: what comes after it in a message (LibTorch adds a stack trace) is for debuggers.
int fail(int code, std::string_view message) {
  message = message.substr(0, message.find('\n'));
  std::cout.flush();
  std::cerr << "clipbert: " << message << std::endl;
  return code;
}

}  // namespace

int run(const Words& words) noexcept {
  try {
    train::keep_freed_memory();
    std::signal(SIGXFSZ, SIG_IGN);  // a file that grows over a limit is an error of its write, not a crash
    const int code = dispatch(words);
    std::cout.flush();
    if (!std::cout) return fail(other_failure, "standard output cannot be written to; give it a place with free space");
    return code;
  } catch (const usage_error& e) {
    return fail(wrong_use, e.what());
  } catch (const content_error& e) {
    return fail(bad_content, e.what());
  } catch (const diverged_error& e) {
    return fail(diverged, e.what());
  } catch (const std::filesystem::filesystem_error& e) {
    return fail(bad_content, e.path1().string() + (e.path2().empty() ? "" : " -> " + e.path2().string()) + ": " +
                                 e.code().message() + "; check the path, its permissions and the free space");
  } catch (const std::bad_alloc&) {
    return fail(other_failure, out_of_memory);
  } catch (const c10::Error& e) {
    const std::string_view text = e.what_without_backtrace();
    if (text.find("not enough memory") != text.npos || text.find("out of memory") != text.npos) {
      return fail(other_failure, out_of_memory);
    }
    return fail(other_failure, "LibTorch: " + std::string(text));
  } catch (const std::exception& e) {
    return fail(other_failure, e.what());
  } catch (...) {
    return fail(other_failure, "stopped by an exception without a message");
  }
}

}  // namespace clipbert::cli
