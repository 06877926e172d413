#!/usr/bin/env bash
# The whole job on a fresh machine: installs what is missing, builds, makes a small set of real H.264 videos, trains ClipBERT
# in mixed precision and in fp32, evaluates both on unseen videos, searches by text, and shows the table.
#   bash scripts/demo.sh              everything into demo/; a second run starts from what is there
#   bash scripts/demo.sh --seeds 3    besides, trains other seeds at both levels and shows the spread (about 6 minutes a seed)
#   bash scripts/demo.sh --fresh      removes demo/ first
set -euo pipefail
cd "$(dirname "$0")/.."

seeds=1
while [ $# -gt 0 ]; do
  case "$1" in
    --seeds) seeds=${2:?--seeds needs a number}; shift 2 ;;
    --fresh) rm -rf demo; shift ;;
    *) echo "demo.sh: unknown argument '$1'; usage: bash scripts/demo.sh [--seeds N] [--fresh]" >&2; exit 2 ;;
  esac
done

say() { printf '\n[demo] %s\n' "$*"; }
config=reference_app/configs/demo.json
first_seed=42

say "set-up and build (build/dev)"
bash scripts/setup.sh
cmake --preset dev -DAMP_BUILD_BENCH=OFF >build.log.tmp 2>&1 || { cat build.log.tmp; rm -f build.log.tmp; exit 1; }
rm -f build.log.tmp
cmake --build --preset dev --target clipbert --parallel "$(nproc)"
clipbert=build/dev/reference_app/clipbert

mkdir -p demo
say "videos: real H.264 .mp4 files with captions, in demo/data"
"$clipbert" demo-data --output_dir demo/data

data_flags=(--train_datasets '[{"name":"demo","txt":"demo/data/train.jsonl","img":"demo/data/videos"}]'
            --val_datasets '[{"name":"demo","txt":"demo/data/val.jsonl","img":"demo/data/videos"}]'
            --tokenizer_dir demo/data)

# run_level <level> <seed>: trains into demo/runs/<level>_seed<seed> and evaluates the gallery with 1, 2 and 4 clips.
# Each command says `|| return`: where the caller looks at the status, `set -e` is off.
run_level() {
  local level=$1 seed=$2 out="demo/runs/$1_seed$2"
  if [ ! -f "$out/trained" ]; then
    "$clipbert" train --config "$config" --output_dir "$out" "${data_flags[@]}" --opt_level "$level" --seed "$seed" || return
    touch "$out/trained"
  fi
  for clips in 1 2 4; do
    if [ ! -f "$out/gallery_$clips.json" ]; then
      "$clipbert" eval --output_dir "$out" --inference_model_step best --inference_n_clips "$clips" --json \
        --inference_txt_db demo/data/gallery.jsonl --inference_img_db demo/data/gallery >"$out/gallery_$clips.json.tmp" || return
      mv "$out/gallery_$clips.json.tmp" "$out/gallery_$clips.json"
    fi
  done
}

# The fp32 run in the background is a job with a process group of its own, so that it can be ended as a whole.
fp32=
end_background() {
  [ -z "$fp32" ] || kill -- "-$fp32" 2>/dev/null || true
}
trap end_background EXIT
trap 'exit 130' INT TERM

mkdir -p demo/runs
for ((seed = first_seed; seed < first_seed + seeds; ++seed)); do
  say "training seed $seed on one core each: in mixed precision (O2, bf16, fp32 masters), shown here, and in fp32 (O0), log in demo/runs/O0_seed$seed.txt"
  set -m
  run_level O0 "$seed" >"demo/runs/O0_seed$seed.txt" 2>&1 </dev/null &
  fp32=$!
  set +m
  run_level O2 "$seed"
  echo "[demo] waiting for the fp32 run, which takes longer"
  wait "$fp32" || { tail -n 5 "demo/runs/O0_seed$seed.txt" >&2; exit 1; }
  fp32=
done

if [ ! -f demo/compare.json ]; then
  say "time and memory by kind: both levels in turns on the same machine"
  "$clipbert" compare --config "$config" "${data_flags[@]}" --steps 60 --levels O0,O2 --json >demo/compare.json.tmp
  mv demo/compare.json.tmp demo/compare.json
fi

python3 scripts/demo_summary.py demo --first-seed "$first_seed"

say "searching the gallery by text"
for query in "a large red bar" "a small blue circle" "a small yellow triangle"; do
  "$clipbert" search --output_dir "demo/runs/O2_seed$first_seed" --videos demo/data/gallery --top_k 3 "$query"
done

cat <<END

[demo] where everything lies
  results            demo/summary.json
  checkpoint         demo/runs/O2_seed$first_seed/ckpt/best
  log, metrics       demo/runs/O2_seed$first_seed/log
  TensorBoard        tensorboard --logdir demo/runs        (pip install tensorboard)
  search your own    $clipbert search --output_dir demo/runs/O2_seed$first_seed --videos DIR "a small red circle"
END
