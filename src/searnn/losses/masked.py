"""What the losses share: everything is over the valid candidates of a cell, and stays finite where there is none.

A value that must not count is replaced before it enters a softmax or a maximum, and the result is replaced again:
`-inf` or NaN there would survive a multiplication by zero, in the value or in the gradient.
"""

from __future__ import annotations

import math
from typing import Annotated, Literal

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from searnn.rng import uniform
from searnn.settings import Setting
from searnn.types import SearnnError

Alpha = Annotated[float, Setting("weight of the costs", ge=0)]  # 0 makes all costs equal
Ties = Annotated[Literal["random", "model"], Setting("how ties for the cheapest token are broken")]


def masked_log_softmax(scores: Float[Tensor, "B C K"], valid: Bool[Tensor, "B C K"]) -> Float[Tensor, "B C K"]:
    """The log of the softmax over the valid candidates; 0 at the others."""
    filled = scores.masked_fill(~valid, torch.finfo(scores.dtype).min)
    return torch.where(valid, filled.log_softmax(-1), 0.0)


def lowest_cost(costs: Float[Tensor, "B C K"], valid: Bool[Tensor, "B C K"]) -> Float[Tensor, "B C"]:
    """The cost of the cheapest valid candidate; 0 where there is none."""
    return torch.where(valid.any(-1), costs.masked_fill(~valid, math.inf).amin(-1), 0.0)


def scaled_costs(
    costs: Float[Tensor, "B C K"], valid: Bool[Tensor, "B C K"], alpha: float | Float[Tensor, ""]
) -> Float[Tensor, "B C K"]:
    """`alpha (c(a) - min c)` of the valid candidates and 0 at the others; finite however large alpha is."""
    most = torch.finfo(costs.dtype).max / 4
    shifted = torch.where(valid, costs - lowest_cost(costs, valid).unsqueeze(-1), 0.0)
    weight = alpha.to(costs.dtype) if isinstance(alpha, Tensor) else min(alpha, most)
    return (weight * shifted).clamp(max=most)


def target_log_probs(
    costs: Float[Tensor, "B C K"], valid: Bool[Tensor, "B C K"], alpha: float | Float[Tensor, ""]
) -> Float[Tensor, "B C K"]:
    """The log of the target distribution `P_C(a) = exp(-alpha c(a)) / sum_i exp(-alpha c(i))`; 0 where not valid."""
    return masked_log_softmax(-scaled_costs(costs, valid, alpha), valid)


def cheapest(
    scores: Float[Tensor, "B C K"],
    costs: Float[Tensor, "B C K"],
    valid: Bool[Tensor, "B C K"],
    ties: Ties,
    rng: torch.Generator | None,
) -> Int[Tensor, "B C 1"]:
    """The index of `a* = argmin c(a)` among the valid candidates, exact ties broken by `ties`."""
    if ties == "random":
        if rng is None:
            raise SearnnError("ties='random' draws among the cheapest candidates: pass rng=, or take ties='model'")
        preference = uniform(scores.shape, rng, scores.device)
    else:  # a score of -inf must still win over what is not among the cheapest
        preference = scores.detach().clamp(min=torch.finfo(scores.dtype).min)
    tied = valid & (costs == lowest_cost(costs, valid).unsqueeze(-1))
    return preference.masked_fill(~tied, -math.inf).argmax(-1, keepdim=True)
