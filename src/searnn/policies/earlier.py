"""A policy carried out by another model than the one that learns, such as a copy of it from an earlier round."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Int
from torch import Tensor, nn

from searnn.interfaces import Encoded, RollIn
from searnn.models import with_trace
from searnn.searching import as_roll_in
from searnn.types import Batch


@dataclass(frozen=True)
class Earlier:
    """A roll-in by `model`, which reads the inputs itself, in place of the model that learns."""

    model: nn.Module
    policy: RollIn

    def roll_in(self, encoded: Encoded, batch: Batch, rng: torch.Generator) -> Int[Tensor, "B T"]:
        """The other model's prefix."""
        own = with_trace(self.model)  # type: ignore[arg-type]
        return as_roll_in(self.policy).roll_in(Encoded(own, own.encode(batch.inputs)), batch, rng)
