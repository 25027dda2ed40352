"""Several samplers at once."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

from searnn.interfaces import TokenSampler
from searnn.types import Batch, SearnnError


@dataclass(frozen=True)
class UnionTokens:
    """The candidates of every sampler side by side; the search masks the repeated ones."""

    samplers: tuple[TokenSampler, ...]

    def __post_init__(self) -> None:
        if not self.samplers:
            raise SearnnError("a union of no token samplers was given: name at least one")

    def __call__(
        self, scores: Float[Tensor, "B C V"], batch: Batch, cells: Int[Tensor, "B C"], rng: torch.Generator
    ) -> Int[Tensor, "B C K"]:
        return torch.cat([sampler(scores, batch, cells, rng) for sampler in self.samplers], -1)


def union(*samplers: TokenSampler) -> UnionTokens:
    """The union of token samplers: the paper's NMT runs took `union(TopTokens(15), NeighbourTokens(11))`, 25 tokens."""
    return UnionTokens(samplers)
