/// Our O2 step as a server (o2_step_server.hpp).
#include <string>
#include <utility>

#if defined(AMP_BENCH_OPENMP)
#include <amp/adapters/openmp.hpp>
#endif

#include "o2_step.hpp"
#include "o2_step_server.hpp"

int main(int argc, char** argv) {
  const auto options = o2_step::parse(argc, argv);
  amp::exec::any executor = amp::exec::vectorized{};
#if defined(AMP_BENCH_OPENMP)
  if (options.threads > 1) executor = amp::exec::openmp{.threads = options.threads};
#else
  if (options.threads > 1) executor = amp::exec::threads(options.threads);
#endif
  const auto sizes = options.list == "big" ? o2_step::big() : o2_step::small();
  o2_step::Job job(sizes, std::move(executor), o2_step::storage(options.state));
  return o2_step::serve(sizes, [&] { job.step(); });
}
