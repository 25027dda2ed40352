"""Regression of the scores on the costs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from searnn.losses.masked import Alpha, scaled_costs
from searnn.settings import check


@dataclass(frozen=True)
class SquaredLoss:
    """`L(s; c) = 1/2 sum_a ( s(a) + alpha (c(a) - min c) )^2`, over the valid candidates.

    The score of a candidate is fitted to its negated cost, the cheapest one's to 0. Not in the paper; in the authors'
    release.
    """

    name: ClassVar[str] = "l2"
    alpha: Alpha = 1.0

    def __post_init__(self) -> None:
        check(self)

    def __call__(
        self, scores: Float[Tensor, "B C K"], costs: Float[Tensor, "B C K"], valid: Bool[Tensor, "B C K"]
    ) -> Float[Tensor, "B C"]:
        residuals = torch.where(valid, scores + scaled_costs(costs, valid, self.alpha), 0.0)
        return residuals.square().sum(-1) / 2
