"""Target learning: the log-loss of the cheapest candidate, plain and with cost-augmented scores."""

from __future__ import annotations

from typing import ClassVar

from jaxtyping import Bool, Float, Int
from torch import Tensor

from searnn.losses.masked import Alpha, Ties, masked_log_softmax, scaled_costs
from searnn.losses.ties import TiedLoss
from searnn.settings import checked


@checked
class LogLoss(TiedLoss):
    """LL (section "Choosing a cost-sensitive loss"); sLL where the candidates are a sample of the vocabulary.

    `L(s; c) = -log( exp(s(a*)) / sum_i exp(s(i)) )` with `a* = argmin_a c(a)`, over the valid candidates.

    `ties` says which of several equally cheap candidates is a*. "model", the default, takes the one with the highest
    score: nothing is gained by moving the model from one best token to another, and the target stays the same from one
    update to the next. "random" draws one, as the authors do by adding noise to the costs. These reasons make the
    default, not a measurement: on OCR the best validation errors were 1.31 % ("model") and 1.41 % ("random") with
    learned roll-outs, but 1.44 % and 1.35 % with mixed ones (three seeds, docs/results/ocr.md).
    """

    name: ClassVar[str] = "ll"
    ties: Ties = "model"

    def of(
        self,
        target: Int[Tensor, "B C 1"],
        scores: Float[Tensor, "B C K"],
        costs: Float[Tensor, "B C K"],
        valid: Bool[Tensor, "B C K"],
    ) -> Float[Tensor, "B C"]:
        """The loss of each cell where a* is the candidate at `target`."""
        return -masked_log_softmax(scores, valid).gather(-1, target).squeeze(-1)


@checked
class CostAugmentedLogLoss(TiedLoss):
    """LLCAS, the log-loss with cost-augmented softmax (appendix "Losses").

    `L(s; c) = -log( exp(s(a*) + alpha c(a*)) / sum_i exp(s(i) + alpha c(i)) )` with `a* = argmin_a c(a)`, over the
    valid candidates. `ties` as in `LogLoss`.
    """

    name: ClassVar[str] = "llcas"
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
        # The softmax does not see the shift of the costs by their minimum, and large costs lose no digits to it.
        augmented = scores + scaled_costs(costs, valid, self.alpha)
        return -masked_log_softmax(augmented, valid).gather(-1, target).squeeze(-1)
