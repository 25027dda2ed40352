"""How many pairs of an output and a target are judged in a second, beside other libraries on the same pairs.

    python benchmarks/costs.py [--threads 1] [--steps 5]

BLEU and GLEU: 64 true sentences of 25 words of 22,822, each with some outputs. Edit distance and Hamming: 64 lists of
10 letters of 43. Ours take tensors, all pairs at once. The others go pair by pair, on the CPU: NLTK and rapidfuzz on
lists of integers, sacrebleu on text. The slow ones see fewer pairs.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any

import torch
from jaxtyping import Int
from laboratory import execute, flags
from rich.table import Table
from torch import Tensor

from searnn import rng
from searnn.bench import Watch
from searnn.bench.rendering import NONE, make_table, number, span
from searnn.bench.timing import Times, ratio
from searnn.cli.bench import Shown
from searnn.costs import EditDistance, Gleu, Hamming, SentenceBleu
from searnn.interfaces import Cost
from searnn.types import Vocabulary

ROUNDS, WARM_UP = 5, 1
ROWS = 100  # outputs for each of the targets whose cost is taken
EXAMPLES = 64
SLOW = 400  # pairs for libraries that take a hundred microseconds or more for each
WORDS, LETTERS = (Vocabulary(size=size, pad=0, bos=1, eos=2) for size in (22_822, 43))
FLIPPED = {"median": "median", "lower": "upper", "upper": "lower"}  # a speed's quartiles are those of the time
Pairs = list[tuple[list[int], list[int]]]
Work = Callable[[Any], object]


def near_pairs(vocab: Vocabulary, length: int, rows: int) -> tuple[Int[Tensor, "B R T"], Int[Tensor, "B T"]]:
    """Random targets, and outputs of which seven tokens in ten are right."""
    draw = rng.generator(0, "pairs")
    targets = torch.randint(3, vocab.size, (EXAMPLES, length + 1), generator=draw)
    noise = torch.randint(3, vocab.size, (EXAMPLES, rows, length + 1), generator=draw)
    outputs = torch.where(torch.rand(noise.shape, generator=draw) < 0.7, targets.unsqueeze(1), noise)
    outputs[..., -1] = targets[..., -1] = 2
    return outputs, targets


def as_lists(outputs: Int[Tensor, "B R T"], targets: Int[Tensor, "B T"]) -> Pairs:
    """The pairs without EOS, in mixed order, so that the first of them stand for all."""
    truths = targets[:, :-1].tolist()
    pairs = [(row, truth) for truth, rows in zip(truths, outputs[..., :-1].tolist(), strict=True) for row in rows]
    return [pairs[i] for i in torch.randperm(len(pairs), generator=rng.generator(0, "order")).tolist()]


def each(score: Callable[[list[int], list[int]], object], pairs: Pairs, _: Any) -> None:
    """Score pair by pair."""
    for output, target in pairs:
        score(output, target)


class CostSpeed:
    """All costs, ours and others', timed in turn."""

    def __init__(self, device: torch.device, rows: int) -> None:
        self.device, self.times = device, Times()
        self.works: dict[str, Work] = {}
        self.lines: dict[str, tuple[str, str, int]] = {}  # of each piece of work: cost, library, pairs
        sentences, lists = near_pairs(WORDS, 25, rows), near_pairs(LETTERS, 10, rows)
        word_pairs, letter_pairs = as_lists(*sentences), as_lists(*lists)
        ours: dict[str, tuple[Cost, tuple[Tensor, Tensor]]] = {
            "BLEU, 25 words": (SentenceBleu(WORDS), sentences),
            "GLEU, 25 words": (Gleu(WORDS), sentences),
            "edit distance, 10 letters": (EditDistance(LETTERS), lists),
            "Hamming, 10 letters": (Hamming(LETTERS), lists),
        }
        for name, (cost, (outputs, targets)) in ours.items():
            call = partial(cost, outputs.to(device), targets.to(device))
            self._add(name, "searnn", EXAMPLES * rows, lambda _, call=call: call())
            pairs = letter_pairs if "letters" in name else word_pairs
            for library, (work, count) in others(name, pairs).items():
                self._add(name, library, count, work)

    def measure(self, rounds: int, watch: Watch) -> None:
        """Time all in turn."""
        watch.stage("costs", WARM_UP + rounds)
        self.times.take(self.works, [None], rounds, WARM_UP, self.device, watch.advance)

    def report(self) -> list[dict[str, Any]]:
        """A line for each cost and library."""
        lines = []
        for key, (cost, library, pairs) in self.lines.items():
            ms = self.times.summary(key)
            speeds = {new: ratio(1e3 * pairs, ms[old]) for new, old in FLIPPED.items()}
            lines.append({"cost": cost, "library": library, "pairs": pairs, "ms": ms, "pairs_per_second": speeds})
        return lines

    def _add(self, cost: str, library: str, pairs: int, work: Work) -> None:
        self.works[f"{cost}/{library}"], self.lines[f"{cost}/{library}"] = work, (cost, library, pairs)


