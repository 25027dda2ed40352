"""AggreVaTeD, the differentiable form of AggreVaTe (Sun et al., 2017)."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from searnn.algorithms.common.settings import DefaultCost, Normalisation, Softmax
from searnn.algorithms.searnn import searnn_with
from searnn.defaults import NEEDS_WARM_UP, Recipe
from searnn.interfaces import CellSampler, Cost, Loss, Oracle, RollIn, Stepper, TokenSampler
from searnn.losses.masked import lowest_cost, masked_log_softmax
from searnn.oracles import CopyTarget
from searnn.policies import Reference, Sampled
from searnn.samplers import AllCells, AllTokens
from searnn.settings import checked
from searnn.types import Batch, Update


@dataclass(frozen=True)
class ExpectedCost:
    """`L(s; c) = sum_a P_M(a) (c(a) - min c)` over the valid candidates: the expected regret.

    The minimum is there for the eye: it changes the value, not the gradient.
    """

    def __call__(
        self, scores: Float[Tensor, "B C K"], costs: Float[Tensor, "B C K"], valid: Bool[Tensor, "B C K"]
    ) -> Float[Tensor, "B C"]:
        regrets = torch.where(valid, costs - lowest_cost(costs, valid).unsqueeze(-1), 0.0)
        return (masked_log_softmax(scores, valid).exp() * regrets).sum(-1)


@checked
class Aggrevated:
    """The policy gradient of the expected cost to go: `sum_a pi(a | s) Q*(s, a)` at every cell s that is visited.

    Q* is the cost of the oracle's completion. The roll-in is the model's own samples unless `roll_in` says otherwise.
    With all tokens the expectation is exact; with some it is over these alone, pi renormalised.

    Deviation: the paper rolls in with a mixture of pi and the expert whose share falls. Here that is the roll-in
    `Mixed(reference_probability=..., per="token", sampled=True)` with a schedule, and not the default.
    """

    name: ClassVar[str] = "aggrevated"
    loss: ClassVar[Loss] = ExpectedCost()
    recipe: ClassVar[Recipe] = {"roll_in": "sampled", **NEEDS_WARM_UP}
    cost: Cost
    roll_in: RollIn = field(default_factory=Sampled)
    oracle: Oracle = field(default_factory=CopyTarget)
    tokens: TokenSampler = field(default_factory=AllTokens)
    cells: CellSampler = field(default_factory=AllCells)
    normalisation: Normalisation = "batch"
    softmax: Softmax = "candidates"
    default_cost: DefaultCost = None

    def __call__(self, model: Stepper, batch: Batch, rng: torch.Generator) -> Update:
        """One loss from one batch."""
        return searnn_with(self, self.roll_in, Reference(self.oracle))(model, batch, rng)
