"""The paired test of a comparison: differences by hand, chance against scipy-free enumeration, and what it needs."""

from __future__ import annotations

import itertools
import random
from pathlib import Path

import pytest

from searnn.reports.comparison import Result
from searnn.reports.paired import PREDICTIONS, compare_pairs


def result(folder: Path, label: str, seed: int, edits: list[int] | None) -> Result:
    """A run, and its predictions where there are any."""
    place = folder / f"{label}-{seed}"
    place.mkdir(parents=True)
    if edits is not None:
        rows = [f'a\t"b\tc\t{count}\t{number}\n' for number, count in enumerate(edits, 1)]
        (place / PREDICTIONS).write_text("source\toutput\ttarget\tedits\texample\n" + "".join(rows))
    return Result(label, seed, str(place), 1, 0.5, {"error": 0.5}, 10, 60.0, 0.1, [])


def test_the_difference_is_that_of_each_example(tmp_path: Path) -> None:
    draw = random.Random(0)
    edits = {(label, seed): [draw.randint(0, 3) for _ in range(40)] for label in ("mle", "b") for seed in (0, 1)}
    results = [result(tmp_path, label, seed, own) for (label, seed), own in edits.items()]
    (edited,) = compare_pairs(results, "mle", "per")
    (wrong,) = compare_pairs(results, "mle", "wer")
    pairs = [zip(edits["b", seed], edits["mle", seed], strict=True) for seed in (0, 1)]
    both = [(ours, theirs) for ours, theirs in itertools.chain(*pairs)]
    assert edited.difference == pytest.approx(sum(ours - theirs for ours, theirs in both) / 80)
    assert wrong.difference == pytest.approx(sum((ours > 0) - (theirs > 0) for ours, theirs in both) / 80)
    assert edited.low < edited.difference < edited.high
    assert (edited.what, wrong.what, edited.examples) == ("edits", "wrong", 40)
    assert str(edited).startswith(f"b against mle: {100 * edited.difference:+.3g} (")


def test_luck_is_likely_where_nothing_differs_and_not_where_all_do(tmp_path: Path) -> None:
    same, better = [0, 1] * 20, [1, 2] * 20
    found = [result(tmp_path, "mle", 0, better), result(tmp_path, "same", 0, better), result(tmp_path, "b", 0, same)]
    alike, clear = compare_pairs(found, "mle", "error")
    assert (alike.difference, alike.p) == (0, 1)
    assert clear.difference == clear.low == clear.high == -1
    assert clear.p < 0.01


def test_the_chance_is_near_that_of_all_draws(tmp_path: Path) -> None:
    """Of five examples every draw with replacement can be listed."""
    ours, theirs = [1, 0, 2, 0, 1], [1, 1, 1, 2, 2]
    (found,) = compare_pairs([result(tmp_path, "mle", 0, theirs), result(tmp_path, "b", 0, ours)], "mle", "error")
    means = [sum(ours[n] - theirs[n] for n in rows) for rows in itertools.product(range(5), repeat=5)]
    exact = 2 * min(sum(mean >= 0 for mean in means), sum(mean <= 0 for mean in means)) / len(means)
    assert found.p == pytest.approx(exact, abs=0.05)


def test_without_predictions_of_the_same_examples_there_is_none(tmp_path: Path) -> None:
    plain, none = result(tmp_path, "mle", 0, [1, 2]), result(tmp_path, "none", 0, None)
    short, other = result(tmp_path, "short", 0, [1]), result(tmp_path, "other", 1, [1, 2])
    assert compare_pairs([plain, none, short, other], "mle", "error") == []
