"""A running average of the model's weights, which is evaluated and kept in place of the last ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn

from searnn.types import SearnnError

PREFIX = "average."


class Average:
    """`decay * average + (1 - decay) * weights` after every update.

    At first the decay is less, (1 + n) / (10 + n) after n updates, so that the random weights are soon forgotten.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self.names, parameters = zip(*model.named_parameters(), strict=True)
        self.weights: list[Tensor] = [parameter.detach() for parameter in parameters]  # share their memory
        self.means = [weight.clone() for weight in self.weights]

    def update(self, updates: int) -> None:
        """Take in the weights as they are after so many updates."""
        torch._foreach_lerp_(self.means, self.weights, 1 - min(self.decay, (1 + updates) / (10 + updates)))

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """The model has the average as its weights until the end, then its own again, to the bit."""
        own = [weight.clone() for weight in self.weights]
        torch._foreach_copy_(self.weights, self.means)
        try:
            yield
        finally:
            torch._foreach_copy_(self.weights, own)

    def tensors(self) -> dict[str, Tensor]:
        """What resuming needs."""
        return {f"{PREFIX}{name}": mean for name, mean in zip(self.names, self.means, strict=True)}

    def restore(self, tensors: Mapping[str, Tensor]) -> None:
        """Put back what `tensors` gave; the rest of a checkpoint's tensors is passed over."""
        for name, mean in zip(self.names, self.means, strict=True):
            saved = tensors.get(f"{PREFIX}{name}")
            if saved is None or saved.shape != mean.shape:
                raise SearnnError(f"the checkpoint has no average of {name}: train anew")
            mean.copy_(saved)
