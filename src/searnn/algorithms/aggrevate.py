"""AggreVaTe, aggregate values to imitate (Ross and Bagnell, 2014)."""

from __future__ import annotations

from typing import ClassVar

from searnn.algorithms.common.rounds import Aggregating, Aggregation
from searnn.algorithms.common.settings import (
    Buffer,
    DefaultCost,
    Normalisation,
    ReferenceDecay,
    RoundSteps,
    Softmax,
)
from searnn.algorithms.searnn import Searnn, searnn_with
from searnn.defaults import Recipe, share_of_steps
from searnn.interfaces import CellSampler, Cost, Loss, Oracle, RollIn, TokenSampler
from searnn.oracles import CopyTarget
from searnn.policies import Reference
from searnn.samplers import AllCells, AllTokens
from searnn.settings import check


class Aggrevate(Aggregating):
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
        softmax: Softmax = "candidates",
        default_cost: DefaultCost = None,
    ) -> None:
        check(Aggrevate, locals())
        super().__init__(oracle, normalisation, Aggregation(round_steps, buffer, reference_decay))
        self.softmax, self.default_cost = softmax, default_cost
        self.cost, self.loss, self.tokens, self.cells = cost, loss, tokens, cells

    def learn(self, roll_in: RollIn) -> Searnn:
        """Learn the costs to go there."""
        return searnn_with(self, roll_in, Reference(self.oracle))
