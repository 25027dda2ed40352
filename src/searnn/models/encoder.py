"""Encoders, recurrent in one or two directions or convolutional, blind to padding; how all read their source."""

from __future__ import annotations

import math
from typing import cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn
from torch.nn import functional

from searnn.models.layers import LAYERS
from searnn.types import Inputs, SearnnError


def real_positions(lengths: Int[Tensor, "B"], width: int) -> Bool[Tensor, "B S"]:
    """True at the source positions that are not padding."""
    return torch.arange(width, device=lengths.device) < lengths.unsqueeze(1)


def embed_source(table: nn.Embedding, tokens: Int[Tensor, "B S *N"]) -> Float[Tensor, "B S E"]:
    """The embedding at each source position; where it has several columns of tokens, the sum of theirs."""
    vectors = table(tokens)
    return vectors.sum(2) if tokens.ndim == 3 else vectors  # type: ignore[no-any-return]


def sinusoids(count: int, like: Float[Tensor, "*N D"]) -> Float[Tensor, "P D"]:
    """Vectors of the positions 0 to `count - 1` (Vaswani et al., 2017): sines and cosines of rates 1 to 10⁻⁴."""
    width, kind = like.shape[-1], torch.promote_types(like.dtype, torch.float32)  # 16 bits do not count beyond 256
    rates = torch.exp(torch.arange(0, width, 2, device=like.device, dtype=kind) * (-math.log(1e4) / width))
    angles = torch.arange(count, device=like.device, dtype=kind).unsqueeze(1) * rates
    return torch.cat([angles.sin(), angles.cos()], dim=1)[:, :width].to(like.dtype)


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
        values = embed_source(self.embed, inputs.values) if self.embed is not None else inputs.values
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


class PositionedSource(nn.Module):
    """Tokens or feature vectors as vectors of one width, the sinusoid of its position added to each."""

    def __init__(self, *, features: int | None, source_size: int | None, width: int) -> None:
        super().__init__()
        self.embed = nn.Embedding(source_size, width) if source_size is not None else None
        self.enter = nn.Linear(features, width) if features is not None else None
        self.scale = math.sqrt(width)  # first embeddings are of size 1/√D, positions of size 1
        if self.embed is not None:
            nn.init.normal_(self.embed.weight, std=1 / self.scale)

    def forward(self, values: Tensor) -> Float[Tensor, "B S D"]:
        """What stands at each source position."""
        if self.embed is not None:
            vectors = embed_source(self.embed, values) * self.scale
        else:
            assert self.enter is not None
            vectors = self.enter(values)
        return vectors + sinusoids(vectors.shape[1], vectors)


class ConvEncoder(nn.Module):
    """The encoder of Ranzato et al. (2016), after Rush et al. (2015): no recurrence, only local averages.

    Each source position is the average of the embeddings in a window around it, their positions added.

    Deviation: Ranzato et al. learn their position embeddings, up to a longest source; these are sinusoids, for any
    length. They compare by dot products; here the decoder's additive attention does, over the averages alone. At the
    ends the average is over the positions that exist.
    """

    def __init__(
        self, *, features: int | None, source_size: int | None, width: int, window: int, layers: int, dropout: float
    ) -> None:
        super().__init__()
        if window < 1 or window % 2 == 0:
            raise SearnnError(f"window is {window}, it must be an odd number of positions, centred on one")
        self.source = PositionedSource(features=features, source_size=source_size, width=width)
        self.dropout = nn.Dropout(dropout)
        self.width, self.window, self.layers = width, window, layers

    def forward(self, inputs: Inputs) -> tuple[Float[Tensor, "B S D"], list[Float[Tensor, "B D"]]]:
        """What is known at each source position, and its mean over the source once for every layer of the decoder."""
        values = self.dropout(self.source(inputs.values))
        mask = real_positions(inputs.lengths, values.shape[1])
        values = window_means(values, mask, self.window) * mask.unsqueeze(-1)
        mean = values.sum(1) / inputs.lengths.clamp(min=1).unsqueeze(1)
        return values, [mean] * self.layers


def window_means(values: Float[Tensor, "B S D"], mask: Bool[Tensor, "B S"], window: int) -> Float[Tensor, "B S D"]:
    """The mean over the real positions among the `window` centred at each; zero where there are none."""
    real = mask.unsqueeze(1).to(values.dtype)
    both = (values.transpose(1, 2) * real, real)
    sums, counts = (functional.avg_pool1d(part, window, stride=1, padding=window // 2) * window for part in both)
    return (sums / counts.clamp(min=1)).transpose(1, 2)
