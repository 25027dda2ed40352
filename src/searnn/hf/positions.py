"""Positions given row by row, to decoders that count them by the length of their cache."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from inspect import signature
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn


def embedding_of(decoder: nn.Module) -> Any:
    """The module that embeds absolute positions; None where positions are relative or can be given as ids."""
    return next((part for name, part in decoder.named_modules() if name.endswith("embed_positions")), None)


def first_id(decoder: nn.Module) -> int:
    """The id of the first position, where positions are given as ids: RoBERTa and its kin count from after PAD."""
    tables: Any = (part for name, part in decoder.named_modules() if name.endswith("position_embeddings"))
    table = next((part for part in tables if isinstance(part, nn.Embedding)), None)
    return 0 if table is None or table.padding_idx is None else table.padding_idx + 1


@contextmanager
def given_positions(module: Any, places: Int[Tensor, "N Q"], count: int) -> Iterator[None]:
    """Have the module embed these places, all of them before `count`, whatever it is called with."""

    def embed(_: nn.Module, __: tuple[Any, ...], embedded: Tensor) -> Tensor:
        return _table(module, count, embedded)[places]

    hook = module.register_forward_hook(embed)
    try:
        yield
    finally:
        hook.remove()


def _table(module: Any, count: int, like: Tensor) -> Float[Tensor, "n D"]:
    """What the module gives for the first positions, each in the way it asks for them."""
    asked = next(iter(signature(module.forward).parameters))
    if asked == "input_ids_shape":
        found = module.forward(torch.Size((1, count)))
    elif asked == "inputs_embeds":
        found = module.forward(like.new_zeros(1, count, like.shape[-1]))
    else:  # some do not count the token that pads
        padding = module.padding_idx or 0
        found = module.forward(torch.full((1, count), padding + 1, device=like.device))
    return found.reshape(count, -1)  # type: ignore[no-any-return]
