"""The reference policy: rolls in with the truth and rolls out by an oracle; it never runs the model."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from searnn.interfaces import ClosedForm, Cost, Encoded, Oracle
from searnn.oracles import CopyTarget, OptimalEdit
from searnn.sequences import seal
from searnn.types import Batch, Branches


@dataclass(frozen=True)
class Reference:
    """Teacher forcing as a roll-in (the paper's Appendix A.2), the oracle's completion as a roll-out."""

    name: ClassVar[str] = "reference"
    oracle: Oracle = field(default_factory=CopyTarget)

    def roll_in(self, encoded: Encoded, batch: Batch, rng: torch.Generator) -> Int[Tensor, "B T"]:
        """The truth, as far as there is room for it."""
        return seal(batch.targets, batch.lengths, encoded.model.vocab)

    def roll_out(
        self, encoded: Encoded, branches: Branches, batch: Batch, rng: torch.Generator
    ) -> Int[Tensor, "B C K T"]:
        """The oracle's completion of every branch."""
        return self.oracle.complete(branches, batch)

    def known_costs(self, cost: Cost, branches: Branches, batch: Batch) -> Float[Tensor, "B C K"] | None:
        """What the completions cost, without looking at them, where the cost knows a formula for this oracle."""
        oracle = self.oracle
        if not isinstance(cost, ClosedForm) or not isinstance(oracle, (CopyTarget, OptimalEdit)):
            return None
        return cost.closed_form(oracle.name, branches, batch)
