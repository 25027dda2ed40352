"""The Jensen-Shannon divergence between the target distribution of the costs and the model's."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from searnn.losses.masked import Alpha, masked_log_softmax, target_log_probs
from searnn.settings import check


@dataclass(frozen=True)
class JSLoss:
    """`L(s; c) = KL(P_M || M) / 2 + KL(P_C || M) / 2` with `M = (P_M + P_C) / 2`, over the valid candidates.

    P_C and P_M as in `KLLoss`; the value lies between 0 and log 2. Not in the paper; in the authors' release.
    """

    name: ClassVar[str] = "js"
    alpha: Alpha

    def __post_init__(self) -> None:
        check(self)

    def __call__(
        self, scores: Float[Tensor, "B C K"], costs: Float[Tensor, "B C K"], valid: Bool[Tensor, "B C K"]
    ) -> Float[Tensor, "B C"]:
        ours = masked_log_softmax(scores, valid)
        theirs = target_log_probs(costs, valid, self.alpha)
        middle = torch.logaddexp(ours, theirs) - math.log(2)
        terms = ours.exp() * (ours - middle) + theirs.exp() * (theirs - middle)
        return torch.where(valid, terms, 0.0).sum(-1) / 2
