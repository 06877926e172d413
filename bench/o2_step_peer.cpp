/// The O2 step as a server for peers/interleave.py: builds its tensors, prints "ready", runs one step per line that it
/// reads and answers "done".
///   o2_step_peer --list big|small --threads N [--state form], a form of o2_step::storage
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>

#if defined(AMP_BENCH_OPENMP)
#include <amp/adapters/openmp.hpp>
#endif

#include "o2_step.hpp"

int main(int argc, char** argv) {
  std::string list = "big", state;
  int threads = 1;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string flag = argv[i];
    if (flag == "--list") list = argv[i + 1];
    if (flag == "--state") state = argv[i + 1];
    if (flag == "--threads") threads = std::atoi(argv[i + 1]);
  }
  if ((list != "big" && list != "small") || threads < 1 || argc % 2 == 0) {
    std::fprintf(stderr, "usage: o2_step_peer [--list big|small] [--threads N] [--state form]\n");
    return 2;
  }
  amp::exec::any executor = amp::exec::vectorized{};
#if defined(AMP_BENCH_OPENMP)
  if (threads > 1) executor = amp::exec::openmp{.threads = threads};
#else
  if (threads > 1) executor = amp::exec::threads(threads);
#endif
  o2_step::Job job(list == "big" ? o2_step::big() : o2_step::small(), std::move(executor), o2_step::storage(state));
  job.step();  // makes the moments
  std::cout << "ready" << std::endl;
  for (std::string line; std::getline(std::cin, line);) {
    job.step();
    std::cout << "done" << std::endl;
  }
}
