/// Skipping in words: a test that lacks what it needs says so, and its program returns 77 if nothing failed.
#pragma once
#include <atomic>
#include <iostream>
#include <string_view>

namespace test_support {

inline std::atomic<int> skipped_count{0};

inline void skip(std::string_view reason) {
  ++skipped_count;
  std::cout << "[skipped] " << reason << '\n';
}

}  // namespace test_support
