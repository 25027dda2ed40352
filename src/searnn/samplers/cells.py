"""Which cells are costed: all, some at random, or those where the model is least sure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from searnn.rng import uniform
from searnn.samplers.candidates import choosable_log_probs
from searnn.sequences import valid_cells
from searnn.settings import Setting, checked
from searnn.types import Batch, SearnnError

Count = Annotated[int, Setting("number of costed cells", ge=1, name="n_cells")]


@dataclass(frozen=True)
class AllCells:
    """Every cell."""

    name: ClassVar[str] = "all"

    def __call__(self, prefix: Int[Tensor, "B T"], batch: Batch, rng: torch.Generator) -> Int[Tensor, "B C"]:
        return torch.arange(prefix.shape[1], device=prefix.device).expand(len(prefix), -1)


@checked
class UniformCells:
    """`n` of the cells that exist, uniformly without replacement; T, past the end, where an example has fewer."""

    name: ClassVar[str] = "uniform"
    n: Count

    def __call__(self, prefix: Int[Tensor, "B T"], batch: Batch, rng: torch.Generator) -> Int[Tensor, "B C"]:
        return _lowest(uniform(prefix.shape, rng, prefix.device), valid_cells(prefix, batch), self.n)


@checked
class UncertainCells:
    """Targeted sampling of cells: the `n` where the model is least sure; T where an example has fewer.

    The model is the less sure the smaller the margin between its two highest probabilities among the choosable tokens;
    of equal margins the earlier cell goes first. It needs the `scores` of the roll-in.
    """

    name: ClassVar[str] = "uncertain"
    needs_scores: ClassVar[bool] = True
    n: Count

    def __call__(
        self,
        prefix: Int[Tensor, "B T"],
        batch: Batch,
        rng: torch.Generator,
        *,
        scores: Float[Tensor, "B T V"] | None = None,
    ) -> Int[Tensor, "B C"]:
        if scores is None:
            raise SearnnError("UncertainCells was called without scores: pass the scores [B, T, V] of the prefix")
        best = choosable_log_probs(scores, batch.vocabulary).exp().topk(min(2, scores.shape[-1])).values
        margin = best[..., 0] - best[..., 1:].sum(-1)
        return _lowest(margin, valid_cells(prefix, batch), self.n)


def _lowest(keys: Float[Tensor, "B T"], valid: Bool[Tensor, "B T"], n: int) -> Int[Tensor, "B C"]:
    """The up to n valid cells with the lowest keys, in ascending order, then T."""
    width = keys.shape[1]
    ordered, cells = keys.masked_fill(~valid, math.inf).sort(stable=True)
    return torch.where(ordered < math.inf, cells, width)[:, :n].sort(dim=1).values
