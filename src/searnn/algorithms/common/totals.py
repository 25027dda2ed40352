"""From one loss per cell to the scalar that is differentiated."""

from __future__ import annotations

from jaxtyping import Bool, Float
from torch import Tensor

from searnn.algorithms.common.settings import Normalisation


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
