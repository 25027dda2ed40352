"""Recurrent encoders of tokens or feature vectors, one- or two-directional, blind to padding."""

from __future__ import annotations

from typing import cast

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from searnn.models.cells import LAYERS
from searnn.types import Inputs


def reverse(values: Float[Tensor, "B S F"], lengths: Int[Tensor, "B"]) -> Float[Tensor, "B S F"]:
    """Each sequence back to front, its padding left at the end."""
    positions = torch.arange(values.shape[1], device=values.device)
    index = lengths.unsqueeze(1) - 1 - positions
    index = torch.where(index >= 0, index, positions)
    return values.gather(1, index.unsqueeze(-1).expand_as(values))


class Encoder(nn.Module):
    """Stacked recurrent layers; each direction is a layer of its own, so no packing and no host-side lengths."""

    def __init__(
        self,
        *,
        features: int | None,
        source_size: int | None,
        embedding: int,
        width: int,
        layers: int,
        cell: str,
        bidirectional: bool,
        dropout: float,
    ) -> None:
        super().__init__()
        self.embed = nn.Embedding(source_size, embedding) if source_size is not None else None
        self.directions = 2 if bidirectional else 1
        self.width = width * self.directions
        self.dropout = nn.Dropout(dropout)
        entering = embedding if source_size is not None else features
        assert entering is not None
        sizes = [entering, *[self.width] * (layers - 1)]
        self.layers = nn.ModuleList(
            nn.ModuleList(LAYERS[cell](size, width) for _ in range(self.directions)) for size in sizes
        )

    def forward(self, inputs: Inputs) -> tuple[Float[Tensor, "B S F"], list[Float[Tensor, "B F"]]]:
        """What is known at each source position, and the last state of every layer, directions side by side."""
        values = self.embed(inputs.values) if self.embed is not None else inputs.values
        last = (inputs.lengths - 1).clamp(min=0).view(-1, 1, 1)
        finals = []
        for directions in self.layers:
            values = self.dropout(values)
            sides, ends = [], []
            for side, layer in enumerate(cast(nn.ModuleList, directions)):
                outputs, _ = layer(reverse(values, inputs.lengths) if side else values)
                ends.append(outputs.gather(1, last.expand(-1, 1, outputs.shape[-1])).squeeze(1))
                sides.append(reverse(outputs, inputs.lengths) if side else outputs)
            values = torch.cat(sides, dim=-1)
            finals.append(torch.cat(ends, dim=-1))
        return values, finals
