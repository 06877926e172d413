"""Writes demo/summary.json and prints the demo's table, from the files that clipbert wrote; measures nothing itself.

  python3 scripts/demo_summary.py demo --first-seed 42
"""
import argparse
import json
import pathlib
import statistics

LEVELS = {"O0": "fp32 (O0)", "O2": "mixed (O2, bf16)"}
CLIPS = (1, 2, 4)
DIRECTIONS = {"text2video": "text to video", "video2text": "video to text"}


def metrics_of(run):
    """Recall of the gallery by number of clips, and what the training log says of time and loss."""
    steps = [json.loads(line) for line in (run / "log" / "metrics.jsonl").read_text().splitlines()]
    return {
        "gallery": {clips: json.loads((run / f"gallery_{clips}.json").read_text()) for clips in CLIPS},
        "steps": len(steps),
        "train_seconds": sum(s["step_ms"] + s["data_wait_ms"] for s in steps) / 1000,
        "loss": statistics.fmean(s["loss"] for s in steps[-50:]),
        "skipped": sum(bool(s["skipped"]) for s in steps),
    }


def recall(metrics, direction):
    return {key: metrics[direction][key] for key in ("r1", "r5", "r10", "medianR")}


def summary_of(runs, compare, seed):
    main = runs["O2"][seed]
    best = main["gallery"][CLIPS[-1]]
    levels = {}
    for level in LEVELS:
        measured, run = compare["levels"][level], runs[level][seed]
        levels[level] = {
            "seconds_per_step": measured["seconds_per_step"],
            "bytes": measured["bytes"],
            "loss": run["loss"],
            "train_seconds": run["train_seconds"],
            **{d: recall(run["gallery"][CLIPS[-1]], d) for d in DIRECTIONS},
            "seeds": {s: {d: r["gallery"][CLIPS[-1]][d]["r1"] for d in DIRECTIONS} for s, r in runs[level].items()},
        }
    return {
        "gallery": best["videos"],
        **{d: recall(best, d) for d in DIRECTIONS},
        "steps": main["steps"],
        "train_seconds": main["train_seconds"],
        "clips": {clips: {d: recall(main["gallery"][clips], d) for d in DIRECTIONS} for clips in CLIPS},
        "levels": levels,
    }


def table_of(summary, compare):
    fp32, mixed = (compare["levels"][level] for level in LEVELS)

    def row(name, values, ratio=None):
        return f"  {name:32s}" + "".join(f"{v:>18s}" for v in values) + (f"{ratio:>10s}" if ratio else "")

    lines = [row("", LEVELS.values(), "ratio")]
    for part, name in (("total", "time of a step"), ("forward", "  forward"), ("backward", "  backward"),
                       ("optimizer", "  check, clip, optimizer"), ("data_wait", "  waiting for data")):
        a, b = fp32["seconds_per_step"][part], mixed["seconds_per_step"][part]
        lines.append(row(name, (f"{a * 1e3:.1f} ms", f"{b * 1e3:.1f} ms"), f"{a / b:.2f} x" if part != "data_wait" else None))
    for part in fp32["bytes"]:
        a, b = fp32["bytes"][part], mixed["bytes"][part]
        name = "memory: " + part.replace("_", " ")
        lines.append(row(name, (f"{a / 2**20:.1f} MiB", f"{b / 2**20:.1f} MiB"), f"{a / b:.2f} x" if a and b else None))
    levels = summary["levels"]
    for direction, name in DIRECTIONS.items():
        lines.append(row(f"{name}, R@1", [f"{levels[l][direction]['r1']:.1f} %" for l in LEVELS]))
        lines.append(row(f"{name}, median rank", [f"{levels[l][direction]['medianR']:.1f}" for l in LEVELS]))
    lines.append(row("loss, mean of the last 50 steps", [f"{levels[l]['loss']:.4f}" for l in LEVELS]))
    lines.append("")
    lines.append(f"  sparse clips: R@1 on the gallery of {summary['gallery']} unseen videos, mixed precision")
    for clips, values in summary["clips"].items():
        shown = ", ".join(f"{name} {values[d]['r1']:5.1f} %" for d, name in DIRECTIONS.items())
        lines.append(f"    {clips} clip{'s' if clips > 1 else ' '}   {shown}")
    seeds = {level: levels[level]["seeds"] for level in LEVELS}
    if len(seeds["O2"]) > 1:
        lines.append("")
        lines.append("  spread over seeds: R@1 text to video / video to text")
        for level, name in LEVELS.items():
            shown = ", ".join(f"{v['text2video']:.1f}/{v['video2text']:.1f}" for v in seeds[level].values())
            lines.append(f"    {name:18s} {shown}")
    return "\n".join(lines)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--first-seed", type=int, required=True)
    arguments = parser.parse_args()
    compare = json.loads((arguments.folder / "compare.json").read_text())
    runs = {level: {} for level in LEVELS}
    for level in LEVELS:
        for run in sorted((arguments.folder / "runs").glob(f"{level}_seed*")):
            if (run / "trained").exists():
                runs[level][int(run.name.rpartition("seed")[2])] = metrics_of(run)
    summary = summary_of(runs, compare, arguments.first_seed)
    (arguments.folder / "summary.json").write_text(json.dumps(summary, indent=2) + "\n")
    print("\n" + table_of(summary, compare))


if __name__ == "__main__":
    main()
