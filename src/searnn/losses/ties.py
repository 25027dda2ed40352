"""What the losses of the cheapest candidate share: which of several equally cheap ones it is."""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from searnn.losses.masked import Ties, cheapest


class TiedLoss(ABC):
    """A loss of a* = argmin_a c(a); `ties` says how it is chosen among the cheapest."""

    ties: Ties

    @property
    def random(self) -> bool:
        """Whether a call needs `rng`."""
        return self.ties == "random"

    def __call__(
        self,
        scores: Float[Tensor, "B C K"],
        costs: Float[Tensor, "B C K"],
        valid: Bool[Tensor, "B C K"],
        *,
        rng: torch.Generator | None = None,
    ) -> Float[Tensor, "B C"]:
        return self.of(cheapest(scores, costs, valid, self.ties, rng), scores, costs, valid)

    @abstractmethod
    def of(
        self,
        target: Int[Tensor, "B C 1"],
        scores: Float[Tensor, "B C K"],
        costs: Float[Tensor, "B C K"],
        valid: Bool[Tensor, "B C K"],
    ) -> Float[Tensor, "B C"]:
        """The loss of each cell where a* is the candidate at `target`."""
