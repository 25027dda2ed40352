"""Your own metric: train on what you are judged by, however it is computed.

    python examples/own_cost.py         # about a minute on two cores

The task is to spell numbers in words, backwards. A word that is off by a little ("six" for "seven") is half as bad as
any other mistake: no public metric says so, but one function does. Maximum likelihood cannot see it; SEARNN is trained
on it. The numbers are easy, so both learn them: what the example shows is how to plug in the function.
"""

from __future__ import annotations

import argparse
import random
from pathlib import Path

import searnn

ONES = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]
PLACE = {word: place for place, word in enumerate(ONES)}


def spelling_error(output: list[str], target: list[str]) -> float:
    """0 is perfect: for each word of the truth, what the output has in its place, and 1 for each word too many."""
    cost = float(max(0, len(output) - len(target)))
    for place, true in enumerate(target):
        said = output[place] if place < len(output) else None
        near = said in PLACE and true in PLACE and abs(PLACE[said] - PLACE[true]) == 1
        cost += 0.0 if said == true else 0.5 if near else 1.0
    return cost


def made_pairs(count: int, seed: int = 0) -> list[tuple[str, str]]:
    """Pairs such as ("4 0 7", "seven zero four"): digits, and their names backwards."""
    draw = random.Random(seed)
    numbers = [draw.choices(range(10), k=draw.randint(2, 5)) for _ in range(count)]
    return [(" ".join(map(str, digits)), " ".join(ONES[digit] for digit in reversed(digits))) for digits in numbers]


def main() -> None:
    """Train by maximum likelihood and by SEARNN on the function above, and judge both by it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--count", type=int, default=1000, help="how many pairs are made [1000]")
    parser.add_argument("--steps", type=int, default=300, help="updates of each run [300]")
    parser.add_argument("--width", type=int, default=64, help="units of the model [64]")
    parser.add_argument("--runs", type=Path, default=Path("runs/own-cost"), help="where the runs go")
    given = parser.parse_args()

    pairs = made_pairs(given.count)
    tenth = len(pairs) // 10
    data = {"test": pairs[:tenth], "valid": pairs[tenth : 2 * tenth], "train": pairs[2 * tenth :]}
    # The words are the tokens. The function decides which model is best (metric), and SEARNN is trained on it (cost).
    settings = {"level": "words", "width": given.width, "batch_size": 32, "metric": spelling_error}
    budget = {"steps": given.steps, "eval_every": max(1, given.steps // 5)}
    methods = {"mle": {"algorithm": "mle"}, "searnn": {"algorithm": "searnn", "cost": spelling_error, "tokens": "all"}}
    for name, method in methods.items():
        run = searnn.train("pairs", run=given.runs / name, **data, **settings, **budget, **method)
        print(f"{name:<8} test cost {run.evaluate('test')['cost']:.3f}")
    print(run.predict(["1 2 3", "9 0"]))


if __name__ == "__main__":
    main()
