"""MIXER (Ranzato et al., 2016): cross-entropy on the first cells, REINFORCE on the rest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
from torch import nn

from searnn.algorithms.common import paths
from searnn.algorithms.common.settings import CrossEntropyWeight, EntropyBonus, Normalisation, Samples
from searnn.algorithms.reinforce import OVER_CELLS, Baseline, Reinforce
from searnn.defaults import NEEDS_WARM_UP, Recipe, share_of_steps
from searnn.interfaces import Cost, Stepper
from searnn.schedules import Linear, Schedule
from searnn.settings import Setting, check
from searnn.types import Batch, SearnnError, Update

Border = Annotated[
    float | Schedule,
    Setting("first cells that are trained by cross-entropy", ge=0, whole=True, schedule="linear:12:0:10000"),
]


class Mixer(nn.Module):
    """The truth for the first `cross_entropy_cells` cells, then the model's own samples to the end.

    The first part is trained by cross-entropy, with `cross_entropy_weight`, the second by REINFORCE on the cost of the
    whole output. A falling schedule moves the border to the front: with no cells left it is REINFORCE, with more cells
    than the output has it is maximum likelihood. A value between two numbers is rounded down.
    """

    name: ClassVar[str] = "mixer"
    recipe: ClassVar[Recipe] = {"cross_entropy_cells": share_of_steps(1 / 2, "linear:12:0:{}"), **NEEDS_WARM_UP}

    def __init__(
        self,
        *,
        cost: Cost,
        cross_entropy_cells: Border = Linear(12, 0, 10_000),  # noqa: B008  frozen
        cross_entropy_weight: CrossEntropyWeight = 1.0,
        samples: Samples = 1,
        baseline: Baseline = "learned",
        entropy_bonus: EntropyBonus = 0.0,
        normalisation: Normalisation = "batch",
    ) -> None:
        super().__init__()
        check(Mixer, locals())
        self.cross_entropy_cells, self.cross_entropy_weight = cross_entropy_cells, cross_entropy_weight
        self.normalisation: Normalisation = normalisation
        self.reinforce = Reinforce(
            cost=cost, samples=samples, baseline=baseline, entropy_bonus=entropy_bonus, normalisation=normalisation
        )

    @property
    def cost(self) -> Cost:
        """What an output costs."""
        return self.reinforce.cost

    def attach(self, model: nn.Module) -> None:
        """Make the baseline for the model's vocabulary."""
        self.reinforce.attach(model)

    def at(self, step: int) -> Split:
        """MIXER with the border where it is at this update."""
        cells = self.cross_entropy_cells
        return Split(self, max(0, int(cells if isinstance(cells, (int, float)) else cells(step))))

    def forward(self, model: Stepper, batch: Batch, rng: torch.Generator, cells: int | None = None) -> Update:
        """One loss from one batch; `cells` by cross-entropy."""
        if cells is None:
            if not isinstance(self.cross_entropy_cells, (int, float)):
                raise SearnnError("cross_entropy_cells is a schedule: take mixer.at(step)")
            cells = int(self.cross_entropy_cells)
        model, batch, memory, fixed = paths.read(model, batch)
        drawn = paths.draw(model, fixed, batch, rng, self.reinforce.samples, given=cells)
        found = paths.rescore(model, memory, drawn)
        losses, logs = self.reinforce.losses(found, paths.costs_of(self.cost, drawn, batch, found.chosen))
        first = torch.arange(drawn.shape[-1], device=drawn.device) < cells
        losses = torch.where(first, -self.cross_entropy_weight * found.chosen, losses)
        loss = paths.total_of_paths(losses, found.counted, self.normalisation)
        share = paths.mean_over(first.to(losses.dtype).expand_as(losses), found.counted)
        logs = {"loss": loss.detach(), **logs, "cross_entropy_share": share}
        counted = found.counted.sum()
        return Update(loss, logs, counted, dict.fromkeys((*OVER_CELLS, "cross_entropy_share"), counted))


@dataclass(frozen=True)
class Split:
    """MIXER with `cells` cells by cross-entropy."""

    mixer: Mixer
    cells: int

    def __call__(self, model: Stepper, batch: Batch, rng: torch.Generator) -> Update:
        update: Update = self.mixer(model, batch, rng, self.cells)
        return update
