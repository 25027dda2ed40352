"""What a model writes for validation or test data, beside the truth."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import zip_longest
from typing import Any

from rapidfuzz.distance import Levenshtein
from torch import nn

from searnn.decoding.parts import TOGETHER
from searnn.interfaces import Knowledgeable, Task
from searnn.reports.naming import letters, show_source
from searnn.sequences.ends import strip
from searnn.training import predict_tokens
from searnn.types import Batch, Inputs, SearnnError

KEPT, CHANGED, EXTRA, MISSING = "=", "~", "+", "-"
NumberedBatch = tuple[Sequence[int], Batch]  # the numbers that its examples go by
Edit = tuple[str, int | None, int | None]  # its kind, the output's token, the truth's
Predict = Callable[[nn.Module, list[Batch]], list[list[int]]]  # the output of every example as it stands before its end


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
        """A shortest way from the truth to the output; position by position where the length is known."""
        if fixed:
            return _paired(self.output, self.target)
        return [
            edit
            for block in Levenshtein.opcodes(self.target, self.output)
            for edit in _paired(
                self.output[block.dest_start : block.dest_end], self.target[block.src_start : block.src_end]
            )
        ]


@dataclass(frozen=True)
class Outputs:
    """The outputs for a split of the data."""

    split: str
    written: tuple[Written, ...]
    metrics: Mapping[str, float]
    whole: bool  # all examples of the split, not a sample

    def summary(self) -> dict[str, Any]:
        """What the page says of them in a few numbers."""
        return {"split": self.split, "metrics": {**self.metrics}, "count": len(self.written), "whole": self.whole}


def collect(
    model: nn.Module,
    task: Task,
    split: str | None = None,
    size: int = TOGETHER,
    *,
    most: int | None = None,
    seconds: float | None = None,
    predict: Predict = predict_tokens,
) -> Outputs:
    """Decode a split freely, greedily or as `predict` does: all of it, or batches from all over it until there are
    `most` or time is up.
    """
    split, batches = batches_of(task, split, size)
    if not batches:
        raise SearnnError(f"there is nothing to report on: the {split} data of {task.name} has no examples")
    written: list[Written] = []
    until = None if seconds is None else time.monotonic() + seconds
    order = scattered(len(batches)) if most is not None or until is not None else range(len(batches))
    done = 0
    for position in order:
        enough = most is not None and len(written) >= most
        if written and (enough or (until is not None and time.monotonic() > until)):
            break
        written += _written(model, task, *batches[position], predict)
        done += 1
    metrics = task.metrics([each.output for each in written], [each.target for each in written])
    return Outputs(split, tuple(written), {name: float(value) for name, value in metrics.items()}, done == len(batches))


def as_tsv(outputs: Outputs, task: Task, others: Mapping[str, Outputs] | None = None) -> str:
    """The outputs as a table with tabs, in the order of their numbers; the edits are those of tokens.

    `others`, decoded in other ways, have a column each for output and edits, named by the way. An unknown unit of the
    truth is never right, as in the metrics.
    """
    unknown = task.knowledge.get("unknown") if isinstance(task, Knowledgeable) else None
    others = {} if others is None else others
    head = ["source", "output", "target", "edits", "example"]
    lines = ["\t".join([*head, *(f"{what}, {way}" for way in others for what in ("output", "edits"))])]

    def edits(each: Written) -> str:
        return str(Levenshtein.distance(each.output, [-1 if token == unknown else token for token in each.target]))

    def shown(text: str | None) -> str:
        return (text or "").replace("\t", " ")

    ordered = [sorted(one.written, key=lambda each: each.number) for one in (outputs, *others.values())]
    for each, *rest in zip(*ordered, strict=True):
        texts = (shown(each.source), shown(task.show(each.output)), shown(task.show(each.target)))
        more = [text for other in rest for text in (shown(task.show(other.output)), edits(other))]
        lines.append("\t".join([*texts, edits(each), str(each.number), *more]))
    return "".join(f"{line}\n" for line in lines)


def batches_of(task: Task, split: str | None, size: int = TOGETHER) -> tuple[str, list[NumberedBatch]]:
    """The split that is named, "test" or "valid", and its batches; without a name the test data, if there is any."""
    if split is None:
        with suppress(SearnnError):
            if batches := numbered(task.test(size)):
                return "test", batches
        split = "valid"
    return split, numbered(task.test(size) if split == "test" else task.valid(size))


def numbered(batches: Iterable[Batch]) -> list[NumberedBatch]:
    """Each batch after the numbers that its examples go by: its ids, else they are counted from 0 over all batches."""
    found: list[NumberedBatch] = []
    count = 0
    for batch in batches:
        after = count + len(batch.targets)
        found.append((range(count, after) if batch.ids is None else batch.ids, batch))
        count = after
    return found


def scattered(count: int) -> list[int]:
    """The numbers below `count`, such that the first few of them lie all over: batches come in the order of length."""
    halvings = (2**power for power in range(count.bit_length() + 1))
    return list(dict.fromkeys(count * (2 * at + 1) // (2 * places) for places in halvings for at in range(places)))


def _written(model: nn.Module, task: Task, numbers: Sequence[int], batch: Batch, predict: Predict) -> list[Written]:
    outputs = predict(model, [batch])
    targets = strip(batch.targets, task.vocab)
    ends = task.vocab.eos is not None
    found = []
    for row, (output, target, number, limit) in enumerate(zip(outputs, targets, numbers, batch.limits(), strict=True)):
        source, pixels = _source(task, batch.inputs, row)
        found.append(Written(output, target, source, number, pixels, full=ends and len(output) >= limit))
    return found


def _source(task: Task, inputs: Any, row: int) -> tuple[str | None, list[str] | None]:
    """The input as text and as pictures of letters, where it is one of these."""
    if not isinstance(inputs, Inputs):
        return None, None
    values = inputs.values[row, : int(inputs.lengths[row])]
    if values.is_floating_point():
        return None, letters(values) if task.name == "ocr" else None
    return show_source(task, values.tolist()), None


def _paired(output: Sequence[int], target: Sequence[int]) -> list[Edit]:
    """The edits position by position."""
    edits: list[Edit] = []
    for ours, true in zip_longest(output, target):
        kind = KEPT if ours == true else EXTRA if true is None else MISSING if ours is None else CHANGED
        edits.append((kind, ours, true))
    return edits
