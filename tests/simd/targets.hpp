/// The targets that this processor runs.
#pragma once
#include <amp/simd/target.hpp>
#include <vector>

namespace test_simd {

inline std::vector<amp::simd::target> targets() {
  using amp::simd::target;
  std::vector<target> all;
  for (const target t : {target::scalar, target::base, target::avx2, target::avx512}) {
    if (amp::simd::supported(t)) all.push_back(t);
  }
  return all;
}

}  // namespace test_simd
