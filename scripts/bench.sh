#!/usr/bin/env bash
# Builds the benches in build/release and runs them.
#   bash scripts/bench.sh                   all Google Benchmark programs; JSON in build/bench
#   bash scripts/bench.sh --only o2_step    the whole O2 step beside PyTorch's chains and a plain loop, in one interleaved run
#   bash scripts/bench.sh --only adam       one program
#   bash scripts/bench.sh --only include    seconds that #include <amp/amp.hpp> adds to a file, beside its standard headers
# PyTorch's Python is .venv-peers, made here with the full wheel set (about 5 GB) when it is first needed, or
# AMP_PEER_PYTHON.
set -euo pipefail
cd "$(dirname "$0")/.."

only=""
reps=7
while [ $# -gt 0 ]; do
  case "$1" in
    --only) only=${2:?--only needs a name}; shift 2 ;;
    --reps) reps=${2:?--reps needs a number}; shift 2 ;;
    *) echo "bench.sh: unknown argument '$1'; usage: bash scripts/bench.sh [--only NAME] [--reps N]" >&2; exit 2 ;;
  esac
done

# CPU seconds of the compiler on an empty file with the umbrella header, and on one with the standard headers that the
# umbrella reaches and <immintrin.h> alone; medians of an interleaved run.
bench_include() {
  local work cxx=${CXX:-g++} i
  work=$(mktemp -d)
  echo '#include <amp/amp.hpp>' >"$work/amp.cpp"
  "$cxx" -std=c++20 -Iinclude -M "$work/amp.cpp" | tr ' ' '\n' | grep '/amp/' | xargs grep -h '^#include <[a-z_]*>' | sort -u >"$work/std.cpp"
  echo '#include <immintrin.h>' >>"$work/std.cpp"
  : >"$work/amp.times"; : >"$work/std.times"
  for ((i = 0; i < reps; ++i)); do
    for name in amp std; do
      TIMEFORMAT='%U %S'
      { time "$cxx" -std=c++20 -Iinclude -fsyntax-only -Wno-psabi "$work/$name.cpp"; } 2>&1 | awk '{print $1 + $2}' >>"$work/$name.times"
    done
  done
  median() { sort -n "$1" | awk '{x[NR] = $1} END {print x[int((NR + 1) / 2)]}'; }
  awk -v a="$(median "$work/amp.times")" -v s="$(median "$work/std.times")" -v c="$cxx" 'BEGIN {
    printf "%s: <amp/amp.hpp> %.2f s, its standard headers and <immintrin.h> %.2f s, ratio %.2f\n", c, a, s, a / s}'
  rm -rf "$work"
}
if [ "$only" = include ]; then
  CXX=g++ bench_include
  if command -v clang++ >/dev/null; then CXX=clang++ bench_include; fi
  exit 0
fi

bash scripts/setup.sh --toolkit
cmake --preset release -DAMP_BUILD_TESTS=OFF -DAMP_BUILD_REFERENCE_APP=OFF >/dev/null
cmake --build --preset release
mkdir -p build/bench

run_with_peer() {
  local python=${AMP_PEER_PYTHON:-.venv-peers/bin/python}
  if [ -z "${AMP_PEER_PYTHON:-}" ] && [ ! -x "$python" ]; then
    echo "[bench] installing PyTorch for the peers into .venv-peers (about 5 GB)"
    python3 -m venv .venv-peers
    .venv-peers/bin/pip install --quiet --disable-pip-version-check torch==2.11.0 numpy
  fi
  for list in big small; do
    for threads in 1 2; do
      "$python" bench/peers/o2_step.py --programs build/release/bench --list "$list" --threads "$threads" --reps "$reps" \
        --json "build/bench/o2_step_${list}_${threads}.json"
    done
  done
}

if [ "$only" = o2_step ]; then
  run_with_peer
  exit 0
fi
found=0
for program in build/release/bench/*_bench; do
  name=$(basename "$program" _bench)
  [ -z "$only" ] || [ "$only" = "$name" ] || continue
  found=1
  echo "== $name"
  "$program" --benchmark_counters_tabular=true --benchmark_out="build/bench/$name.json" --benchmark_out_format=json
done
[ "$found" = 1 ] || { echo "bench.sh: no bench named '$only' in build/release/bench" >&2; exit 2; }
