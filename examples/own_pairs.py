"""Your own pairs of texts: train by maximum likelihood and by SEARNN, and compare them on the metric.

    python examples/own_pairs.py                      # about a minute on two cores
    python examples/own_pairs.py --pairs mine.tsv     # source TAB target, a pair a line

Without a file the pairs are made here: dates as people write them, and as a computer does. They are clean, and 300
updates are few, so maximum likelihood is ahead on them; docs/results.md has tasks on which it is not.
"""

from __future__ import annotations

import argparse
import random
from pathlib import Path

import searnn

MONTHS = ["January", "February", "March", "April", "May", "June"]
MONTHS += ["July", "August", "September", "October", "November", "December"]


def made_pairs(count: int, seed: int = 0) -> list[tuple[str, str]]:
    """Dates such as ("3 March 1987", "1987-03-03"), written in several ways."""
    draw = random.Random(seed)
    pairs = []
    for _ in range(count):
        year, month, day = draw.randint(1900, 2099), draw.randint(1, 12), draw.randint(1, 28)
        name = MONTHS[month - 1]
        forms = [f"{day} {name} {year}", f"{name} {day}, {year}", f"{name[:3]} {day} {year}", f"{day}.{month}.{year}"]
        pairs.append((draw.choice(forms), f"{year}-{month:02}-{day:02}"))
    return pairs


def read_pairs(path: Path) -> list[tuple[str, str]]:
    """The pairs of a file."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return [(source, target) for source, target in (line.split("\t") for line in lines)]


def main() -> None:
    """Train twice with the same settings and compare."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=Path, help="a file of pairs [made here]")
    parser.add_argument("--count", type=int, default=1200, help="how many are made [1200]")
    parser.add_argument("--steps", type=int, default=300, help="updates of each run [300]")
    parser.add_argument("--width", type=int, default=64, help="units of the model [64]")
    parser.add_argument("--runs", type=Path, default=Path("runs/own-pairs"), help="where the runs go")
    given = parser.parse_args()

    pairs = read_pairs(given.pairs) if given.pairs else made_pairs(given.count)
    tenth = max(1, len(pairs) // 10)
    data = {"test": pairs[:tenth], "valid": pairs[tenth : 2 * tenth], "train": pairs[2 * tenth :]}
    sizes = {"width": given.width, "batch_size": 32, "steps": given.steps, "eval_every": max(1, given.steps // 5)}
    runs = {
        algorithm: searnn.train("pairs", run=given.runs / algorithm, algorithm=algorithm, **data, **sizes)
        for algorithm in ("mle", "searnn")
    }
    for algorithm, run in runs.items():
        measured = run.evaluate("test")
        print(f"{algorithm:<8} test error {measured['error']:.3f}, wrong lines {measured['sequence_error']:.3f}")
    for source, target in data["test"][:3]:
        outputs = {algorithm: run.predict([source])[0] for algorithm, run in runs.items()}
        print(f"{source!r} is {target!r}; {outputs}")


if __name__ == "__main__":
    main()
