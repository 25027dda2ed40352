"""What a model writes beside the truth: its edits, which tokens it confuses, and where its errors stand."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from rapidfuzz.distance import Levenshtein
from torch import nn

from searnn.interfaces import Task
from searnn.sequences.ends import strip
from searnn.training import predict_tokens
from searnn.types import Batch, SearnnError

SHOWN = 8  # best and worst examples
CONFUSED = 12  # tokens in the table of confusions
LONGEST = 400  # units of an example that are shown
BINS = 12  # of lengths and positions, at most
KEPT, CHANGED, EXTRA, MISSING = "=", "~", "+", "-"
Edit = tuple[str, int | None, int | None]  # its kind, the output's token, the truth's


@dataclass(frozen=True)
class Written:
    """One example: what the model wrote and what is true, as they stand before their ends."""

    output: list[int]
    target: list[int]
    source: str | None  # the input as text, where it is one
    number: int  # what `searnn explain --example` takes
    pixels: list[str] | None = None  # the input as pictures of letters, where it is that
    full: bool = False  # the output has taken all its room and did not end

    def edits(self, fixed: bool) -> list[Edit]:
        """How to get from the truth to the output; position by position where the length is known."""
        return _by_position(self.output, self.target) if fixed else _by_alignment(self.output, self.target)


@dataclass(frozen=True)
class Outputs:
    """The outputs for a part of the data."""

    split: str
    written: tuple[Written, ...]
    metrics: Mapping[str, float]
    whole: bool  # all examples of the part, not a sample


def collect(
    model: nn.Module, task: Task, split: str, size: int, *, most: int | None = None, seconds: float | None = None
) -> Outputs:
    """Decode the part freely: all of it, or batches from all over it until there are `most` or time is up."""
    batches = numbered(task.test(size) if split == "test" else task.valid(size))
    if not batches:
        raise SearnnError(f"there is nothing to report on: the {split} data of {task.name} has no examples")
    written: list[Written] = []
    until = None if seconds is None else time.monotonic() + seconds
    order = _spread(len(batches)) if most is not None or until is not None else range(len(batches))
    done = 0
    for position in order:
        enough = most is not None and len(written) >= most
        if written and (enough or (until is not None and time.monotonic() > until)):
            break
        written += _written(model, task, *batches[position])
        done += 1
    metrics = task.metrics([each.output for each in written], [each.target for each in written])
    return Outputs(split, tuple(written), {name: float(value) for name, value in metrics.items()}, done == len(batches))


def numbered(batches: Iterable[Batch]) -> list[tuple[Sequence[int], Batch]]:
    """Each batch after the numbers that its examples go by: its ids, else they are counted from 0 over all batches."""
    found: list[tuple[Sequence[int], Batch]] = []
    count = 0
    for batch in batches:
        after = count + len(batch.targets)
        found.append((range(count, after) if batch.ids is None else batch.ids, batch))
        count = after
    return found


def describe(outputs: Outputs, task: Task) -> dict[str, Any]:
    """Everything that the page shows of the outputs, as JSON."""
    fixed = task.vocab.eos is None
    unknown = getattr(task, "knowledge", {}).get("unknown")
    edits = [_judged(each.edits(fixed), unknown) for each in outputs.written]
    errors = [sum(kind != KEPT for kind, _, _ in row) for row in edits]
    rates = [count / max(1, len(each.target)) for count, each in zip(errors, outputs.written, strict=True)]
    # The longest of the right ones are the best: a right output of one letter says little.
    order = sorted(range(len(rates)), key=lambda at: (rates[at], -len(outputs.written[at].target)))
    wrong = [at for at in sorted(order, key=lambda at: (-rates[at], -errors[at])) if errors[at]]
    worst = _different(wrong, outputs.written)
    best = [at for at in _different(order, outputs.written) if at not in worst]
    names = _Names(task)
    return {
        "split": outputs.split,
        "count": len(outputs.written),
        "whole": outputs.whole,
        "right": sum(not count for count in errors),
        "metrics": dict(outputs.metrics),
        "joint": names.joint,
        "best": [_example(outputs.written[at], edits[at], rates[at], names) for at in best],
        "worst": [_example(outputs.written[at], edits[at], rates[at], names) for at in worst],
        "confusion": _confusion(edits, names),
        "positions": _by_bins((place, kind != KEPT, 1) for row in edits for place, kind in _places(row)),
        "lengths": _by_bins(
            (len(each.target), count, max(1, len(each.target)))
            for each, count in zip(outputs.written, errors, strict=True)
        ),
    }


def _different(order: Iterable[int], written: Sequence[Written]) -> list[int]:
    """The first few in that order, none with a truth that was shown before."""
    chosen: dict[tuple[int, ...], int] = {}
    for at in order:
        if len(chosen) < SHOWN:
            chosen.setdefault(tuple(written[at].target), at)
    return list(chosen.values())


class _Names:
    """Tokens as a person reads them."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.known: dict[int, str] = {}
        tokens = task.vocab.choosable[:3]
        pair = [token for token in tokens if token != task.vocab.eos][:2]
        # Letters are written without a space between them, words with one.
        self.joint = task.show(pair) == "".join(task.show([token]) for token in pair)

    def __call__(self, token: int) -> str:
        if token not in self.known:
            units = getattr(self.task, "units", None)
            text = units([token])[0] if units is not None else self.task.show([token])
            self.known[token] = text or f"#{token}"
        return self.known[token]


