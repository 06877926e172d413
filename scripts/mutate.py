#!/usr/bin/env python3
"""Spot check of the tests: hand-made faults, one at a time, in a copy of include/; the test that is to see each is built
and run against the copy. Prints a table; fails if a fault is not caught. Run by hand: it takes some minutes.

  mutate.py [--jobs N] [--only WORD] [--cxx g++]
"""
import argparse
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# name, header below include/amp, text as it is, text with the fault, tests that are to fail
FAULTS = [
    ("bf16 ties round up instead of to even", "formats/layout.hpp",
     "((1u << (L::cut - 1)) - 1u) + ((bits >> L::cut) & 1u)", "(1u << (L::cut - 1))", "formats/low_float_test"),
    ("a double's tie rounds up instead of to even", "formats/round.hpp",
     "(rest == tie && (kept & 1u) != 0)", "rest == tie", "formats/low_float_test"),
    ("the last element of an odd tail is left out", "apply/scratch.hpp",
     "if (i < n) go(i, simd::part{static_cast<int>(n - i)});", "if (i + 1 < n) go(i, simd::part{static_cast<int>(n - i)});",
     "fn/scale_test"),
    ("a tensor of several chunks loses its last one", "apply/plan.hpp",
     "for (std::int64_t offset = 0; offset < size; offset += chunk) {",
     "for (std::int64_t offset = 0; offset + chunk <= size; offset += chunk) {", "apply/plan_test"),
    ("infinity passes the finite check", "apply/lanes.hpp",
     "check.see(x, 0x7f800000);", "check.see(x, 0x7f800001);", "fn/scale_test"),
    ("the betas are swapped", "fn/adam.hpp",
     "m = f.beta1 * m + f.one_minus_beta1 * g;", "m = f.beta2 * m + f.one_minus_beta2 * g;", "fn/adam_test"),
    ("decoupled decay is not scaled by the rate", "fn/adam.hpp",
     "w = w - lr * (detail::adam_direction(*this, m, v) + decay * w);",
     "w = w - lr * detail::adam_direction(*this, m, v) - decay * w;", "fn/adam_test"),
    ("the scale grows a step late", "scaling/dynamic.hpp",
     "if (++clean < window) return scale;", "if (++clean <= window) return scale;", "scaling/policies_test"),
    ("an overflow does not reset the count of clean steps", "scaling/dynamic.hpp",
     "if (overflow) {\n      clean = 0;", "if (overflow) {", "scaling/policies_test"),
    ("an overflow is applied instead of skipped", "loss_scaler.hpp",
     "++skips_in_a_row_;\n      return Verdict::skip;", "++skips_in_a_row_;\n      return Verdict::apply;", "toolkit/loss_scaler_test"),
    ("large values overflow the norm", "apply/reduce.hpp",
     "sum += op(static_cast<double>(x));", "sum += static_cast<double>(op(x));", "fn/l2norm_test"),
    ("Philox does nine rounds", "core/philox.hpp", "round < 10", "round < 9", "core/philox_test"),
    ("clipping adds its 1e-6 to the limit", "optim/clip.hpp",
     "factor = max_norm / (norm + 1e-6);", "factor = (max_norm + 1e-6) / norm;", "optim/clip_test"),
    ("layer norm's variance is divided by n - 1", "nn/norm_kernels.hpp",
     "const double inverse_count = 1.0 / static_cast<double>(columns);",
     "const double inverse_count = 1.0 / static_cast<double>(columns - 1);", "nn/layer_norm_test"),
]


def check(fault, cxx):
    name, header, old, new, test = fault
    with tempfile.TemporaryDirectory(prefix="amp_mutate_") as work:
        work = Path(work)
        shutil.copytree(ROOT / "include", work / "include")
        path = work / "include/amp" / header
        text = path.read_text()
        if text.count(old) < 1:
            return name, test, "the text to change is not in " + header
        path.write_text(text.replace(old, new, 1))
        command = [cxx, "-std=c++20", "-O1", "-ffp-contract=off", "-Wno-psabi", "-w", "-pthread", f"-I{work / 'include'}",
                   f"-I{ROOT / 'tests'}", str(ROOT / f"tests/{test}.cpp"), str(ROOT / "tests/support/main.cpp"),
                   "-o", str(work / "test")]
        built = subprocess.run(command, capture_output=True, text=True)
        if built.returncode != 0:
            return name, test, "caught by the compiler"
        run = subprocess.run([str(work / "test")], cwd=ROOT, capture_output=True, text=True, timeout=600)
        failed = sum(line.startswith("TEST CASE:") for line in run.stdout.splitlines())
        return name, test, f"caught: {failed} case{'s' if failed != 1 else ''}" if run.returncode not in (0, 77) else "NOT CAUGHT"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", default="", help="faults whose name holds this")
    parser.add_argument("--cxx", default="g++")
    options = parser.parse_args()
    faults = [f for f in FAULTS if options.only in f[0]]
    print("| fault | test | result |\n|---|---|---|", flush=True)
    missed = 0
    with ThreadPoolExecutor(options.jobs) as pool:
        for name, test, result in pool.map(lambda f: check(f, options.cxx), faults):
            missed += not result.startswith("caught")
            print(f"| {name} | {test} | {result} |", flush=True)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
