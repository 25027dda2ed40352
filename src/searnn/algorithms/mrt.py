"""Minimum risk training (Shen et al., 2016)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from searnn.algorithms.common import paths
from searnn.algorithms.common.settings import Samples
from searnn.defaults import NEEDS_WARM_UP, Recipe
from searnn.interfaces import Cost, Stepper
from searnn.sequences import seal
from searnn.settings import Setting, check
from searnn.types import Batch, SearnnError, Update


@dataclass(frozen=True, kw_only=True)
class Mrt:
    """Σ_y Q(y) c(y) over distinct candidates y, with Q(y) = p(y)^α / Σ_y' p(y')^α and α the `sharpness`.

    The candidates are `samples` outputs drawn from the model, each counted once, and the truth if `with_truth`.
    """

    name: ClassVar[str] = "mrt"
    recipe: ClassVar[Recipe] = NEEDS_WARM_UP
    cost: Cost
    samples: Samples = 20
    sharpness: Annotated[float, Setting("power of the model's probabilities of the candidates", gt=0)] = 0.1
    with_truth: Annotated[bool, Setting("the truth is one of the candidates")] = True

    def __post_init__(self) -> None:
        check(self)
        if self.samples + self.with_truth < 2:
            raise SearnnError("the risk of a single candidate has no gradient: give at least 2 samples, or with_truth")

    def __call__(self, model: Stepper, batch: Batch, rng: torch.Generator) -> Update:
        """One loss from one batch: the expected cost over the candidates, a mean over examples."""
        model, batch, memory, fixed = paths.read(model, batch)
        candidates = paths.draw(model, fixed, batch, rng, self.samples)
        if self.with_truth:
            truth = seal(batch.targets, batch.lengths, model.vocab)
            candidates = torch.cat([truth.unsqueeze(1), candidates], dim=1)
        found = paths.rescore(model, memory, candidates)
        costs = paths.costs_of(self.cost, candidates, batch, found.chosen)
        distinct = ~repeated_rows(candidates)
        powers = self.sharpness * found.chosen.sum(-1)  # [B, R]
        weights = powers.masked_fill(~distinct, -torch.inf).softmax(-1)
        risk = (weights * costs).sum(-1)
        loss = risk.mean()
        counts = distinct.sum(1).to(loss.dtype)
        logs = {"loss": loss.detach(), "cost": costs[:, -self.samples :].mean(), "candidates": counts.mean()}
        return Update(loss, logs)


def repeated_rows(rows: Int[Tensor, "B R T"]) -> Bool[Tensor, "B R"]:
    """True where the same row stands earlier in its example."""
    same = torch.stack([(rows == row.unsqueeze(1)).all(-1) for row in rows.unbind(1)], dim=1)  # [B, R, R]
    return same.tril(-1).any(-1)