def _written(model: nn.Module, task: Task, numbers: Sequence[int], batch: Batch) -> list[Written]:
    outputs, targets = predict_tokens(model, [batch]), strip(batch.targets, task.vocab)
    inputs, ends = batch.inputs, task.vocab.eos is not None
    sources = [_source(task, inputs, row) for row in range(len(outputs))]
    pixels = [_pixels(task, inputs, row) for row in range(len(outputs))]
    full = [ends and len(output) >= limit for output, limit in zip(outputs, batch.limits(), strict=True)]
    rows = zip(outputs, targets, sources, numbers, pixels, full, strict=True)
    return [Written(*row) for row in rows]


def _source(task: Task, inputs: Any, row: int) -> str | None:
    """The input as text, where it is text; of several columns of tokens the first is the word."""
    values, lengths = getattr(inputs, "values", None), getattr(inputs, "lengths", None)
    if not torch.is_tensor(values) or values.is_floating_point() or lengths is None:
        return None
    tokens = values[row, : int(lengths[row])].tolist()
    lexicon = getattr(task, "source", None) or getattr(task, "lexicon", None)
    if values.ndim == 3:
        units = getattr(lexicon, "units", None)
        words = [str(columns[0]) if units is None else units[columns[0]] for columns in tokens]
        return " ".join(word.removeprefix("word=") for word in words)
    return str(lexicon.decode(tokens)) if lexicon is not None else " ".join(map(str, tokens))


def _pixels(task: Task, inputs: Any, row: int) -> list[str] | None:
    """The letters of a handwritten word, each as 16 rows of 8 pixels in 32 hexadecimal digits."""
    if task.name != "ocr" or task.features != 128:
        return None
    letters = inputs.values[row, : int(inputs.lengths[row])] > 0.5
    return [f"{int(''.join('1' if bit else '0' for bit in letter), 2):032x}" for letter in letters.tolist()]


def _by_position(output: Sequence[int], target: Sequence[int]) -> list[Edit]:
    shared = min(len(output), len(target))
    pairs = zip(output[:shared], target[:shared], strict=True)
    edits: list[Edit] = [(KEPT if ours == true else CHANGED, ours, true) for ours, true in pairs]
    edits += [(EXTRA, token, None) for token in output[shared:]]
    return edits + [(MISSING, None, token) for token in target[shared:]]


def _by_alignment(output: Sequence[int], target: Sequence[int]) -> list[Edit]:
    """A shortest way from the truth to the output."""
    edits: list[Edit] = []
    for block in Levenshtein.opcodes(target, output):
        true, ours = target[block.src_start : block.src_end], output[block.dest_start : block.dest_end]
        if block.tag == "insert":
            edits += [(EXTRA, token, None) for token in ours]
        elif block.tag == "delete":
            edits += [(MISSING, None, token) for token in true]
        else:
            kind = KEPT if block.tag == "equal" else CHANGED
            edits += [(kind, a, b) for a, b in zip(ours, true, strict=True)]
    return edits


