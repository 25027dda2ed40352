"""Where a model with attention looks while it scores a sequence: for pictures, never for training."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from searnn.interfaces import Attends, Memory, Model
from searnn.models.encoder_decoder import EncoderDecoder
from searnn.models.ensemble import Ensemble
from searnn.models.modes import evaluating
from searnn.models.transformer import Transformer, TransformerMemory


@torch.no_grad()
def looked_at(model: Model, memory: Memory, tokens: Int[Tensor, "B T"]) -> Float[Tensor, "B T S"] | None:
    """How much each cell of a given sequence attends to each source position, None where there is no attention.

    Of several heads, layers and members of an ensemble it is the mean. A model of the user's own may say it itself, as
    `Attends`.
    """
    with evaluating(model):
        if isinstance(model, Attends):
            return model.looked_at(memory, tokens)
        if isinstance(model, EncoderDecoder) and model.attend is not None:
            _, trail = model.trace(memory, tokens)
            return model.attend.weights(trail.hidden[-1], memory.keys, memory.mask)
        if isinstance(model, Transformer):
            return _by_heads(model, memory, tokens)
        if isinstance(model, Ensemble):
            looks = [looked_at(member, own, tokens) for member, own in zip(model.members, memory, strict=True)]
            known = [look for look in looks if look is not None]
            return torch.stack(known).mean(0) if known else None
    return None


def _by_heads(model: Transformer, memory: TransformerMemory, tokens: Int[Tensor, "B T"]) -> Float[Tensor, "B T S"]:
    """What every layer asks of the source is caught on its way; its fused attention does not give the weights."""
    asked: list[Tensor] = []
    layers: list[Any] = list(model.layers)
    hooks = [layer.source_norm.register_forward_hook(lambda _, __, found: asked.append(found)) for layer in layers]
    try:
        model.trace(memory, tokens)
    finally:
        for hook in hooks:
            hook.remove()
    total = torch.zeros(())
    for layer, values, source in zip(layers, asked, memory.source, strict=True):
        heads, size = source.keys.shape[1], source.keys.shape[3]
        queries = layer.source.query(values).unflatten(-1, (heads, size)).transpose(1, 2)  # [B, H, T, E]
        scores = queries @ source.keys.transpose(2, 3) / size**0.5
        total = total.to(scores) + scores.masked_fill(~memory.mask, -torch.inf).softmax(-1).mean(1)
    return total / len(layers)
