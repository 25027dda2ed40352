"""What a model reads: a batch of this library, or whatever a processor of transformers returns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from searnn.hf.caches import aligned_at_start
from searnn.types import Inputs, SearnnError

TARGETS = ("labels", "decoder_input_ids", "decoder_attention_mask")  # what a collator puts beside the inputs


def read(inputs: Any, filling: int) -> dict[str, Any]:
    """The inputs by the names that the model's `forward` gives them, with text before its padding."""
    named = _named(inputs, filling) if isinstance(inputs, Inputs) else _given(inputs)
    mask, ids = named.get("attention_mask"), named.get("input_ids")
    if mask is None or ids is None:
        return named
    return {
        name: aligned_at_start(value, mask.bool()) if isinstance(value, Tensor) and value.shape == ids.shape else value
        for name, value in named.items()
    }


def _named(inputs: Inputs, filling: int) -> dict[str, Any]:
    values, lengths = inputs
    # Of a source that is all padding one position stays visible; padding is one token, so that it tells nothing.
    visible = torch.arange(values.shape[1], device=values.device) < lengths.clamp(min=1).unsqueeze(1)
    real = visible & (lengths > 0).unsqueeze(1)
    mask = {"attention_mask": visible.long()}
    if values.is_floating_point():
        return {"inputs_embeds": values * real.unsqueeze(-1), **mask}
    return {"input_ids": values.masked_fill(~real, filling), **mask}


def _given(inputs: Any) -> dict[str, Any]:
    if not isinstance(inputs, Mapping):
        told = f"the inputs are a {type(inputs).__name__}"
        raise SearnnError(f"{told}: expected Inputs(values, lengths), or what a processor of transformers returns")
    return {name: value for name, value in inputs.items() if name not in TARGETS}
