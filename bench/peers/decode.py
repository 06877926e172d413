"""Frames of a 10 s clip: clipbert's reader beside decord and PyAV, in one interleaved run on one thread each.

  python bench/peers/decode.py --program build/release/bench/decode_peer [--clip FILE] [--json FILE]

Needs PyPI av, decord and numpy. Each contender opens the clip anew and hands out the same 16 frames, spread evenly, as
8-bit RGB of the stored size ("stored"), then of the model's size ("fitted": decord and PyAV scale to 448 x 336 bytes, ours
makes the padded, normalised floats of the model's input). Without --clip PyAV makes one: 320x240, 25 frames a second, H.264
of x264's medium preset with B-frames, a test pattern with noise. Prints medians of wall and processor time and the ratio to ours.
"""
import argparse
import fractions
import json
import os
import statistics
import subprocess
import tempfile
import time

import av
import decord
import numpy as np


def make_clip(path, seconds=10, rate=25):
    graph = av.filter.Graph()
    source = graph.add("testsrc2", f"size=320x240:rate={rate}:duration={seconds}")
    noise = graph.add("noise", "alls=8:allf=t")
    form = graph.add("format", "yuv420p")
    sink = graph.add("buffersink")
    source.link_to(noise)
    noise.link_to(form)
    form.link_to(sink)
    graph.configure()
    with av.open(path, "w") as out:
        stream = out.add_stream("libx264", rate=rate, options={"preset": "medium", "crf": "23"})
        stream.width, stream.height, stream.pix_fmt = 320, 240, "yuv420p"
        for number in range(seconds * rate):
            frame = graph.pull()
            frame.pict_type = 0  # none: the pattern says I for each, which x264 would obey
            frame.pts, frame.time_base = number, fractions.Fraction(1, rate)
            out.mux(stream.encode(frame))
        out.mux(stream.encode())


class Ours:
    """Our bench program, waiting for work."""

    def __init__(self, program):
        self.process = subprocess.Popen([program], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
        self.answer("ready")

    def answer(self, word):
        words = self.process.stdout.readline().split()
        if words[:1] != [word]:
            raise SystemExit(f"decode.py: the bench program said {words!r}, expected {word!r}")
        return words[1:]

    def run(self, form, clip, indices):
        self.process.stdin.write(" ".join([form, clip, *map(str, indices)]) + "\n")
        return float(self.answer("done")[0])


def decord_run(form, clip, indices):
    size = {"width": 448, "height": 336} if form == "fitted" else {}
    return decord.VideoReader(clip, num_threads=1, **size).get_batch(indices).asnumpy()


def pyav_run(form, clip, indices):
    size = {"width": 448, "height": 336} if form == "fitted" else {}
    wanted, got = set(indices), []
    with av.open(clip) as container:
        stream = container.streams.video[0]
        stream.thread_type, stream.codec_context.thread_count = "NONE", 1
        for number, frame in enumerate(container.decode(stream)):
            if number in wanted:
                got.append(frame.reformat(format="rgb24", **size).to_ndarray())
                if len(got) == len(wanted):
                    break
    return np.stack(got)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True)
    parser.add_argument("--clip")
    parser.add_argument("--frames", type=int, default=16)
    parser.add_argument("--reps", type=int, default=21)
    parser.add_argument("--json", help="write the rows to this file, one object a line")
    arguments = parser.parse_args()
    folder = tempfile.TemporaryDirectory()
    clip = arguments.clip
    if not clip:
        clip = os.path.join(folder.name, "clip.mp4")
        make_clip(clip)
    count = len(decord.VideoReader(clip, num_threads=1))
    indices = [int(count * (i + 0.5) / arguments.frames) for i in range(arguments.frames)]

    ours = Ours(arguments.program)
    contenders = {"clipbert": ours.run, "decord": decord_run, "pyav": pyav_run}
    wall, processor = {}, {}
    for rep in range(arguments.reps + 1):
        for form in ["stored", "fitted"]:
            for name, run in contenders.items():
                began, used = time.perf_counter(), time.process_time()
                result = run(form, clip, indices)
                took, used = time.perf_counter() - began, time.process_time() - used
                if rep > 0:  # the first round warms the caches
                    wall.setdefault((form, name), []).append(took)
                    processor.setdefault((form, name), []).append(result if name == "clipbert" else used)

    print(f"{arguments.frames} of {count} frames, one thread each, medians of {arguments.reps} interleaved repetitions")
    rows = []
    for form, name in wall:
        row = {"form": form, "name": name, "wall": statistics.median(wall[form, name]), "cpu": statistics.median(processor[form, name]),
               "ratio": statistics.median(processor[form, name]) / statistics.median(processor[form, "clipbert"])}
        rows.append(row)
        print(f"  {form}  {name:9s} {row['wall'] * 1e3:7.1f} ms   processor {row['cpu'] * 1e3:7.1f} ms   {row['ratio']:5.2f} x ours")
    if arguments.json:
        with open(arguments.json, "w", encoding="utf-8") as file:
            file.writelines(json.dumps(row) + "\n" for row in rows)


if __name__ == "__main__":
    main()