def others(cost: str, pairs: Pairs) -> dict[str, tuple[Work, int]]:
    """The same cost in other libraries, as far as they are installed: what to call, and for how many pairs."""
    from rapidfuzz.distance import Hamming as FuzzHamming
    from rapidfuzz.distance import Levenshtein

    if cost.startswith("edit"):
        return {"rapidfuzz": (partial(each, Levenshtein.distance, pairs), len(pairs))}
    if cost.startswith("Hamming"):
        return {"rapidfuzz": (partial(each, FuzzHamming.distance, pairs), len(pairs))}
    few = pairs[:SLOW]
    found: dict[str, tuple[Work, int]] = {}
    if cost.startswith("BLEU"):
        found["sacrebleu"] = (partial(each, _sacrebleu(few), few), len(few))
    with suppress(ImportError):
        from nltk.translate.bleu_score import (
            SmoothingFunction,
            sentence_bleu,
        )
        from nltk.translate.gleu_score import (
            sentence_gleu,
        )

        smooth = SmoothingFunction().method2

        def score(output: list[int], target: list[int]) -> object:
            if cost.startswith("BLEU"):
                return sentence_bleu([target], output, smoothing_function=smooth)
            return sentence_gleu([target], output)

        found["NLTK"] = (partial(each, score, few), len(few))
    return found


def _sacrebleu(pairs: Pairs) -> Callable[[list[int], list[int]], object]:
    """Sentence BLEU of texts, which are made beforehand."""
    from sacrebleu.metrics.bleu import BLEU

    logging.getLogger("sacrebleu").setLevel(logging.ERROR)  # it would advise another setting at every pair
    metric = BLEU(smooth_method="add-k", smooth_value=1, tokenize="none", effective_order=False)
    texts = {id(row): " ".join(map(str, row)) for pair in pairs for row in pair}
    return lambda output, target: metric.sentence_score(texts[id(output)], [texts[id(target)]])


def costs_table(lines: Sequence[Mapping[str, Any]]) -> Table:
    """Pairs per second of every cost and library."""
    table = make_table("cost", "library", "pairs", "pairs/s", "quartiles", "us a pair", "x searnn")
    ours: dict[str, float | None] = {}
    for line in lines:
        speed, ms = line["pairs_per_second"], line["ms"]["median"]
        each = None if ms is None else 1e3 * ms / line["pairs"]
        if line["library"] == "searnn":
            ours[line["cost"]] = each
        base = ours.get(line["cost"])
        times = number(each / base) if each and base else NONE
        shown = (str(line["pairs"]), number(speed["median"]), span(speed["lower"], speed["upper"]), number(each), times)
        table.add_row(line["cost"], line["library"], *shown)
    return table


def measure(arguments: argparse.Namespace, device: torch.device, report: dict[str, Any], shown: Shown) -> None:
    """All costs, as far as it is not interrupted, in one table."""
    speed = CostSpeed(device, ROWS)
    try:
        speed.measure(arguments.steps or ROUNDS, shown)
    finally:
        report["lines"] = speed.report()
        shown.show(costs_table(report["lines"]))


def main(words: Sequence[str] | None = None) -> int:
    """The command; returns the exit status."""
    return execute(flags(__doc__), measure, words)


if __name__ == "__main__":
    sys.exit(main())
