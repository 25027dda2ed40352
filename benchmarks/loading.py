"""How long it takes to learn lexicons from pairs of lines and to encode them, and how much memory.

    python benchmarks/loading.py [--pairs 1000000]

The pairs are random words, 10 a side, in one file with tabs. Each level is measured in a process of its own on one
thread; its memory is the peak of that process, and beside it what the process held before it read anything.
"""

from __future__ import annotations

import argparse
import json
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


def main() -> None:
    """Make the file, measure every level and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=1_000_000, help="lines of the file")
    parser.add_argument("--measure", nargs=2, metavar=("LEVEL", "PATH"), help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.measure:
        measure(args.measure[0], Path(args.measure[1]))
        return
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "pairs.tsv")
        write(path, args.pairs)
        print(f"{args.pairs} pairs of {WORDS} words a side, {path.stat().st_size / 1e6:.0f} MB")
        print("| level | units | learning, s | encoding, s | lines per second | peak, MB | before reading, MB |")
        print("| --- | --- | --- | --- | --- | --- | --- |")
        for level in ("words", "chars"):
            command = [sys.executable, __file__, "--measure", level, str(path)]
            environment = {**os.environ, "OMP_NUM_THREADS": "1"}
            told = subprocess.run(command, check=True, capture_output=True, text=True, env=environment).stdout
            row = json.loads(told)
            speed = args.pairs / (row["learning"] + row["encoding"])
            times = f"{row['learning']:.1f} | {row['encoding']:.1f} | {speed:.0f}"
            print(f"| {level} | {row['units']} | {times} | {row['peak']:.0f} | {row['before']:.0f} |")


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
    """Learn and encode; print what it took as JSON."""
    from searnn.tasks.corpus import encode_pairs, learn_lexicons
    from searnn.tasks.lines import BadLines, Files, read_pairs

    files, before, began = Files((path,)), peak(), time.perf_counter()
    source, target = learn_lexicons(lambda: read_pairs(files, BadLines(skip=False)), (level, level))
    learned = time.perf_counter()
    bad = BadLines(skip=False)
    encode_pairs(read_pairs(files, bad), source, target, bad=bad, where=path, max_length=1000)
    encoded = time.perf_counter()
    row = {"units": source.size, "learning": learned - began, "encoding": encoded - learned}
    print(json.dumps({**row, "peak": peak(), "before": before}))


def peak() -> float:
    """The most memory that this process held so far, in MB."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 1e6


if __name__ == "__main__":
    main()
