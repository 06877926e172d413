#!/usr/bin/env bash
# Sets up, builds build/dev and runs all tests; closes with ctest's summary.
#   bash scripts/test.sh [ctest arguments, e.g. -L fixtures]
# With CI=true a Python that imports torch is installed as well (4 GB); elsewhere the tests that need one are skipped.
set -euo pipefail
cd "$(dirname "$0")/.."
if [ "${CI:-}" = true ]; then
  bash scripts/setup.sh --python
else
  bash scripts/setup.sh
fi
cmake --preset dev
cmake --build --preset dev --parallel "$(nproc)"
exec ctest --preset dev "$@"
