"""Losses that are sums over all candidates: the consistent loss, and the regression of the scores on the costs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from searnn.losses.masked import Alpha, scaled_costs
from searnn.settings import checked


@dataclass(frozen=True)
class ConsistentLoss:
    """The consistent loss (appendix "Losses").

    `L(s; c) = sum_a c(a) ln(1 + exp(s~(a)))` with `s~(a) = s(a) - mean of s`, the sum and the mean over the valid
    candidates (the paper's A is their number where all tokens are costed).
    """

    name: ClassVar[str] = "consistent"

    def __call__(
        self, scores: Float[Tensor, "B C K"], costs: Float[Tensor, "B C K"], valid: Bool[Tensor, "B C K"]
    ) -> Float[Tensor, "B C"]:
        kept = torch.where(valid, scores, 0.0)
        mean = kept.sum(-1, keepdim=True) / valid.sum(-1, keepdim=True).clamp(min=1)
        # `softplus` turns linear above a threshold; this is exact and as stable.
        slopes = torch.logaddexp(kept - mean, torch.zeros_like(kept))
        return (torch.where(valid, costs, 0.0) * slopes).sum(-1)


@checked
class SquaredLoss:
    """`L(s; c) = 1/2 sum_a ( s(a) + alpha (c(a) - min c) )^2`, over the valid candidates.

    The score of a candidate is fitted to its negated cost, the cheapest one's to 0. Not in the paper; in the authors'
    release.
    """

    name: ClassVar[str] = "l2"
    alpha: Alpha = 1.0

    def __call__(
        self, scores: Float[Tensor, "B C K"], costs: Float[Tensor, "B C K"], valid: Bool[Tensor, "B C K"]
    ) -> Float[Tensor, "B C"]:
        residuals = torch.where(valid, scores + scaled_costs(costs, valid, self.alpha), 0.0)
        return residuals.square().sum(-1) / 2
