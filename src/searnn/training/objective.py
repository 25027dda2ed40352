"""What is differentiated: model and algorithm as one module."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from searnn import rng, schedules
from searnn.interfaces import Algorithm
from searnn.types import Batch


class Work:
    """What one step works on; a plain object, because Fabric takes records apart and rebuilds them."""

    def __init__(self, batch: Batch, step: int, generator: torch.Generator) -> None:
        self.batch, self.step, self.generator = batch, step, generator


class Objective(nn.Module):
    """Model and algorithm together, so that precision and data parallelism apply to one `forward`.

    An algorithm with parameters of its own (a critic) is a module, and they are trained and saved with the model's.
    """

    def __init__(self, model: nn.Module, algorithm: Algorithm) -> None:
        super().__init__()
        self.model = model
        self.algorithm = algorithm

    def forward(self, work: Work) -> tuple[Tensor, dict[str, Tensor]]:
        """The loss of one batch, and what the algorithm logs."""
        algorithm = schedules.at(self.algorithm, work.step)
        update = algorithm(self.model, work.batch, work.generator)  # type: ignore[arg-type]
        return update.loss, {name: value.detach() for name, value in update.logs.items()}


def seeded_work(batch: Batch, seed: int, step: int) -> Work:
    """The work of one step with all its randomness: the algorithm's own, and the global generator's for dropout."""
    # Not torch.manual_seed: on a machine without a GPU it spends 2 ms on seeding one that may come.
    dropout = rng.derive(seed, "dropout", step)
    torch.default_generator.manual_seed(dropout)
    if batch.targets.device.type == "cuda":
        torch.cuda.default_generators[batch.targets.device.index].manual_seed(dropout)
    return Work(batch, step, rng.generator(seed, "algorithm", step))
