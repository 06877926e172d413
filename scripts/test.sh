#!/usr/bin/env bash
# Sets up, builds build/dev and runs all tests; closes with ctest's summary.
#   bash scripts/test.sh [ctest arguments, e.g. -L fixtures]
set -euo pipefail
cd "$(dirname "$0")/.."
bash scripts/setup.sh
cmake --preset dev
cmake --build --preset dev --parallel "$(nproc)"
exec ctest --preset dev "$@"
