"""Focused costing (Goodman et al., 2016): a few learned steps, then the reference policy."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, ClassVar

import torch
from jaxtyping import Int
from torch import Tensor

from searnn.interfaces import Encoded
from searnn.policies.learned import Learned
from searnn.policies.reference import Reference, complete_rows
from searnn.schedules import Schedule
from searnn.settings import Setting, checked
from searnn.types import Batch, Branches, SearnnError


@checked
class Focused:
    """A roll-out of `steps` tokens by the model, the rest by the reference: linear in the length, not quadratic."""

    name: ClassVar[str] = "focused"
    steps: Annotated[
        int | float | Schedule,
        Setting(
            "learned steps of a focused roll-out before the reference", ge=0, whole=True, schedule="stepwise:0:1:9",
            name="focus_steps",
        ),
    ] = 1  # fmt: skip
    learned: Learned = field(default_factory=Learned)
    reference: Reference = field(default_factory=Reference)

    def roll_out(
        self, encoded: Encoded, branches: Branches, batch: Batch, rng: torch.Generator
    ) -> Int[Tensor, "B C K T"]:
        """Learned for `steps` tokens (a schedule's value is rounded down), then completed by the oracle."""
        if not isinstance(self.steps, (int, float)):
            raise SearnnError("steps is a schedule: take its value with searnn.schedules.at(..., step)")
        steps = int(self.steps)
        if steps == 0:
            return self.reference.roll_out(encoded, branches, batch, rng)
        partial = self.learned.finish(encoded, branches, batch, steps=steps)
        if steps >= branches.prefix.shape[1]:
            return partial
        return complete_rows(self.reference.oracle, partial.flatten(1, 2), batch).view_as(partial)
