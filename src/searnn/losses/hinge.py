"""The structured hinge loss."""

from __future__ import annotations

import math
from typing import ClassVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from searnn.losses.masked import Alpha, Ties, lowest_cost, scaled_costs
from searnn.losses.ties import TiedLoss
from searnn.settings import checked


@checked
class HingeLoss(TiedLoss):
    """SHL, the cost-sensitive structured hinge loss (appendix "Losses"); the paper has alpha = 1.

    `L(s; c) = max_a( s(a) + alpha c(a) ) - s(a*)` with `a* = argmin_a c(a)`, over the valid candidates. Its least
    value is `alpha min c`. `ties` as in `LogLoss`.
    """

    name: ClassVar[str] = "hinge"
    alpha: Alpha = 1.0
    ties: Ties = "model"

    def of(
        self,
        target: Int[Tensor, "B C 1"],
        scores: Float[Tensor, "B C K"],
        costs: Float[Tensor, "B C K"],
        valid: Bool[Tensor, "B C K"],
    ) -> Float[Tensor, "B C"]:
        """The loss of each cell where a* is the candidate at `target`."""
        chosen = scores.gather(-1, target).squeeze(-1)
        # The minimum is taken out of the costs and added again, so that large costs do not drown the scores.
        augmented = (scores + scaled_costs(costs, valid, self.alpha)).masked_fill(~valid, -math.inf)
        most = torch.finfo(costs.dtype).max / 4
        least = (min(self.alpha, most) * lowest_cost(costs, valid)).clamp(-most, most)
        return torch.where(valid.any(-1), augmented.amax(-1) - chosen + least, 0.0)
