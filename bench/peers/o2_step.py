"""Times our O2 step beside PyTorch's chains and a plain loop, all in turn in one loop, so that all see the same machine.

  python bench/peers/o2_step.py --programs build/release/bench --list big --threads 2 [--reps 7] [--json FILE]

The programs o2_step_peer (ours) and o2_step_plain (a one-pass C++ loop) run as servers: each builds its tensors once,
then makes a step for each line that it reads. Prints medians and their ratios to ours; --json writes an object a row.
"""
import argparse
import json
import os
import statistics
import subprocess
import time
import warnings

warnings.filterwarnings("ignore")


class Server:
    """One of our bench programs, waiting for work."""

    def __init__(self, program, which, threads):
        env = dict(os.environ, OMP_WAIT_POLICY="passive", GOMP_SPINCOUNT="0")
        self.process = subprocess.Popen([program, "--list", which, "--threads", str(threads)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True, bufsize=1, env=env)
        self.sizes = [int(word) for word in self.expect("ready").split()]

    def expect(self, word):
        line = self.process.stdout.readline()
        if not line.startswith(word):
            raise SystemExit(f"o2_step.py: the bench program said {line!r}, expected {word!r}")
        return line[len(word):]

    def step(self):
        self.process.stdin.write("step\n")
        self.expect("done")


def torch_cases(sizes, threads):
    """What a user of PyTorch writes for the same work, by name."""
    import torch
    torch.set_num_threads(threads)
    torch.manual_seed(0)
    masters = [torch.nn.Parameter(torch.randn(n) * 0.02) for n in sizes]
    for p in masters:
        p.grad = torch.randn_like(p) * 1e-3
    grads, data = [p.grad for p in masters], [p.data for p in masters]
    low = [p.detach().to(torch.bfloat16) for p in masters]
    low_grads = [g.to(torch.bfloat16) for g in grads]
    found, inverse = torch.zeros(()), torch.ones(())
    options = dict(lr=1e-6, weight_decay=1e-2)
    fused, foreach = torch.optim.AdamW(masters, fused=True, **options), torch.optim.AdamW(masters, foreach=True, **options)
    scaler = torch.amp.GradScaler("cpu", init_scale=1.0, growth_interval=10**9)

    def o2(optimizer):
        def step():
            torch._foreach_copy_(grads, low_grads)
            torch._amp_foreach_non_finite_check_and_unscale_(grads, found, inverse)
            torch.nn.utils.clip_grad_norm_(masters, 1e9, foreach=True)
            optimizer.step()
            torch._foreach_copy_(low, data)
        return step

    def grad_scaler():
        scaler.scale(torch.zeros(()))
        scaler.unscale_(fused)
        torch.nn.utils.clip_grad_norm_(masters, 1e9, foreach=True)
        scaler.step(fused)
        scaler.update()

    return {"fused AdamW, bf16 model": o2(fused), "foreach AdamW, bf16 model": o2(foreach),
            "GradScaler, fused AdamW, fp32 model": grad_scaler}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--programs", required=True, help="the folder of o2_step_peer and o2_step_plain")
    parser.add_argument("--list", choices=["big", "small"], default="big")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--reps", type=int, default=7)
    parser.add_argument("--json", help="write the rows to this file")
    options = parser.parse_args()

    def server(name):
        return Server(os.path.join(options.programs, name), options.list, options.threads)

    ours = server("o2_step_peer")
    cases = {"ours": ours.step, "plain one-pass C++ loop": server("o2_step_plain").step}
    cases.update(torch_cases(ours.sizes, options.threads))
    inner = 1 if options.list == "big" else 5
    times = {name: [] for name in cases}
    for repetition in range(options.reps + 1):  # the first warms up
        for name, step in cases.items():
            start = time.perf_counter()
            for _ in range(inner):
                step()
            if repetition > 0:
                times[name].append((time.perf_counter() - start) / inner)

    median = {name: statistics.median(found) for name, found in times.items()}
    print(f"{options.list} list: {len(ours.sizes)} tensors, {sum(ours.sizes) / 1e6:.1f} M elements, {options.threads} "
          f"threads, median of {options.reps} interleaved repetitions")
    for name, seconds in median.items():
        print(f"  {name:36s} {seconds * 1e3:9.2f} ms   {seconds / median['ours']:6.2f} x ours")
    if options.json:
        with open(options.json, "w", encoding="utf-8") as file:
            for name, seconds in median.items():
                file.write(json.dumps({"name": name, "list": options.list, "threads": options.threads, "seconds": seconds,
                                       "ratio_to_ours": seconds / median["ours"]}) + "\n")


if __name__ == "__main__":
    main()
