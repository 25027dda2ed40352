"""Maximum likelihood first, then a method that cannot start from nothing."""

from __future__ import annotations

import torch
from torch import nn

from searnn import schedules
from searnn.algorithms.common.settings import Normalisation
from searnn.interfaces import Algorithm, Stepper
from searnn.types import Batch, SearnnError, Update


class WarmUp(nn.Module):
    """Trains by `first` for `steps` updates, then by `then`, whose schedules and phases count from where it begins.

    A module, so that what `then` owns (a critic) is trained and saved. Called outside of training it is `then`.
    """

    def __init__(self, first: Algorithm, then: Algorithm, steps: int) -> None:
        super().__init__()
        if steps < 0:
            raise SearnnError(f"steps of the warm-up is {steps}, it must be at least 0")
        self.first, self.then, self.steps = first, then, steps

    @property
    def normalisation(self) -> Normalisation:
        """What the losses are a mean over; the same in both phases, since a batch may be cut into shards."""
        return getattr(self.then, "normalisation", "batch")

    def attach(self, model: nn.Module) -> None:
        """Hand the model on to the two that may want its sizes."""
        for algorithm in (self.first, self.then):
            attach(algorithm, model)

    def at(self, step: int) -> Algorithm:
        """The algorithm of this update."""
        return schedules.at(self.first, step) if step < self.steps else schedules.at(self.then, step - self.steps)

    def forward(self, model: Stepper, batch: Batch, rng: torch.Generator) -> Update:
        """One loss from one batch, by the method itself."""
        return self.then(model, batch, rng)  # type: ignore[arg-type]


def attach(algorithm: Algorithm, model: nn.Module) -> None:
    """Show an algorithm the model before training, where it makes parts whose sizes are the model's."""
    if callable(hook := getattr(algorithm, "attach", None)):
        hook(model)
