"""The Kullback-Leibler divergences between the target distribution of the costs and the model's."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from jaxtyping import Bool, Float
from torch import Tensor

from searnn.losses.masked import Alpha, masked_log_softmax, target_log_probs
from searnn.settings import check


@dataclass(frozen=True)
class KLLoss:
    """KL (section "Choosing a cost-sensitive loss"); sKL where the candidates are a sample of the vocabulary.

    `L(s; c) = -sum_a P_C(a) log P_M(a)` with `P_C(a) = exp(-alpha c(a)) / sum_i exp(-alpha c(i))` and
    `P_M(a) = exp(s(a)) / sum_i exp(s(i))`, over the valid candidates. As in the paper this is the cross-entropy: it
    differs from the divergence by the entropy of P_C, which the scores do not change.
    """

    name: ClassVar[str] = "kl"
    alpha: Alpha

    def __post_init__(self) -> None:
        check(self)

    def __call__(
        self, scores: Float[Tensor, "B C K"], costs: Float[Tensor, "B C K"], valid: Bool[Tensor, "B C K"]
    ) -> Float[Tensor, "B C"]:
        target = target_log_probs(costs, valid, self.alpha).exp()
        return -(target * masked_log_softmax(scores, valid)).sum(-1)


@dataclass(frozen=True)
class ReverseKLLoss:
    """The divergence the other way round: `L(s; c) = KL(P_M || P_C) = sum_a P_M(a) log( P_M(a) / P_C(a) )`.

    P_C and P_M as in `KLLoss`, over the valid candidates. Not in the paper; in the authors' release.
    """

    name: ClassVar[str] = "reverse-kl"
    alpha: Alpha

    def __post_init__(self) -> None:
        check(self)

    def __call__(
        self, scores: Float[Tensor, "B C K"], costs: Float[Tensor, "B C K"], valid: Bool[Tensor, "B C K"]
    ) -> Float[Tensor, "B C"]:
        log_probs = masked_log_softmax(scores, valid)
        return (log_probs.exp() * (log_probs - target_log_probs(costs, valid, self.alpha))).sum(-1)
