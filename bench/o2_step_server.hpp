/// The O2 step as a server for peers/o2_step.py: prints "ready" and the tensors' sizes, runs one step per line that it
/// reads and answers "done".
#pragma once
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

namespace o2_step {

struct server_options {
  std::string list = "big", state;
  int threads = 1;
};
/// --list big|small, --threads N and --state, a form of o2_step::storage.
inline server_options parse(int argc, char** argv) {
  server_options o;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string flag = argv[i];
    if (flag == "--list") o.list = argv[i + 1];
    if (flag == "--state") o.state = argv[i + 1];
    if (flag == "--threads") o.threads = std::atoi(argv[i + 1]);
  }
  if ((o.list != "big" && o.list != "small") || o.threads < 1 || argc % 2 == 0) {
    std::fprintf(stderr, "usage: %s [--list big|small] [--threads N] [--state form]\n", argv[0]);
    std::exit(2);
  }
  return o;
}

template <class Step>
int serve(const std::vector<std::int64_t>& sizes, const Step& step) {
  step();  // makes the moments
  std::cout << "ready";
  for (const std::int64_t size : sizes) std::cout << ' ' << size;
  std::cout << std::endl;
  for (std::string line; std::getline(std::cin, line);) {
    step();
    std::cout << "done" << std::endl;
  }
  return 0;
}

}  // namespace o2_step
