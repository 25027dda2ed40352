"""What a page is about: an example of the task's data or of a user's own, and the moments of a run's training."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from searnn.data import sharding
from searnn.data.sheets import read_letters
from searnn.decoding import decode
from searnn.interfaces import ReadsLines, Task
from searnn.reports.explain.searching import Moment
from searnn.reports.naming import read_target
from searnn.reports.outputs import batches_of
from searnn.sequences.ends import strip
from searnn.training import checkpoints
from searnn.training.devices import to_device
from searnn.training.evaluation import unlabelled_for
from searnn.types import Batch, SearnnError

MOST_MOMENTS = 12  # checkpoints in one page: each adds to its size


def of_input(model: Any, task: Task, text: str, number: int = 0) -> Batch:
    """A line of text, or word `number` of a file of letters, counted from 0; its targets are PAD."""
    return _moved(model, task, unlabelled_for(task, [_source(task, text, number)]))


def of_data(model: Any, task: Task, number: int, split: str | None = None) -> Batch:
    """The example that the report shows under this number; without a split that of the test data, if there is any."""
    split, batches = batches_of(task, split)
    for numbers, batch in batches:
        if number in numbers:
            return _moved(model, task, sharding.take(batch, torch.tensor([numbers.index(number)])))
    known = [each for numbers, _ in batches for each in numbers]
    told = f"{len(known)} examples between {min(known)} and {max(known)}" if known else "no examples"
    raise SearnnError(f"--example is {number}, the {split} data has {told}: take a number that the report shows")


def with_target(model: Any, task: Task, batch: Batch, text: str | None) -> Batch:
    """The batch with the truth that the text says, without one with the model's own output in its place."""
    vocab, room = task.vocab, batch.limits()[0]
    target = read_target(task, text) if text is not None else strip(decode(model, batch), vocab)[0]
    if vocab.eos is None and len(target) != room:
        raise SearnnError(f"--target has {len(target)} tokens, the input has {room}: expected one for each")
    if vocab.eos is not None:  # outputs end by themselves: there is room for it
        target = [*target, vocab.eos]
        room = max(room, len(target))
    targets = torch.full((1, room), vocab.pad, device=batch.targets.device)
    targets[0, : len(target)] = torch.tensor(target)
    return replace(batch, targets=targets, lengths=torch.full_like(batch.lengths, room), host_lengths=(room,))


def _source(task: Task, text: str, number: int) -> Any:
    if isinstance(task, ReadsLines):
        try:
            return task.read(text)
        except SearnnError as error:
            raise SearnnError(f"--input {text!r} is bad: {error}") from error
    words = read_letters(Path(text))
    if number >= len(words):
        raise SearnnError(f"--example is {number}, {text} has the words 0 to {len(words) - 1}")
    return words[number]


def _moved(model: Any, task: Task, batch: Batch) -> Batch:
    anchor = next(model.parameters())
    return to_device(batch.with_vocab(task.vocab), anchor.device, anchor.dtype)


def moments_of(model: nn.Module, folder: Path) -> tuple[list[Moment], int, int]:
    """The models that the run kept, in the order of their steps; the number of the best; how many are left out."""
    paths = dict(checkpoints.kept(folder))
    marks: dict[int, list[str]] = {}
    for name in ("best", "last"):
        if checkpoints.exists(folder / name):
            _, meta = checkpoints.load(folder / name)
            step = checkpoints.step_of(meta)
            marks.setdefault(step, []).append(name)
            paths[step] = folder / name
    steps = sorted(paths)
    if len(steps) > MOST_MOMENTS:
        free, others = MOST_MOMENTS - len(marks), [step for step in steps if step not in marks]
        spread = {others[place * (len(others) - 1) // (free - 1)] for place in range(free)}
        steps = sorted({*marks, *spread})
    moments = []
    for step in steps:
        own = deepcopy(model)
        checkpoints.load_model(paths[step], own)
        marked = f" ({' and '.join(marks[step])})" if step in marks else ""
        moments.append(Moment(f"step {step}{marked}", step, own.eval()))
    best = next(number for number, step in enumerate(steps) if "best" in marks.get(step, ()))
    return moments, best, len(paths) - len(steps)
