"""What a decoder of transformers keeps of an input and of each row, and the library's caches made of it."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from searnn.models.multihead import Heads


class HuggingFaceMemory(NamedTuple):
    """What every row begins with, and what every layer of the decoder attends to in the source.

    Of the n positions of `begun`, which end before the token that is fed as BOS, the last `seen` are real. A decoder
    without an encoder has no source.
    """

    begun: tuple[Heads, ...]
    seen: Int[Tensor, "B"]
    first: Int[Tensor, "B"]
    source: tuple[Heads, ...] = ()
    mask: Tensor | None = None
    hidden: tuple[int, int] = (0, 0)  # positions and width of what the encoder gives


class HuggingFaceState(NamedTuple):
    """One row's cache in every layer: of the n positions the last `seen` are its own, those before them are filling."""

    cache: tuple[Heads, ...]
    seen: Int[Tensor, "B R"]


def own_cache(held: tuple[Heads, ...]) -> Any:
    """The library's cache of what rows have written."""
    from transformers import DynamicCache

    cache = DynamicCache()
    for layer, kept in enumerate(held):
        if kept.keys.shape[-2]:
            cache.update(kept.keys, kept.values, layer)
    return cache


def crossed_cache(own: tuple[Heads, ...], source: tuple[Heads, ...]) -> Any:
    """The library's cache of what rows have written and of what they attend to in the source."""
    from transformers import EncoderDecoderCache

    return EncoderDecoderCache(own_cache(own), own_cache(source))


def kept(cache: Any) -> tuple[Heads, ...]:
    """The keys and values of every layer of a cache."""
    return tuple(Heads(layer.keys, layer.values) for layer in cache.layers)


def aligned_at_end(values: Tensor, mask: Bool[Tensor, "B S"]) -> Tensor:
    """The entries `[B, S, ...]` with those where the mask holds at the end, in their order."""
    return _ordered(values, mask)


def aligned_at_start(values: Tensor, mask: Bool[Tensor, "B S"]) -> Tensor:
    """The same with them at the start."""
    return _ordered(values, ~mask)


def _ordered(values: Tensor, mask: Bool[Tensor, "B S"]) -> Tensor:
    order = mask.long().argsort(dim=1, stable=True)
    examples = torch.arange(len(values), device=values.device).unsqueeze(1)
    return values[examples, order]