def _judged(edits: list[Edit], unknown: int | None) -> list[Edit]:
    """The edits as the metrics count them: an unknown word of the truth is never right."""
    return [(CHANGED if kind == KEPT and true == unknown else kind, ours, true) for kind, ours, true in edits]


def _places(edits: Iterable[Edit]) -> Iterable[tuple[int, str]]:
    """Each token of the truth by its position from 1, with what became of it; extra tokens have none."""
    place = 0
    for kind, _, true in edits:
        if true is not None:
            place += 1
            yield place, kind


def _example(written: Written, edits: list[Edit], rate: float, names: _Names) -> dict[str, Any]:
    parts = [
        [kind, None if ours is None else names(ours), None if true is None else names(true)]
        for kind, ours, true in edits[:LONGEST]
    ]
    return {
        "number": written.number,
        "error": rate,
        "source": None if written.source is None else written.source[: 4 * LONGEST],
        "pixels": written.pixels,
        "edits": parts,
        "cut": len(edits) > LONGEST,
    }


def _confusion(edits: Iterable[list[Edit]], names: _Names) -> dict[str, Any]:
    """How often each token of the truth became which of the output, for those with the most errors.

    Empty texts stand for "missing" in a column and for "extra" in a row.
    """
    counts: Counter[tuple[int | None, int | None]] = Counter()
    for row in edits:
        counts.update((true, ours) for _, ours, true in row)
    wrong = {pair: count for pair, count in counts.items() if pair[0] != pair[1]}
    weight: Counter[int | None] = Counter()
    for pair, count in wrong.items():
        for token in pair:
            weight[token] += count
    extra = weight.pop(None, 0)
    chosen: list[int | None] = [*sorted((token for token, _ in weight.most_common(CONFUSED)), key=lambda at: at or 0)]
    chosen += [None] if extra else []
    label = {token: "" if token is None else names(token) for token in chosen}
    ranked = sorted(wrong.items(), key=lambda item: -item[1])[:CONFUSED]
    return {
        "tokens": [label[token] for token in chosen],
        "counts": [[counts[true, ours] for ours in chosen] for true in chosen],
        "hidden": sum(count for pair, count in wrong.items() if pair[0] not in label or pair[1] not in label),
        "pairs": [
            ["" if true is None else names(true), "" if ours is None else names(ours), count]
            for (true, ours), count in ranked
        ],
    }


def _by_bins(items: Iterable[tuple[int, float, float]]) -> list[dict[str, Any]]:
    """Errors over what could be wrong, for each position or length; with many of them for ranges of them.

    An item is its place, its errors and how many there could have been.
    """
    wrong: Counter[int] = Counter()
    total: Counter[int] = Counter()
    count: Counter[int] = Counter()
    for place, errors, of in items:
        wrong[place] += int(errors)
        total[place] += int(of)
        count[place] += 1
    if not count:
        return []
    width = -(-(max(count) - min(count) + 1) // BINS)
    rows = []
    for start in range(min(count), max(count) + 1, width):
        inside = range(start, start + width)
        if any(count[place] for place in inside):
            end = min(start + width - 1, max(count))
            name = str(start) if end == start else f"{start}\u2013{end}"
            errors, of = sum(wrong[place] for place in inside), sum(total[place] for place in inside)
            rows.append({"name": name, "error": errors / of, "count": sum(count[place] for place in inside)})
    return rows


def _spread(count: int) -> list[int]:
    """The numbers below `count`, such that the first few of them lie all over: batches come in the order of length."""
    order: list[int] = []
    seen, parts = set(), 1
    while len(order) < count:
        for part in range(parts):
            at = count * (2 * part + 1) // (2 * parts)
            if at not in seen:
                seen.add(at)
                order.append(at)
        parts *= 2
    return order
