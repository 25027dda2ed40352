"""AggreVaTe, aggregate values to imitate (Ross and Bagnell, 2014)."""

from __future__ import annotations

from typing import ClassVar

import torch
from torch import nn

from searnn.algorithms.common.rounds import Aggregation, Round
from searnn.algorithms.common.settings import Buffer, Normalisation, ReferenceDecay, RoundSteps
from searnn.algorithms.searnn import Searnn
from searnn.defaults import Recipe, share_of_steps
from searnn.interfaces import CellSampler, Cost, Loss, Oracle, RollIn, Stepper, TokenSampler
from searnn.oracles import CopyTarget
from searnn.policies import Reference
from searnn.samplers import AllCells, AllTokens
from searnn.settings import check
from searnn.types import Batch, Update


class Aggrevate(nn.Module):
    """Visit cells as DAgger does, try tokens there, and learn their cost to go: what each costs if the oracle goes on.

    `tokens` and `cells` say what is tried. `loss` is any cost-sensitive one; the squared loss is the paper's
    regression. Rounds, `buffer` and `reference_decay` are those of DAgger.
    """

    name: ClassVar[str] = "aggrevate"
    recipe: ClassVar[Recipe] = {"round_steps": share_of_steps(1 / 40)}

    def __init__(
        self,
        *,
        cost: Cost,
        loss: Loss,
        oracle: Oracle = CopyTarget(),  # noqa: B008
        tokens: TokenSampler = AllTokens(),  # noqa: B008
        cells: CellSampler = AllCells(),  # noqa: B008
        round_steps: RoundSteps = 500,
        buffer: Buffer = 5,
        reference_decay: ReferenceDecay = 0.5,
        normalisation: Normalisation = "batch",
    ) -> None:
        super().__init__()
        check(Aggrevate, locals())
        self.cost, self.loss, self.oracle = cost, loss, oracle
        self.tokens, self.cells, self.normalisation = tokens, cells, normalisation
        self.aggregation = Aggregation(round_steps, buffer, reference_decay)

    def attach(self, model: nn.Module) -> None:
        """Make room for the policies of the rounds that are kept."""
        self.aggregation.attach(model)

    def at(self, step: int) -> Round:
        """What this update does."""
        return self.aggregation.phase(step, self.oracle, self._learn)

    def forward(self, model: Stepper, batch: Batch, rng: torch.Generator) -> Update:
        """The first update."""
        return self.at(0)(model, batch, rng)

    def _learn(self, roll_in: RollIn) -> Searnn:
        return Searnn(
            roll_in=roll_in,
            roll_out=Reference(self.oracle),
            cost=self.cost,
            loss=self.loss,
            tokens=self.tokens,
            cells=self.cells,
            normalisation=self.normalisation,
        )
