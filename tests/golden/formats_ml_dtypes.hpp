/// What ml_dtypes 0.6.0 and numpy 2.4.6 make of all patterns and of floats around every tie; written by
/// formats_ml_dtypes.py.
#pragma once
#include <cstdint>

namespace golden {

struct format {
  const char* name;
  std::uint64_t widened;   ///< FNV-1a over the fp32 bits of all patterns, 16 bits at a time, NaN as 0x7fc0, 0
  std::uint64_t narrowed;  ///< FNV-1a over the bits of all finite structured floats, NaN as 0xffff
};
inline constexpr format formats[] = {
    {"half", 0x4e8365a08f475ba5u, 0xc6f3f63c99b5fbe5u},     {"bfloat16", 0x9e5fef583d0c5f25u, 0xa64c8a2d97d03525u},
    {"e4m3", 0xf76b298ed6bbb665u, 0x5b2761f5568f5f15u},     {"e5m2", 0x7ae897ef9ebd9b25u, 0xe7fc1481e6763425u},
    {"e4m3fnuz", 0x7c222ab893b45565u, 0xe2933e5d1e678215u}, {"e5m2fnuz", 0x8197bca36eb23ee5u, 0x4476ff92b1f74f05u},
    {"e2m1", 0xa923ff134f3b6325u, 0xdf23170ac04c75e5u},     {"e8m0", 0x782473c026fee125u, 0x6d757933b33e3f25u},
};

}  // namespace golden
