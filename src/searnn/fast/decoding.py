"""Greedy roll-ins and roll-outs of GRU decoders by kernels or compiled passes: which serves; attention on a CPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from jaxtyping import Float, Int
from torch import Tensor

from searnn import engine, tree
from searnn.decoding.loop import Choose, Greedy
from searnn.fast.host import triton_applies
from searnn.interfaces import GreedyFinisher, Memory, State, Stepper
from searnn.models.encoder_decoder import EncoderDecoder, RecurrentMemory, RecurrentState
from searnn.models.layers import Gates, GruLayer, Layer
from searnn.types import Rows


def unroll(
    model: Stepper, memory: Memory, state: State, rows: Rows, choose: Choose, widths: Sequence[int]
) -> Int[Tensor, "B R T"] | None:
    """What `decoding.loop.unroll` returns, where an encoder-decoder takes its best tokens."""
    if not isinstance(choose, Greedy) or not isinstance(model, EncoderDecoder):
        return None
    if type(model) is not EncoderDecoder and isinstance(model, GreedyFinisher):
        return None  # it has a way of its own
    return finish_rows(model, memory, state, rows)


def finish_rows(
    model: EncoderDecoder, memory: RecurrentMemory, state: RecurrentState, rows: Rows
) -> Int[Tensor, "B R T"] | None:
    """`rows` finished by the model's best tokens, None where the plain loop must do it.

    Mixed precision is for the plain code: here memory and state are made float32 again, and the products have the
    precision of the search, at most that of the mixed one.
    """
    device = rows.outputs.device.type
    if torch.is_grad_enabled():
        return None
    if torch.is_autocast_enabled(device):
        memory, state = tree.map_leaves(_in_float32, memory), tree.map_leaves(_in_float32, state)
        if memory.table is not None:
            memory = memory._replace(table=tree.Constant(tree.map_leaves(_in_float32, memory.table.value)))
        lower = replace(engine.current(), precision="bf16")
        with torch.autocast(device, enabled=False), engine.using(lower):
            return finish_rows(model, memory, state, rows)
    if device == "cpu" and engine.current().kind == "auto":
        from searnn.fast.cpu import decoder

        return decoder.finish_rows(model, memory, state, rows)
    from searnn.fast.gpu import next_tokens, whole_rows

    found = whole_rows.finish_rows(model, memory, state, rows)
    return found if found is not None else next_tokens.finish_rows(model, memory, state, rows)


def serves(model: EncoderDecoder, memory: RecurrentMemory) -> bool:
    """Whether kernels and compiled passes do what this decoder does, up to rounding; tells why not.

    They are for one GRU layer in float32, without dropout and gradient.
    """
    hindrance = _hindrance(model)
    if hindrance is not None:
        engine.announce(f"greedy roll-ins and roll-outs by the plain code: {hindrance}")
        return False
    searching = not torch.is_grad_enabled() and not torch.is_autocast_enabled(memory.hidden[0].device.type)
    numbers = {memory.hidden[0].dtype, *(parameter.dtype for parameter in model.parameters())}
    return searching and (model.same_in_training or not model.training) and numbers == {torch.float32}


def _hindrance(model: EncoderDecoder) -> str | None:
    """What of the model itself is not served."""
    if type(model).step is not EncoderDecoder.step:
        return f"{type(model).__name__} has a step of its own"
    if len(model.layers) > 1:
        return f"the decoder has {len(model.layers)} layers, faster ways are for one"
    if not isinstance(model.layers[0], GruLayer):
        return "faster ways are for GRU layers"
    return None


def no_products(layers: Sequence[Layer], hidden: Sequence[Float[Tensor, "B T D"]]) -> tuple[Gates, ...] | None:
    """No products beforehand where kernels make their own."""
    single = len(layers) == 1 and isinstance(layers[0], GruLayer)
    return () if single and triton_applies(hidden[0]) else None


def _in_float32(leaf: Tensor) -> Tensor:
    """Numbers of any floating-point type as float32."""
    return leaf.float() if leaf.is_floating_point() else leaf


def additive_scores(
    queries: Float[Tensor, "B R A"], keys: Float[Tensor, "B S A"], weight: Float[Tensor, "1 A"]
) -> Float[Tensor, "B R S"] | None:
    """The scores less a constant of each row, which the softmax over positions does not see.

    tanh x is 2 sigmoid(2 x) - 1, which a CPU computes faster.
    """
    if torch.is_grad_enabled() or queries.device.type != "cpu":
        return None
    mixed = ((2 * queries).unsqueeze(2) + (2 * keys).unsqueeze(1)).sigmoid_()
    return mixed @ (2 * weight[0])
