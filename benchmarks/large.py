"""Long outputs and a large vocabulary: processor time of an update, and memory.

    python benchmarks/large.py [--steps 5]

Random pairs: lines of 500 letters, and lines of 10 words out of 100,000. The search costs 10 cells with 10 candidates
each, by the reference's roll-out: what the model's takes depends on where it ends, and this one is hardly trained. Each
line of the table is measured in a process of its own on one thread; its updates are as many as `--steps` after the
first, which compiles, and the time is their median.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

from loading import peak

SHAPES = {"500 letters": ("chars", 500, 26), "10 of 100,000 words": ("words", 10, 100_000)}  # level, units, kinds
METHODS: dict[str, dict[str, Any]] = {
    "MLE": {"algorithm": "mle"},
    "SEARNN": {"cells": "uniform", "n_cells": 10, "tokens": "top", "k": 10, "roll_out": "reference"},
}
BATCH, WIDTH = 4, 128
COLUMNS = ("outputs", "method", "ms an update", "peak, MB")


def main() -> None:
    """Make the files, measure every shape by every method and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=5, help="updates that are timed")
    parser.add_argument("--measure", nargs=3, metavar=("SHAPE", "METHOD", "FOLDER"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.measure:
        shape, method, folder = args.measure
        print(json.dumps(measure(shape, method, Path(folder), args.steps)))
        return
    print(f"| {' | '.join(COLUMNS)} |\n| {' | '.join('---' for _ in COLUMNS)} |")
    for shape in SHAPES:
        with tempfile.TemporaryDirectory() as folder:
            write(shape, Path(folder))
            for method in METHODS:
                command = [sys.executable, __file__, "--steps", str(args.steps), "--measure", shape, method, folder]
                environment = {**os.environ, "OMP_NUM_THREADS": "1"}
                told = subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout
                row = json.loads(told.splitlines()[-1])
                print(f"| {shape} | {method} | {row['update']:,.0f} | {row['peak']:,.0f} |")


def write(shape: str, folder: Path) -> None:
    """Pairs to learn from, in which every kind of unit is, and a few to evaluate."""
    level, length, kinds = SHAPES[shape]
    draw = random.Random(0)
    units = [chr(97 + kind) if level == "chars" else f"w{kind}" for kind in range(kinds)]
    gap = "" if level == "chars" else " "

    def lines() -> Iterator[str]:
        draw.shuffle(units)
        for start in range(0, max(kinds, BATCH * length), length):
            line = gap.join(units[(start + place) % kinds] for place in range(length))
            yield f"{line}\t{line}\n"

    (folder / "train.tsv").write_text("".join(lines()))
    (folder / "valid.tsv").write_text("".join(line for _, line in zip(range(BATCH), lines(), strict=False)))


def measure(shape: str, method: str, folder: Path, steps: int) -> dict[str, float]:
    """Train a little; what it took."""
    from searnn.config import build, from_flags, resolve
    from searnn.training import Silent, fit

    level, length, _ = SHAPES[shape]
    settings = {"name": "pairs", "level": level, "max_length": length, "width": WIDTH, "batch_size": BATCH}
    settings |= {name: [str(folder / f"{name}.tsv")] for name in ("train", "valid")}
    settings |= {"steps": steps + 1, "eval_every": steps + 1, "device": "cpu", **METHODS[method]}
    built = build(resolve(from_flags(settings)))
    ended: list[float] = []

    class Watch(Silent):
        def on_step(self, step: int, loss: Any, seconds: float) -> None:
            ended.append(time.process_time())

    fit(built.model, built.algorithm, built.task, built.settings, folder / method, cost=built.cost, watch=Watch())
    updates = [1000 * (end - begun) for begun, end in pairwise(ended)]
    return {"update": statistics.median(updates), "peak": peak()}


if __name__ == "__main__":
    main()
