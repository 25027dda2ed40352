"""The fast ways in which an encoder-decoder finishes rows greedily, the first that applies."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from jaxtyping import Int
from torch import Tensor

from searnn import engine, tree
from searnn.types import Rows

if TYPE_CHECKING:
    from searnn.models.encoder_decoder import EncoderDecoder, RecurrentMemory, RecurrentState


def finish_greedily(
    model: EncoderDecoder, memory: RecurrentMemory, state: RecurrentState, rows: Rows
) -> Int[Tensor, "B R T"] | None:
    """`rows` finished by the model's best tokens, None where the plain loop must do it.

    Mixed precision is for the plain code: here memory and state are made float32 again, and the products have the
    precision of the search, at most that of the mixed one.
    """
    device = rows.outputs.device.type
    if engine.current().kind == "plain" or torch.is_grad_enabled():
        return None
    if torch.is_autocast_enabled(device):
        memory, state = tree.map_leaves(in_float32, memory), tree.map_leaves(in_float32, state)
        if memory.table is not None:
            memory = memory._replace(table=tree.Constant(tree.map_leaves(in_float32, memory.table.value)))
        lower = replace(engine.current(), precision="bf16")
        with torch.autocast(device, enabled=False), engine.using(lower):
            return finish_greedily(model, memory, state, rows)
    if device == "cpu" and engine.current().kind == "auto":
        from searnn.fast.cpu import decoder as fast_cpu

        return fast_cpu.finish_greedily(model, memory, state, rows)
    from searnn.fast.gpu import next_tokens as fast_next
    from searnn.fast.gpu import whole_rows as fast_rows

    found = fast_rows.finish_greedily(model, memory, state, rows)
    return found if found is not None else fast_next.finish_by_steps(model, memory, state, rows)


def in_float32(leaf: Tensor) -> Tensor:
    """Numbers of any floating-point type as float32."""
    return leaf.float() if leaf.is_floating_point() else leaf
