"""Targets made of costs, `P(a) ~ exp(-alpha c(a))`, with an alpha that is given or that follows from their entropy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from typing import Annotated

import torch
from jaxtyping import Bool, Float
from torch import Tensor, nn

from searnn.losses.masked import lowest_cost, target_log_probs
from searnn.settings import Setting, checked

RATE = 0.05  # of log alpha, where the entropy misses what is wanted by as much as that
FAR = 60.0  # log alpha stays within it

AlphaOrAuto = Annotated[float | None, Setting("weight of the costs; auto: by the targets' entropy", ge=0, none="auto")]
TargetEntropy = Annotated[float, Setting("entropy of the targets that alpha auto keeps, in nats", gt=0)]


class Temperature(nn.Module):
    """An alpha that is moved after every update, so that the targets keep an entropy.

    It is that of the cells whose costs differ, less that of an even choice among the cheapest tokens, which no alpha
    takes away: it falls from log K to 0 as alpha grows, and does not depend on the scale of the costs. What is seen of
    a whole batch moves the alpha of the next one, so all shards of a batch have the same.
    """

    log_alpha: Tensor

    def __init__(self, entropy: float) -> None:
        super().__init__()
        self.entropy = entropy
        self.register_buffer("log_alpha", torch.zeros(()))

    @property
    def alpha(self) -> Float[Tensor, ""]:
        """The weight of the costs as it is now; a copy, since it may be moved before the gradient is taken."""
        return self.log_alpha.exp()

    def seen(
        self, costs: Float[Tensor, "B C K"], valid: Bool[Tensor, "B C K"]
    ) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """What is logged of the targets, and over how many cells it is a mean: `entropy_gap` is what is too much."""
        lowest = lowest_cost(costs, valid).unsqueeze(-1)
        cheapest = valid & (costs == lowest)
        differ = (valid & ~cheapest).any(-1)
        log_probs = target_log_probs(costs, valid, self.alpha)
        entropy = -(log_probs.exp() * log_probs).sum(-1) - cheapest.sum(-1).clamp(min=1).to(costs.dtype).log()
        count = differ.sum()
        gap = ((entropy - self.entropy) * differ).sum() / count.clamp(min=1)
        return {"alpha": self.alpha, "entropy_gap": gap}, {"entropy_gap": count}

    def adjust(self, logs: Mapping[str, Tensor], free: Float[Tensor, ""]) -> None:
        """Move alpha by what was logged of the whole batch; not at all where `free` is 0."""
        gap = logs.get("entropy_gap")
        if gap is not None:
            move = RATE * gap.to(self.log_alpha) / self.entropy
            self.log_alpha.add_(torch.where(free > 0, move, torch.zeros_like(move))).clamp_(-FAR, FAR)


@checked
class TargetLoss:
    """A loss whose targets are `P(a) ~ exp(-alpha c(a))`; without an alpha they keep `target_entropy`."""

    alpha: AlphaOrAuto
    target_entropy: TargetEntropy = 0.5
    tuned: Temperature | None = field(default=None, repr=False, compare=False)  # made where there is no alpha

    def __post_init__(self) -> None:
        if self.alpha is None and self.tuned is None:
            object.__setattr__(self, "tuned", Temperature(self.target_entropy))

    def targets(self, costs: Float[Tensor, "B C K"], valid: Bool[Tensor, "B C K"]) -> Float[Tensor, "B C K"]:
        """The log of the target distribution; 0 where not valid."""
        alpha = self.alpha if self.tuned is None else self.tuned.alpha
        assert alpha is not None
        return target_log_probs(costs, valid, alpha)

    def seen(
        self, costs: Float[Tensor, "B C K"], valid: Bool[Tensor, "B C K"]
    ) -> tuple[dict[str, Tensor], dict[str, Tensor]]:
        """What is logged of the targets where alpha follows from them."""
        return ({}, {}) if self.tuned is None else self.tuned.seen(costs, valid)
