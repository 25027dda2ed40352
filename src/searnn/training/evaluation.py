"""Evaluation by free decoding: the model is fed its own outputs, never the truth, and judged by the task's metric."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import torch
from torch import nn

from searnn.data import sharding
from searnn.data.batching import unlabelled
from searnn.decoding.decode import decode, decode_beam
from searnn.decoding.parts import parts
from searnn.decoding.risk import decode_mbr
from searnn.interfaces import Cost, GivesRoom, Task
from searnn.sequences.ends import strip
from searnn.training.devices import ALONE, to_device
from searnn.training.interruption import EvaluationStoppedError
from searnn.training.world import World
from searnn.types import Batch, SearnnError

BESIDE = 5  # width of the beam whose outputs minimum-Bayes-risk decoding may choose beside the samples


def predict_tokens(
    model: nn.Module,
    batches: Iterable[Batch],
    *,
    beam: int = 1,
    length_penalty: float = 1.0,
    device: torch.device | str | None = None,
) -> list[list[int]]:
    """The output of every example as it stands before its end, in the order of the batches."""
    decoded = _decoded(model, batches, beam, length_penalty, device)
    return [output for outputs in decoded for output in outputs]


def predict_beams(
    model: nn.Module,
    batches: Iterable[Batch],
    *,
    width: int,
    best: int | None = None,
    length_penalty: float = 1.0,
    device: torch.device | str | None = None,
) -> list[list[tuple[list[int], float]]]:
    """The `best` outputs of a beam for every example, or all `width`, best first, each with its score."""
    best = width if best is None else best
    found = []
    for part in (part for batch in batches for part in parts_of(model, batch, width, device)):
        stepper: Any = model
        outputs, scores = decode_beam(stepper, part, width=width, length_penalty=length_penalty, best=best)
        lists = strip(outputs[:, :best].flatten(0, 1), model.vocab)  # type: ignore[arg-type]
        for example, row in enumerate(scores[:, :best].tolist()):
            found.append(list(zip(lists[example * best : (example + 1) * best], row, strict=True)))
    return found


def predict_mbr(
    model: nn.Module,
    batches: Iterable[Batch],
    *,
    samples: int,
    cost: Cost,
    rng: torch.Generator,
    device: torch.device | str | None = None,
) -> list[list[int]]:
    """For every example the output with the least mean cost if each of `samples` from the model in turn is the truth.

    It is one of the samples, the greedy output or one of a beam.
    """
    found = []
    for part in (part for batch in batches for part in parts_of(model, batch, samples, device)):
        outputs = decode_mbr(model, part, samples=samples, cost=cost, beam=BESIDE, rng=rng)  # type: ignore[arg-type]
        found += strip(outputs, model.vocab)  # type: ignore[arg-type]
    return found


def evaluate(
    model: nn.Module,
    batches: Iterable[Batch],
    task: Task,
    *,
    beam: int = 1,
    length_penalty: float = 1.0,
    device: torch.device | str | None = None,
    world: World = ALONE,
) -> dict[str, float]:
    """The task's own metrics of the model's free decoding of all batches.

    Several ranks give the same batches, decode a share of each, and all get the metrics of all examples.
    """
    outputs: list[list[list[int]]] = []  # of this rank, batch by batch
    targets: list[list[int]] = []  # of all ranks
    stopped = False

    def own_share() -> Iterator[Batch]:
        for batch in batches:
            targets.extend(strip(batch.targets, task.vocab))
            outputs.append([])
            own = torch.arange(world.rank, len(batch.targets), world.size)
            if len(own):
                yield batch if world.size == 1 else sharding.take(batch, own)

    try:
        for found in _decoded(model, own_share(), beam, length_penalty, device):
            outputs[-1] = found
    except EvaluationStoppedError:
        stopped = True
    if world.any(stopped)[0]:
        raise EvaluationStoppedError
    gathered = world.gather(outputs)
    return world.by_first(lambda: _metrics(_joined(gathered), targets, task))


def unlabelled_for(task: Task, sources: Sequence[Any]) -> Batch:
    """The sources as a batch; where the length is free, outputs have the room that the task gives them."""
    room = None
    if task.vocab.eos is not None and isinstance(task, GivesRoom):
        room = task.cells(torch.tensor([len(source) for source in sources])).tolist()
    return unlabelled(sources, task.vocab, room)


def _joined(outputs: Sequence[Sequence[list[list[int]]]]) -> list[list[int]]:
    """The outputs of all ranks in the order of the examples: of each batch rank r has decoded every n-th from r on."""
    joined = []
    for found in zip(*outputs, strict=True):
        whole: list[list[int]] = [[]] * sum(map(len, found))
        for rank, share in enumerate(found):
            whole[rank :: len(found)] = share
        joined += whole
    return joined


def _metrics(outputs: list[list[int]], targets: list[list[int]], task: Task) -> dict[str, float]:
    if not targets:
        raise SearnnError(f"there is nothing to evaluate {task.name} on: the data has no examples in this split")
    metrics = {name: float(value) for name, value in task.metrics(outputs, targets).items()}
    if task.metric not in metrics:
        raise SearnnError(f"the task {task.name} names {task.metric} as its metric, but gives {', '.join(metrics)}")
    return metrics


def _decoded(
    model: nn.Module, batches: Iterable[Batch], beam: int, length_penalty: float, device: torch.device | str | None
) -> Iterator[list[list[int]]]:
    """The outputs of each batch."""
    for batch in batches:
        found: list[list[int]] = []
        for part in parts_of(model, batch, beam, device):
            outputs = decode(model, part, beam=beam, length_penalty=length_penalty)  # type: ignore[arg-type]
            found += strip(outputs, model.vocab)  # type: ignore[arg-type]
        yield found


def parts_of(model: nn.Module, batch: Batch, width: int, device: torch.device | str | None = None) -> Iterator[Batch]:
    """The batch where the model is, in parts whose rows fit in memory together."""
    anchor = next(model.parameters())
    place = anchor.device if device is None else torch.device(device)
    if place != anchor.device:  # never for nothing: recurrent layers move their weights to new memory even then
        model.to(place)
    return parts(model, to_device(batch, place, anchor.dtype), width=width)  # type: ignore[arg-type]
