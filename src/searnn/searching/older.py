"""Policies as the search calls them; those written for the version before, without `Encoded`, still work."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from inspect import signature
from typing import Any
from warnings import warn

import torch
from jaxtyping import Int
from torch import Tensor

from searnn.interfaces import Encoded, RollIn, RollOut
from searnn.types import Batch, Branches, SearnnError


def as_roll_in(policy: Any) -> RollIn:
    """The policy as a roll-in; refused where it is none."""
    if not isinstance(policy, RollIn):
        told = "the roll-in must write a prefix, as Learned() or Reference()"
        raise SearnnError(f"{type(policy).__name__} does not roll in: {told}")
    return OlderRollIn(policy) if _is_older(type(policy), "roll_in") else policy


def as_roll_out(policy: Any) -> RollOut:
    """The policy as a roll-out; refused where it is none."""
    if not isinstance(policy, RollOut):
        told = "the roll-out must finish branches, as Learned() or Mixed()"
        raise SearnnError(f"{type(policy).__name__} does not roll out: {told}")
    return OlderRollOut(policy) if _is_older(type(policy), "roll_out") else policy


@dataclass(frozen=True)
class OlderRollIn:
    """A roll-in that takes the model and its memory one by one."""

    policy: Any

    def roll_in(self, encoded: Encoded, batch: Batch, rng: torch.Generator) -> Int[Tensor, "B T"]:
        """The policy's own."""
        return self.policy.roll_in(encoded.model, encoded.memory, batch, rng)  # type: ignore[no-any-return]


@dataclass(frozen=True)
class OlderRollOut:
    """A roll-out that takes the model, its memory and its trail one by one."""

    policy: Any

    def roll_out(
        self, encoded: Encoded, branches: Branches, batch: Batch, rng: torch.Generator
    ) -> Int[Tensor, "B C K T"]:
        """The policy's own."""
        return self.policy.roll_out(*encoded, branches, batch, rng)  # type: ignore[no-any-return]


@cache
def _is_older(kind: type, method: str) -> bool:
    """Whether a class has the method with the model in place of what was encoded; deprecated."""
    arguments = list(signature(getattr(kind, method)).parameters)
    if arguments[1:2] != ["model"]:
        return False
    told = f"{kind.__name__}.{method} takes (model, memory, ...): let it take (encoded, ...), which has them as fields"
    warn(told, DeprecationWarning, stacklevel=4)
    return True
