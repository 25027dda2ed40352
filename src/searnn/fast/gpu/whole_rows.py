"""Greedy roll-ins and roll-outs of GRU decoders with small vocabularies as one kernel."""

from __future__ import annotations

import torch
from jaxtyping import Int
from torch import Tensor

from searnn import engine, tree
from searnn.fast.decoding import serves
from searnn.fast.gpu.gru_tiles import Tiles, choose_tiles, padded_sizes
from searnn.fast.host import shared_memory, triton_applies
from searnn.models.encoder_decoder import EncoderDecoder, RecurrentMemory, RecurrentState
from searnn.models.layers import GruLayer
from searnn.types import Rows

MOST_UNITS, MOST_TOKENS = 256, 256  # beyond these a block of rows does not fit a program


def applies(model: EncoderDecoder, memory: RecurrentMemory, rows: Rows) -> bool:
    """Whether the kernel does what the plain loop would: where the model is small and its gates are in a table."""
    hidden = memory.hidden[0]
    small = hidden.shape[-1] <= MOST_UNITS and model.vocab.size <= MOST_TOKENS
    if not small or memory.table is None or not triton_applies(hidden) or not serves(model, memory):
        return False
    return rows.outputs.numel() > 0 and largest(memory, rows) < 2**31


def largest(memory: RecurrentMemory, rows: Rows) -> int:
    """The most numbers of any tensor that the kernel reads: it counts in 32 bits."""
    width = memory.hidden[0].shape[-1]
    return max(rows.cells.numel() * max(width, rows.outputs.shape[-1]), *map(torch.numel, tree.leaves(memory)))


def finish_rows(
    model: EncoderDecoder,
    memory: RecurrentMemory,
    state: RecurrentState,
    rows: Rows,
    *,
    tiles: Tiles | None = None,
) -> Int[Tensor, "B R T"] | None:
    """What `unroll(model, memory, state, rows, Greedy(model.vocab), widths)` returns, up to rounding.

    None where the kernel does not apply. Nothing is read back, so it can be captured in a CUDA graph. Every row with
    room is finished, whatever its place; one without (`limits <= cells + 1`) costs nothing. `tiles` are for
    measurements.
    """
    if not applies(model, memory, rows):
        return None
    from searnn.fast.gpu import gru_attend, gru_pack, gru_rows

    engine.announce("greedy roll-ins and roll-outs of small GRU decoders in one Triton kernel")
    layer = model.layers[0]
    assert isinstance(layer, GruLayer)
    assert memory.table is not None
    width, vocabulary = layer.hidden_size, model.vocab.size
    project: tuple[Tensor, Tensor] = (model.project.weight, model.project.bias)
    query = attended = seen = None
    if model.attend is not None and model.combine is not None:
        assert memory.features is not None
        assert memory.keys is not None
        assert memory.mask is not None
        # Nothing nonlinear stands between the context and the scores: what each source position adds to the scores of
        # the whole vocabulary is computed once, and the kernel mixes these instead of features.
        joined = model.project.weight @ model.combine.weight  # [V, D + F]
        bias = torch.addmv(model.project.bias, model.project.weight, model.combine.bias)
        project = (joined[:, :width], bias)
        values = memory.features @ joined[:, width:].t()
        keys = memory.keys.clamp(-gru_attend.LARGEST, gru_attend.LARGEST).mul_(2).exp_()
        attended = gru_attend.Attended(keys, model.attend.score.weight.flatten(), values, memory.mask)
        query = (model.attend.query.weight, model.attend.query.bias)
    if memory.seen is not None and state.position is not None:
        both, new = memory.seen
        seen = gru_rows.Seen(both, new, state.position)
    attention = 0 if attended is None else attended.keys.shape[-1]
    if tiles is None:
        precision, count = engine.current().precision, rows.outputs.shape[1]
        tiles = choose_tiles(width, attention, vocabulary, count, precision, shared_memory(rows.outputs.device))
    sizes = padded_sizes(width, attention, vocabulary, tiles)
    packed = gru_pack.pack((layer.weight_hh_l0, layer.bias_hh_l0), query, project, sizes, tiles.product)
    table = memory.table.value
    return gru_rows.finish_rows(packed, sizes, tiles, table, state.hidden[0], rows, model.vocab, attended, seen)
