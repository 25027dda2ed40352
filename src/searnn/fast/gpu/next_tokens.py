"""Greedy decoding of many rows on a GPU, for any size of vocabulary: few kernels per token, alive rows only.

It gives what the plain loop over time gives, up to rounding, without writing scores or a vector per row and source
word. Nothing is read back and all shapes are known beforehand, so that it can be captured in a CUDA graph.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from jaxtyping import Float, Int
from torch import Tensor

from searnn import engine
from searnn.fast.decoding import serves
from searnn.fast.host import triton_applies
from searnn.models.encoder_decoder import EncoderDecoder, RecurrentMemory, RecurrentState
from searnn.models.layers import Gates, GruLayer
from searnn.types import Rows

if TYPE_CHECKING:
    from searnn.fast.gpu.attention import Attention
    from searnn.fast.gpu.recurrence import Recurrence

FEW_READ = 16  # a table of all tokens' gates pays, by one large product for many small ones, if one in so many is read
MOST_SOURCE = 128  # source positions whose energies a program of the attention holds for each row


def applies(model: EncoderDecoder, memory: RecurrentMemory, state: RecurrentState) -> bool:
    """Whether the kernels do what the plain loop would, for sources that are not too long."""
    if not triton_applies(state.hidden[0]) or not serves(model, memory):
        return False
    return memory.keys is None or memory.keys.shape[1] <= MOST_SOURCE


def finish_rows(
    model: EncoderDecoder, memory: RecurrentMemory, state: RecurrentState, rows: Rows, steps: int | None = None
) -> Int[Tensor, "B R T"] | None:
    """`rows` finished by the model's best tokens, or None where the kernels do not apply.

    `steps` is the most tokens that any row takes, where less than all are known to be enough.
    """
    if not applies(model, memory, state):
        return None
    from searnn.fast.gpu import alive, attention, recurrence, vocabulary
    from searnn.fast.gpu.product import stored_as

    precision, vocab = engine.current().precision, model.vocab
    engine.announce(f"roll-outs by fused kernels for each token, vocabulary product in {precision}")
    examples, count, length = rows.outputs.shape
    device, total = rows.outputs.device, examples * count
    steps = length if steps is None else steps
    last = rows.outputs.gather(2, rows.cells.clamp(min=0).unsqueeze(-1)).squeeze(-1)
    writing = alive.Writing(
        slots=(rows.cells + 1).to(torch.int32).contiguous(),
        room=(rows.limits.clamp(max=length) - rows.cells - 1).to(torch.int32).contiguous(),
        tokens=torch.where(rows.cells < 0, vocab.bos, last).to(torch.int32).contiguous(),
        outputs=rows.outputs.clone(memory_format=torch.contiguous_format),
        keys=alive.no_keys(total, device),
        eos=vocab.eos,
    )
    readout = vocabulary.readout(model.project.weight, model.project.bias, (vocab.pad, vocab.bos), precision)
    attended = attention_of(model, memory, count, precision)
    hidden = state.hidden[0].flatten(0, 1).contiguous()
    ready = torch.empty(hidden.shape, dtype=stored_as(readout.product), device=device)
    lists = [alive.no_rows(examples, count, device) for _ in range(2)]
    states = [hidden, torch.empty_like(hidden), torch.empty_like(hidden)]  # the given state is only read
    layer = recurrence_of(model, memory, state, precision)
    tokens: Tensor | None = writing.tokens
    if memory.table is not None:
        entering = memory.table.value
    elif vocab.embeddings <= FEW_READ * total * steps:
        entering = enter(model, model.embed.weight)
    else:
        tokens = None
    alive.shorten(None, lists[0], writing, -1)
    for added in range(steps):
        now, after = lists[added % 2], lists[(added + 1) % 2]
        before, to = states[0 if added == 0 else 1 + added % 2], states[1 + (added + 1) % 2]
        if tokens is None:
            entering = enter(model, model.embed(writing.tokens.flatten()))
        recurrence.advance_rows(layer, now, tokens, entering, before, to, ready if attended is None else None, added)
        if attended is not None:
            attention.attend(attended, now, to, ready)
        vocabulary.find_keys(ready, now.counts, readout, writing.keys)
        alive.shorten(now, after, writing, added)
    return writing.outputs


def enter(model: EncoderDecoder, vectors: Float[Tensor, "N E"]) -> Gates:
    """The first layer's gates of embedded tokens."""
    layer = next(iter(model.layers))
    assert isinstance(layer, GruLayer)
    return layer.enter(vectors, model.of_tokens)


def attention_of(model: EncoderDecoder, memory: RecurrentMemory, count: int, precision: str) -> Attention | None:
    """The model's attention made ready for so many rows per example, None where it has none."""
    from searnn.fast.gpu import attention
    from searnn.fast.gpu.product import product_of

    if model.attend is None or model.combine is None:
        return None
    assert memory.keys is not None
    assert memory.features is not None
    assert memory.mask is not None
    query = (model.attend.query.weight, model.attend.query.bias)
    combine = (model.combine.weight, model.combine.bias)
    score = model.attend.score.weight
    tiles = attention.choose_tiles(model.attend.query.in_features, count, product_of(precision))
    return attention.prepare(query, score, memory.keys, memory.features, memory.mask, combine, precision, tiles)


def recurrence_of(model: EncoderDecoder, memory: RecurrentMemory, state: RecurrentState, precision: str) -> Recurrence:
    """The model's layer made ready."""
    from searnn.fast.gpu import recurrence
    from searnn.fast.gpu.product import operand, product_of

    layer = next(iter(model.layers))
    assert isinstance(layer, GruLayer)
    width, product = layer.hidden_size, product_of(precision)
    return recurrence.Recurrence(
        weight=operand(layer.weight_hh_l0, product),
        bias=layer.bias_hh_l0[2 * width :],
        seen=None if memory.seen is None else (memory.seen[0].contiguous(), memory.seen[1].contiguous()),
        position=None if state.position is None else state.position.contiguous(),
        product=product,
        tiles=recurrence.choose_tiles(width, state.hidden[0].shape[1], product),
    )
