"""From the costs of a cell to its loss, and from the losses of all cells to the scalar that is differentiated."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from searnn.algorithms.common.settings import Normalisation
from searnn.interfaces import Loss, NeedsRandomness


def total(
    losses: Float[Tensor, "B C"], counted: Bool[Tensor, "B C"], normalisation: Normalisation
) -> Float[Tensor, ""]:
    """The sum over cells, and the mean over examples ("batch", as the paper writes it), over cells, or neither."""
    return normalised((losses * counted).sum(), counted, normalisation)


def normalised(
    summed: Float[Tensor, ""], counted: Bool[Tensor, "B C"], normalisation: Normalisation
) -> Float[Tensor, ""]:
    """A sum over all cells of a batch, divided by its examples, by its counted cells, or by nothing."""
    if normalisation == "batch":
        return summed / len(counted)
    if normalisation == "cell":
        return summed / counted.sum().clamp(min=1)
    return summed


def cell_losses(
    loss: Loss,
    scores: Float[Tensor, "B C K"],
    costs: Float[Tensor, "B C K"],
    valid: Bool[Tensor, "B C K"],
    rng: torch.Generator,
) -> Float[Tensor, "B C"]:
    """The loss of each cell, in at least 32 bits, which costs and losses want; `rng` is for one that draws."""
    scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
    draws: dict[str, Any] = {"rng": rng} if isinstance(loss, NeedsRandomness) and loss.random else {}
    return loss(scores, costs.to(scores.dtype), valid, **draws)
