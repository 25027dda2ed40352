"""How long it takes to learn lexicons from pairs of lines and to encode them, and how much memory.

    python benchmarks/loading.py [--pairs 1000000]

The pairs are random words, 10 a side, in one file with tabs. Each level is measured in a process of its own on one
thread. "peak" is the most memory that the process held, "own" what it holds at the end without the mapped files, which
the system may drop and read again, and "before" the peak before it read anything.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

WORDS = 10  # a side
FORMS = 50_000  # different words
TIMES = ("learning, s", "encoding, s", "lines per second", "100 batches, s")
COLUMNS = ("level", "units", *TIMES, "peak, MB", "own, MB", "before, MB")


def main() -> None:
    """Make the file, measure every level and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=1_000_000, help="lines of the file")
    parser.add_argument("--levels", nargs="+", choices=["words", "chars"], default=["words", "chars"])
    parser.add_argument("--measure", nargs=2, metavar=("LEVEL", "PATH"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.measure:
        measure(args.measure[0], Path(args.measure[1]))
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "pairs.tsv")
        write(path, args.pairs)
        print(f"{args.pairs} pairs of {WORDS} words a side, {path.stat().st_size / 1e6:.0f} MB")
        print(f"| {' | '.join(COLUMNS)} |")
        print(f"| {' | '.join('---' for _ in COLUMNS)} |")
        for level in args.levels:
            command = [sys.executable, __file__, "--measure", level, str(path)]
            environment = {**os.environ, "OMP_NUM_THREADS": "1"}
            told = subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout
            row = json.loads(told)
            speed = args.pairs / (row["learning"] + row["encoding"])
            times = f"{row['learning']:.1f} | {row['encoding']:.1f} | {speed:.0f} | {row['drawing']:.1f}"
            memory = f"{row['peak']:.0f} | {row['own']:.0f} | {row['before']:.0f}"
            print(f"| {level} | {row['units']} | {times} | {memory} |")


def write(path: Path, pairs: int) -> None:
    """Write random pairs; frequent words are short, as in a language."""
    draw = random.Random(0)
    letters = "abcdefghijklmnopqrstuvwxyzéü"
    forms = ["".join(draw.choices(letters, k=2 + rank.bit_length() // 3)) for rank in range(FORMS)]
    weights = [1 / (1 + rank) for rank in range(FORMS)]
    with path.open("w", encoding="utf-8") as stream:
        for start in range(0, pairs, 1000):
            count = min(1000, pairs - start)
            words = draw.choices(forms, weights, k=2 * WORDS * count)
            sides = [" ".join(words[place : place + WORDS]) for place in range(0, len(words), WORDS)]
            stream.writelines(f"{source}\t{target}\n" for source, target in zip(sides[::2], sides[1::2], strict=True))


def measure(level: str, path: Path) -> None:
    """Learn, encode and take batches; print what it took as JSON."""
    from searnn.tasks import Pairs

    before, began = peak(), time.perf_counter()
    task = Pairs([path], [path], level=level, max_length=1000)
    learned = time.perf_counter()
    batches = task.train(64, seed=0)
    encoded = time.perf_counter()
    for step in range(0, batches.steps_per_epoch, max(1, batches.steps_per_epoch // 100)):
        batches.batch(step)
    drawn = time.perf_counter()
    row = {"units": task.source.size, "learning": learned - began, "encoding": encoded - learned}
    print(json.dumps({**row, "drawing": drawn - encoded, "peak": peak(), "own": own(), "before": before}))


def peak() -> float:
    """The most memory that this process held so far, in MB."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6


def own() -> float:
    """The memory that this process holds now and that no file backs, in MB; only Linux tells."""
    status = Path("/proc/self/status")
    lines = status.read_text().splitlines() if status.exists() else []
    return next((int(line.split()[1]) / 1e3 for line in lines if line.startswith("RssAnon")), math.nan)


if __name__ == "__main__":
    main()
