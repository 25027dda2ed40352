"""What is differentiated: model and algorithm as one module."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import is_dataclass
from typing import Any

import torch
from torch import Tensor, nn

from searnn import rng, schedules, tree
from searnn.interfaces import Algorithm, Attachable
from searnn.losses.temperature import Temperature
from searnn.rng import Shard
from searnn.types import Batch


class Work:
    """What one step works on; a plain object, because Fabric takes records apart and rebuilds them."""

    def __init__(self, batch: Batch, step: int, generator: torch.Generator) -> None:
        self.batch, self.step, self.generator = batch, step, generator


class Objective(nn.Module):
    """Model and algorithm together, so that precision and data parallelism apply to one `forward`.

    An algorithm with parameters of its own (a critic) is a module, and they are trained and saved with the model's.
    It may make them in `attach(model)`; their first values follow from the seed. The `adjusted` temperatures of its
    losses are saved too.
    """

    def __init__(self, model: nn.Module, algorithm: Algorithm, seed: int = 0) -> None:
        super().__init__()
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(rng.derive(seed, "attach"))
            if isinstance(algorithm, Attachable):
                algorithm.attach(model)
        self.model = model
        self.algorithm = algorithm
        self.adjusted = nn.ModuleList(
            dict.fromkeys(one for one in components(algorithm) if isinstance(one, Temperature))
        )

    def forward(self, work: Work) -> tuple[Tensor, dict[str, Tensor], Tensor | None, dict[str, Tensor]]:
        """The loss of one batch, what the algorithm logs, and over how many cells or others, if it says so."""
        algorithm = schedules.at(self.algorithm, work.step)
        update = algorithm(self.model, work.batch, work.generator)  # type: ignore[arg-type]
        logs = {name: value.detach() for name, value in update.logs.items()}
        return update.loss, logs, update.cells, dict(update.counts)


def components(node: Any) -> Iterator[Any]:
    """A record or a module, and all records and modules in it."""
    if isinstance(node, tuple):
        children: Any = node
    else:
        yield node
        children = [value for _, value in tree.field_values(node)]
        if isinstance(node, nn.Module):
            children += [*(value for name, value in vars(node).items() if not name.startswith("_")), *node.children()]
    for child in children:
        if is_dataclass(child) or isinstance(child, tuple) or callable(child):
            yield from components(child)


def seeded_work(batch: Batch, seed: int, step: int, shard: Shard | None = None) -> Work:
    """The work of one step with all its randomness: the algorithm's own, and the global generator's for dropout.

    The algorithm draws for the whole batch and a shard takes its own. Dropout cannot: each shard has masks of its own.
    """
    names = () if shard is None else (shard.index, shard.count)
    # Not torch.manual_seed: on a machine without a GPU it spends 2 ms on seeding one that may come.
    dropout = rng.derive(seed, "dropout", step, *names)
    torch.default_generator.manual_seed(dropout)
    if batch.targets.device.type == "cuda":
        torch.cuda.default_generators[batch.targets.device.index].manual_seed(dropout)
    return Work(batch, step, rng.generator(seed, "algorithm", step, shard=shard))
