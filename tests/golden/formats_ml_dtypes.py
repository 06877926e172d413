"""Writes formats_ml_dtypes.hpp: what ml_dtypes makes of all patterns and of floats around every tie.

python3 tests/golden/formats_ml_dtypes.py > tests/golden/formats_ml_dtypes.hpp   (needs numpy and ml_dtypes)
"""

import ml_dtypes
import numpy as np

LOWER = [0x0000, 0x0001, 0x0FFF, 0x1000, 0x1001, 0x1FFF, 0x2000, 0x2FFF, 0x3000, 0x3001, 0x7FFF, 0x8000, 0x8001,
         0xEFFF, 0xF000, 0xF001, 0xFFFF]  # as structured_floats() of tests/formats/reference.hpp
FORMATS = [("half", np.float16, np.uint16), ("bfloat16", ml_dtypes.bfloat16, np.uint16),
           ("e4m3", ml_dtypes.float8_e4m3fn, np.uint8), ("e5m2", ml_dtypes.float8_e5m2, np.uint8),
           ("e4m3fnuz", ml_dtypes.float8_e4m3fnuz, np.uint8), ("e5m2fnuz", ml_dtypes.float8_e5m2fnuz, np.uint8),
           ("e2m1", ml_dtypes.float4_e2m1fn, np.uint8), ("e8m0", ml_dtypes.float8_e8m0fnu, np.uint8)]
NAN = 0xFFFF


def fnv(words):
    """64-bit FNV-1a over 16-bit words."""
    value = 0xCBF29CE484222325
    for word in words:
        value = ((value ^ int(word)) * 0x100000001B3) & 0xFFFFFFFFFFFFFFFF
    return value


def main():
    np.seterr(all="ignore")
    bits = np.add.outer(np.arange(0x10000, dtype=np.uint32) << 16, np.array(LOWER, dtype=np.uint32)).reshape(-1)
    floats = bits.view(np.float32)
    finite = np.isfinite(floats)
    print("/// What ml_dtypes %s and numpy %s make of all patterns and of floats around every tie; written by" %
          (ml_dtypes.__version__, np.__version__))
    print("/// formats_ml_dtypes.py.\n#pragma once\n#include <cstdint>\n\nnamespace golden {\n")
    print("struct format {\n  const char* name;\n  std::uint64_t widened;   ///< FNV-1a over the fp32 bits of all patterns, "
          "16 bits at a time, NaN as 0x7fc0, 0\n  std::uint64_t narrowed;  ///< FNV-1a over the bits of all finite "
          "structured floats, NaN as 0xffff\n};")
    print("inline constexpr format formats[] = {")
    for name, dtype, word in FORMATS:
        count = 16 if name == "e2m1" else 256 if word == np.uint8 else 65536
        patterns = np.arange(count, dtype=word).view(dtype)
        wide = patterns.astype(np.float32)
        wide_bits = np.where(np.isnan(wide), np.uint32(0x7FC00000), wide.view(np.uint32))
        narrow = floats[finite]
        if name == "e8m0":  # positive, and not subnormal: ml_dtypes rounds those otherwise
            narrow = narrow[(narrow >= 2.0**-126)]
        low = narrow.astype(dtype)
        codes = low.view(word).astype(np.uint32)
        codes = np.where(np.isnan(low.astype(np.float32)), NAN, codes)
        halves = np.stack([wide_bits >> 16, wide_bits & 0xFFFF], axis=1).reshape(-1)
        print('    {"%s", 0x%016xu, 0x%016xu},' % (name, fnv(halves), fnv(codes)))
    print("};")
    print("\n}  // namespace golden")


main()
