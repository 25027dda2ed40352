"""LOLS, locally optimal learning to search (Chang et al., 2015, Algorithm 1)."""

from __future__ import annotations

from dataclasses import field
from typing import ClassVar

import torch

from searnn.algorithms.common.settings import DefaultCost, Normalisation, Softmax
from searnn.algorithms.searnn import searnn_with
from searnn.interfaces import CellSampler, Cost, Loss, Oracle, Stepper, TokenSampler
from searnn.oracles import CopyTarget
from searnn.policies import Learned, Mixed, Reference
from searnn.policies.mixed import ReferenceProbability
from searnn.samplers import AllCells, AllTokens
from searnn.settings import checked
from searnn.types import Batch, Update


@checked
class Lols:
    """Roll in with the model; finish each branch by the reference with `reference_probability`, else by the model.

    The coin, the paper's beta, is tossed anew for every roll-out.
    """

    name: ClassVar[str] = "lols"
    cost: Cost
    loss: Loss
    oracle: Oracle = field(default_factory=CopyTarget)
    reference_probability: ReferenceProbability = 0.5
    tokens: TokenSampler = field(default_factory=AllTokens)
    cells: CellSampler = field(default_factory=AllCells)
    normalisation: Normalisation = "batch"
    softmax: Softmax = "candidates"
    default_cost: DefaultCost = None

    def __call__(self, model: Stepper, batch: Batch, rng: torch.Generator) -> Update:
        """One loss from one batch."""
        return searnn_with(self, Learned(), self.roll_out())(model, batch, rng)

    def roll_out(self) -> Mixed:
        """The paper's pi_out."""
        return Mixed(Reference(self.oracle), self.reference_probability, per="branch")
