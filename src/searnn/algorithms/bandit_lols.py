"""Bandit LOLS: learning to search where one cost per sequence is seen (Chang et al., 2015, Algorithm 2)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from searnn.algorithms.common.losses import cell_losses, total
from searnn.algorithms.common.settings import Normalisation
from searnn.algorithms.searnn import search
from searnn.defaults import NEEDS_WARM_UP, Recipe
from searnn.interfaces import Cost, Loss, Oracle, Stepper
from searnn.losses import ConsistentLoss
from searnn.models import with_trace
from searnn.oracles import CopyTarget
from searnn.policies import Learned, Mixed, Reference
from searnn.policies.mixed import ReferenceProbability
from searnn.rng import spawn, uniform
from searnn.samplers import AllTokens, UniformCells
from searnn.sequences import at_cells, valid_cells
from searnn.settings import checked
from searnn.types import Batch, Update


@checked
class BanditLols:
    """LOLS that tries one token at one cell of each sequence, both drawn uniformly, and sees one cost.

    The tried token's cost counts K times, once for each token that might have been drawn; that of the K - 1 others
    counts as 0. The cell's loss stands for all cells of its sequence. For a loss that is linear in the costs, as the
    consistent one is, the expected gradient is that of LOLS. The roll-out is the reference's with
    `reference_probability`, else the model's.

    Deviation: every example is explored (their epsilon is 1), since one that is not trains nothing.
    """

    name: ClassVar[str] = "bandit-lols"
    recipe: ClassVar[Recipe] = {"loss": "consistent", **NEEDS_WARM_UP}
    cost: Cost
    loss: Loss = field(default_factory=ConsistentLoss)
    oracle: Oracle = field(default_factory=CopyTarget)
    reference_probability: ReferenceProbability = 0.5
    normalisation: Normalisation = "batch"

    def __call__(self, model: Stepper, batch: Batch, rng: torch.Generator) -> Update:
        """One loss from one batch: try, then learn from the importance-weighted costs."""
        model = with_trace(model)
        batch = batch.with_vocab(model.vocab)
        for_search, for_ties = spawn(rng, 2)
        found = search(
            model,
            batch,
            roll_in=Learned(),
            roll_out=self.roll_out(),
            cost=self.cost,
            tokens=OneToken(),
            cells=UniformCells(1),
            rng=for_search,
        )
        scores, _ = model.trace(model.encode(batch.inputs), found.prefix)
        scores = at_cells(scores, found.cells)
        candidates = AllTokens()(scores, batch, found.cells, rng)
        scores = scores.gather(2, candidates)  # [B, 1, K]
        costs = candidates.shape[-1] * found.costs * (candidates == found.tokens)
        losses = cell_losses(self.loss, scores, costs, found.valid.expand_as(candidates), for_ties)  # [B, 1]
        counted = valid_cells(found.prefix, batch)
        loss = total(losses.expand_as(counted), counted, self.normalisation)
        return Update(loss, {"loss": loss.detach(), "tried_cost": found.costs.mean()}, cells=counted.sum())

    def roll_out(self) -> Mixed:
        """The paper's pi_out: one roll-out for each example."""
        return Mixed(Reference(self.oracle), self.reference_probability)


@dataclass(frozen=True)
class OneToken:
    """One token per cell, drawn uniformly from all that may be chosen; not always the true one."""

    def __call__(
        self, scores: Float[Tensor, "B C V"], batch: Batch, cells: Int[Tensor, "B C"], rng: torch.Generator
    ) -> Int[Tensor, "B C K"]:
        tokens = AllTokens()(scores, batch, cells, rng)
        drawn = (uniform(cells.shape, rng, cells.device) * tokens.shape[-1]).long()
        return tokens.gather(2, drawn.unsqueeze(-1))
