"""One example for a model, of its task's data or of a user's own, as a batch where the model is."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from searnn.data import sharding
from searnn.data.sheets import read_letters
from searnn.decoding import decode
from searnn.interfaces import ReadsLines, Task
from searnn.reports.naming import read_target
from searnn.reports.outputs import batches_of
from searnn.sequences.ends import strip
from searnn.training.devices import to_device
from searnn.training.evaluation import unlabelled_for
from searnn.types import Batch, SearnnError


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
