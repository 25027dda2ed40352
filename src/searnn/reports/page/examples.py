"""What a page shows of a model's outputs: examples, which tokens it confuses, and where its errors stand."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from searnn.interfaces import Knowledgeable, Task
from searnn.reports.naming import unit
from searnn.reports.outputs import CHANGED, KEPT, Edit, Outputs, Written

SHOWN = 8  # best and worst examples
CONFUSED = 12  # tokens in the table of confusions
LONGEST = 400  # units of an example that are shown
BINS = 12  # of lengths and positions, at most


@dataclass(frozen=True, eq=False)
class _Judged:
    """An example with its edits as the metrics count them."""

    written: Written
    edits: list[Edit]

    @cached_property
    def errors(self) -> int:
        return sum(kind != KEPT for kind, _, _ in self.edits)

    @property
    def length(self) -> int:
        return len(self.written.target)

    @property
    def rate(self) -> float:
        return self.errors / max(1, self.length)

    @property
    def places(self) -> Iterator[tuple[int, str]]:
        """Each token of the truth by its position from 1, with what became of it; extra tokens have none."""
        return enumerate((kind for kind, _, true in self.edits if true is not None), start=1)


def describe(outputs: Outputs, task: Task) -> dict[str, Any]:
    """Everything that the page shows of the outputs, as JSON."""
    unknown = task.knowledge.get("unknown") if isinstance(task, Knowledgeable) else None
    judged = []
    for written in outputs.written:
        edits = written.edits(task.vocab.eos is None)
        # An unknown word of the truth is never right.
        edits = [(CHANGED if true == unknown and kind == KEPT else kind, ours, true) for kind, ours, true in edits]
        judged.append(_Judged(written, edits))
    # The longest of the right ones are the best: a right output of one letter says little.
    order = sorted(judged, key=lambda each: (each.rate, -each.length))
    worst = _different(each for each in sorted(order, key=lambda each: (-each.rate, -each.errors)) if each.errors)
    best = [each for each in _different(order) if each not in worst]
    names = _Names(task)
    return {
        **outputs.summary(),
        "right": sum(not each.errors for each in judged),
        "joint": names.joint,
        "best": [_example(each, names) for each in best],
        "worst": [_example(each, names) for each in worst],
        "confusion": _confusion(judged, names),
        "positions": _by_bins((place, kind != KEPT, 1) for each in judged for place, kind in each.places),
        "lengths": _by_bins((each.length, each.errors, max(1, each.length)) for each in judged),
    }


def _different(order: Iterable[_Judged]) -> list[_Judged]:
    """The first few in that order, none with a truth that was shown before."""
    chosen: dict[tuple[int, ...], _Judged] = {}
    for each in order:
        if len(chosen) < SHOWN:
            chosen.setdefault(tuple(each.written.target), each)
    return list(chosen.values())


class _Names:
    """Tokens as a person reads them."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.known: dict[int | None, str] = {None: ""}  # nothing stands there
        tokens = task.vocab.choosable[:3]
        pair = [token for token in tokens if token != task.vocab.eos][:2]
        # Letters are written without a space between them, words with one.
        self.joint = task.show(pair) == "".join(task.show([token]) for token in pair)

    def __call__(self, token: int | None) -> str:
        if token is not None and token not in self.known:
            self.known[token] = unit(self.task, token) or f"#{token}"
        return self.known[token]


def _example(judged: _Judged, names: _Names) -> dict[str, Any]:
    written = judged.written
    return {
        "number": written.number,
        "error": judged.rate,
        "source": None if written.source is None else written.source[: 4 * LONGEST],
        "pixels": written.pixels,
        "edits": [
            [kind, None if ours is None else names(ours), None if true is None else names(true)]
            for kind, ours, true in judged.edits[:LONGEST]
        ],
        "cut": len(judged.edits) > LONGEST,
    }


def _confusion(judged: Iterable[_Judged], names: _Names) -> dict[str, Any]:
    """How often each token of the truth became which of the output, for those with the most errors.

    Empty texts stand for "missing" in a column and for "extra" in a row.
    """
    counts = Counter((true, ours) for each in judged for _, ours, true in each.edits)
    wrong = Counter({(true, ours): count for (true, ours), count in counts.items() if true != ours})
    weight: Counter[int | None] = Counter()
    for pair, count in wrong.items():
        for token in pair:
            weight[token] += count
    extra = weight.pop(None, 0)
    chosen: list[int | None] = [*sorted((token for token, _ in weight.most_common(CONFUSED)), key=lambda at: at or 0)]
    chosen += [None] if extra else []
    return {
        "tokens": [names(token) for token in chosen],
        "counts": [[counts[true, ours] for ours in chosen] for true in chosen],
        "hidden": sum(count for pair, count in wrong.items() if not {*pair} <= {*chosen}),
        "pairs": [[names(true), names(ours), count] for (true, ours), count in wrong.most_common(CONFUSED)],
    }


def _by_bins(items: Iterable[tuple[int, int, int]]) -> list[dict[str, Any]]:
    """Errors over what could be wrong, for each position or length; with many of them for ranges of them.

    An item is its place, its errors and how many there could have been.
    """
    found = sorted(items)
    if not found:
        return []
    first, last = found[0][0], found[-1][0]
    width = -(-(last - first + 1) // BINS)
    bins: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for place, errors, of in found:
        bins[first + (place - first) // width * width].append((errors, of))
    rows = []
    for start, inside in bins.items():
        end = min(start + width - 1, last)
        name = str(start) if end == start else f"{start}\u2013{end}"
        error = sum(errors for errors, _ in inside) / sum(of for _, of in inside)
        rows.append({"name": name, "error": error, "count": len(inside)})
    return rows
