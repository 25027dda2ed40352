"""A running average of the model's weights, which is evaluated and kept in place of the last ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import torch
from torch import Tensor, nn

from searnn.training.checkpoints import AVERAGE
from searnn.training.fitting import check_tensor


class Average:
    """`decay * average + (1 - decay) * weights` after every update.

    At first the decay is less, (1 + n) / (10 + n) after n updates, so that the random weights are soon forgotten. For
    the first 9 / (1 - decay) updates the average spans about the last ninth of them: a decay near 1 fits runs of any
    length.
    """

    def __init__(self, model: nn.Module, decay: float) -> None:
        self.decay = decay
        self.parameters = list(model.parameters())
        self.means = [weight.clone() for weight in self.weights]
        places = {id(parameter): place for place, parameter in enumerate(self.parameters)}
        named = model.named_parameters(remove_duplicate=False)  # tied weights have several names
        self.names = {name: places[id(parameter)] for name, parameter in named}

    @property
    def weights(self) -> list[Tensor]:
        """The model's own weights, where they are now: not copies."""
        return [parameter.detach() for parameter in self.parameters]

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
        return {f"{AVERAGE}{name}": self.means[place] for name, place in self.names.items()}

    def restore(self, tensors: Mapping[str, Tensor], folder: Path) -> None:
        """Put back what `tensors` gave; the rest of a checkpoint's tensors is passed over."""
        for name, place in self.names.items():
            full = f"{AVERAGE}{name}"
            check_tensor(full, tensors.get(full), self.means[place], folder)
            self.means[place].copy_(tensors[full])
