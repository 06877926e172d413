#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include "support/skip.hpp"

int main(int argc, char** argv) {
  constexpr int skip_code = 77;  // AMP_TEST_SKIP_CODE in cmake/AmpTest.cmake
  doctest::Context context(argc, argv);
  const int result = context.run();
  if (context.shouldExit() || result != 0) return result;
  return test_support::skipped_count > 0 ? skip_code : 0;
}
