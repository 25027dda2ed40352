"""Divergences between the target distribution of the costs and the model's: Kullback-Leibler's and Jensen-Shannon's."""

from __future__ import annotations

import math
from typing import ClassVar

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from searnn.losses.masked import masked_log_softmax
from searnn.losses.temperature import TargetLoss
from searnn.settings import checked


@checked
class KLLoss(TargetLoss):
    """KL (section "Choosing a cost-sensitive loss"); sKL where the candidates are a sample of the vocabulary.

    `L(s; c) = -sum_a P_C(a) log P_M(a)` with `P_C(a) = exp(-alpha c(a)) / sum_i exp(-alpha c(i))` and
    `P_M(a) = exp(s(a)) / sum_i exp(s(i))`, over the valid candidates. As in the paper this is the cross-entropy: it
    differs from the divergence by the entropy of P_C, which the scores do not change.
    """

    name: ClassVar[str] = "kl"

    def __call__(
        self, scores: Float[Tensor, "B C K"], costs: Float[Tensor, "B C K"], valid: Bool[Tensor, "B C K"]
    ) -> Float[Tensor, "B C"]:
        target = self.targets(costs, valid).exp()
        return -(target * masked_log_softmax(scores, valid)).sum(-1)


@checked
class ReverseKLLoss(TargetLoss):
    """The divergence the other way round: `L(s; c) = KL(P_M || P_C) = sum_a P_M(a) log( P_M(a) / P_C(a) )`.

    P_C and P_M as in `KLLoss`, over the valid candidates. Not in the paper; in the authors' release.
    """

    name: ClassVar[str] = "reverse-kl"

    def __call__(
        self, scores: Float[Tensor, "B C K"], costs: Float[Tensor, "B C K"], valid: Bool[Tensor, "B C K"]
    ) -> Float[Tensor, "B C"]:
        log_probs = masked_log_softmax(scores, valid)
        return (log_probs.exp() * (log_probs - self.targets(costs, valid))).sum(-1)


@checked
class JSLoss(TargetLoss):
    """`L(s; c) = KL(P_M || M) / 2 + KL(P_C || M) / 2` with `M = (P_M + P_C) / 2`, over the valid candidates.

    P_C and P_M as in `KLLoss`; the value lies between 0 and log 2. Not in the paper; in the authors' release.
    """

    name: ClassVar[str] = "js"

    def __call__(
        self, scores: Float[Tensor, "B C K"], costs: Float[Tensor, "B C K"], valid: Bool[Tensor, "B C K"]
    ) -> Float[Tensor, "B C"]:
        ours = masked_log_softmax(scores, valid)
        theirs = self.targets(costs, valid)
        middle = torch.logaddexp(ours, theirs) - math.log(2)
        terms = ours.exp() * (ours - middle) + theirs.exp() * (theirs - middle)
        return torch.where(valid, terms, 0.0).sum(-1) / 2
