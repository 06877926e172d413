"""Runs our whole O2 step inside the interleaved loop of the PyTorch peer script, so that both see the same machine.

  python bench/peers/interleave.py --peers DIR --program build/release/bench/o2_step_peer --list big --threads 2

DIR holds multi_tensor.py and _common.py, which build the same parameter list in PyTorch and time its chains in turn. Our
program runs as a server: it builds its tensors once, then runs one step for each line that it reads. Prints a table of
medians and ratios, and writes one JSON object a row with --json FILE.
"""
import argparse
import contextlib
import io
import json
import os
import runpy
import subprocess
import sys

SUBJECT = "amp_o2_step_bf16"
PEERS = ["torch_o2_fused_clip_bf16", "torch_o2_foreach_clip_bf16", "torch_scaler_fused_clip_fp32", "ideal_o2_clip_adamw_bf16"]


class Server:
    """Our bench program, waiting for work."""

    def __init__(self, program, which, threads):
        env = dict(os.environ, OMP_WAIT_POLICY="passive", GOMP_SPINCOUNT="0")
        self.process = subprocess.Popen([program, "--list", which, "--threads", str(threads)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True, bufsize=1, env=env)
        self.expect("ready")

    def expect(self, word):
        line = self.process.stdout.readline()
        if not line.startswith(word):
            raise SystemExit(f"interleave.py: the bench program said {line!r}, expected {word!r}")

    def step(self):
        self.process.stdin.write("step\n")
        self.expect("done")


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--peers", required=True)
    parser.add_argument("--program", required=True)
    parser.add_argument("--list", choices=["big", "small"], default="big")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--reps", type=int, default=7)
    parser.add_argument("--json", help="write the rows to this file")
    arguments = parser.parse_args()

    sys.path.insert(0, os.path.abspath(arguments.peers))
    import _common

    server = Server(arguments.program, arguments.list, arguments.threads)
    pick = _common.pick
    # The peer repeats each case of the small list in place; its list of cases is complete when it calls pick().
    _common.pick = lambda cases, only: pick(cases, only) + [(SUBJECT, server.step, 0, {})]
    sys.argv = ["multi_tensor.py", "--list", arguments.list, "--threads", str(arguments.threads), "--reps",
                str(arguments.reps), "--no-limit", "--only", ",".join(PEERS)]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        runpy.run_path(os.path.join(arguments.peers, "multi_tensor.py"), run_name="__main__")

    rows = {row["name"]: row for row in map(json.loads, printed.getvalue().splitlines())}
    ours = rows[SUBJECT]["seconds"]
    print(f"{arguments.list} list: {rows[SUBJECT]['tensors']} tensors, {rows[SUBJECT]['elements'] / 1e6:.1f} M elements, "
          f"{arguments.threads} threads, median of {arguments.reps} interleaved repetitions")
    for name, row in rows.items():
        print(f"  {name:34s} {row['seconds'] * 1e3:9.2f} ms   {row['seconds'] / ours:6.2f} x ours")
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            for row in rows.values():
                file.write(json.dumps(dict(row, ratio_to_ours=row["seconds"] / ours)) + "\n")


if __name__ == "__main__":
    main()
