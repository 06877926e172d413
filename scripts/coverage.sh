#!/usr/bin/env bash
# Line coverage of include/amp by the toolkit's tests: builds build/coverage, runs them, prints the table and the figure.
#   bash scripts/coverage.sh [--fail-under PERCENT] [--build FOLDER]
set -euo pipefail
cd "$(dirname "$0")/.."

under=95
build=build/coverage
while [ $# -gt 0 ]; do
  case "$1" in
    --fail-under) under=${2:?--fail-under needs a number}; shift 2 ;;
    --build) build=${2:?--build needs a folder}; shift 2 ;;
    *) echo "coverage.sh: unknown argument '$1'; usage: bash scripts/coverage.sh [--fail-under PERCENT] [--build FOLDER]" >&2; exit 2 ;;
  esac
done
command -v gcovr >/dev/null || { echo "coverage.sh: no gcovr (Debian: gcovr; PyPI: gcovr)" >&2; exit 2; }

cmake --preset coverage -B "$build" >/dev/null
cmake --build "$build" --parallel "$(nproc)"
find "$build" -name '*.gcda' -delete
ctest --test-dir "$build" -L toolkit --output-on-failure -j "$(nproc)"
gcovr --root . --filter include/amp/ --object-directory "$build" --exclude-unreachable-branches --print-summary \
      --fail-under-line "$under" -j "$(nproc)" "$build/tests"
