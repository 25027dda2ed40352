"""Greedy roll-ins and roll-outs of GRU decoders on a CPU by compiled passes between the library's products."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional

from searnn import engine
from searnn.fast.decoding import serves
from searnn.fast.host import cpu_applies
from searnn.interfaces import Encoded
from searnn.models.encoder_decoder import EncoderDecoder, RecurrentMemory, RecurrentState
from searnn.models.layers import GruLayer
from searnn.searching import waves
from searnn.types import Batch, Branches, Rows

if TYPE_CHECKING:
    from searnn.fast.cpu.blocks import Decoder
    from searnn.fast.cpu.choice import Attended

TOLD = "greedy roll-ins and roll-outs of GRU decoders on the CPU by compiled passes"
LEAST_WORK = 10_000_000  # multiplications from which on a call is worth it: below, loading the compiled code is not
LEAST_OPENED = 1 << 17  # tokens of opened rows from which on the same holds
MOST_JOINED = 1024  # tokens up to which the layers between attention and scores are joined to one
LARGEST = 20.0  # keys are cut to ± this, as queries are by `exp2`, so that exp(2 q) exp(2 k) is finite


def open_rows(
    branches: Branches, wanted: Bool[Tensor, "B C K"], lengths: Int[Tensor, "B"], steps: int | None, pad: int
) -> Rows | None:
    """What `searching.waves.open_rows` returns, in one compiled pass where there is much to write."""
    (examples, cells, candidates), length = branches.tokens.shape, branches.prefix.shape[1]
    if branches.tokens.numel() * length < LEAST_OPENED or not cpu_applies(branches.tokens):
        return None
    from searnn.fast.cpu import rows

    outputs = torch.empty(examples, cells * candidates, length, dtype=torch.long)
    made = Rows(outputs, outputs.new_empty(outputs.shape[:2]), outputs.new_empty(outputs.shape[:2]))
    given = (part.contiguous().numpy() for part in (branches.prefix, branches.cells, branches.tokens, wanted, lengths))
    flat = (made.outputs.view(-1, length).numpy(), made.cells.view(-1).numpy(), made.limits.view(-1).numpy())
    rows.open_branches(*given, length if steps is None else steps, pad, *flat)
    return made


def applies(model: EncoderDecoder, memory: RecurrentMemory, tokens: int) -> bool:
    """Whether this way serves the model, and pays for so many tokens.

    It does not depend on what was run before, so that a resumed run repeats an unbroken one.
    """
    hidden = memory.hidden[0]
    enough = tokens * 3 * hidden.shape[-1] ** 2 >= LEAST_WORK
    return enough and hidden.device.type == "cpu" and serves(model, memory) and cpu_applies(hidden)


def finish_rows(
    model: EncoderDecoder, memory: RecurrentMemory, state: RecurrentState, rows: Rows
) -> Int[Tensor, "B R T"] | None:
    """What `unroll(model, memory, state, rows, Greedy(model.vocab), widths)` returns, up to rounding.

    Rows may stand in any order. None where this way does not apply.
    """
    if not applies(model, memory, rows.outputs.numel()):
        return None
    engine.announce(TOLD)
    decoder = pack(model, memory)
    hidden = state.hidden[0].flatten(0, 1).contiguous()
    if state.gates:  # U h is known, with its bias
        product, bias = torch.cat(state.gates[0], -1).flatten(0, 1), np.zeros_like(decoder.bias)
    else:
        product, bias = hidden @ decoder.recur, decoder.bias
    copied = rows._replace(outputs=rows.outputs.clone(memory_format=torch.contiguous_format))
    return run(decoder, copied, hidden, product, bias, 0)


def finish_greedily(
    encoded: Encoded,
    branches: Branches,
    batch: Batch,
    *,
    needed: Bool[Tensor, "B C K"] | None = None,
    steps: int | None = None,
    budget: int | None = None,
) -> Int[Tensor, "B C K T"] | None:
    """What `policies.learned.finish_greedily` returns, up to rounding.

    Rows read their first state where the trail has it, so nothing is copied for each. None where this way does not
    apply, or would take more bytes than the budget.
    """
    model, memory, trail = encoded
    if not isinstance(model, EncoderDecoder):
        return None
    if not applies(model, memory, branches.tokens.numel() * branches.prefix.shape[1]):
        return None
    states = trail.hidden[0]
    if budget is not None and workspace(model, states.shape[:2].numel()) > budget:
        return None
    engine.announce(TOLD)
    decoder = pack(model, memory)
    wanted = branches.valid if needed is None else branches.valid & needed
    rows = waves.open_rows(branches, wanted, batch.lengths, steps, model.vocab.pad)
    hidden = states.flatten(0, 1).contiguous()
    outputs = run(decoder, rows, hidden, hidden @ decoder.recur, decoder.bias, states.shape[1])
    return outputs.view(*branches.tokens.shape, -1)


def run(
    decoder: Decoder, rows: Rows, hidden: Float[Tensor, "M D"], product: Tensor, bias: Any, span: int
) -> Int[Tensor, "B R T"]:
    """Finish the rows, in place, from states of which an example has `span`, or each row its own where that is 0."""
    from searnn.fast.cpu import blocks

    cells, limits = (part.contiguous().view(-1).numpy() for part in (rows.cells, rows.limits))
    flat, share = rows.outputs.flatten(0, 1).numpy(), rows.outputs.shape[1]
    blocks.run(decoder, blocks.Work(flat, cells, limits, share, span, hidden.numpy(), product.numpy(), bias))
    return rows.outputs


def workspace(model: EncoderDecoder, states: int) -> int:
    """Bytes that the blocks take at most, however many rows there are, beside the rows' outputs."""
    from searnn.fast.cpu.blocks import SEATS
    from searnn.fast.cpu.choice import SCORES

    layer, tokens = model.layers[0], max(model.vocab.size, model.vocab.embeddings)
    assert isinstance(layer, GruLayer)
    width = layer.hidden_size
    seats = SEATS * (8 * width + 2 * min(tokens, MOST_JOINED)) + (SCORES if tokens > MOST_JOINED else 0)
    weights = 8 * width * width + 5 * tokens * width  # the table of what tokens enter with is the largest of them
    return int(torch.float32.itemsize * (torch.get_num_threads() * seats + weights + 4 * states * width))


def pack(model: EncoderDecoder, memory: RecurrentMemory) -> Decoder:
    """The weights as the blocks read them."""
    from searnn.fast.cpu.blocks import Decoder, whole
    from searnn.fast.cpu.choice import Scorer

    layer, vocab = model.layers[0], model.vocab
    assert isinstance(layer, GruLayer)
    width = layer.hidden_size

    def enter(tokens: Tensor | None) -> Any:
        with torch.no_grad():  # each thread has a mode of its own
            return layer.enter(model.embed.weight if tokens is None else model.embed(tokens), model.of_tokens)

    weight, bias = model.project.weight.detach(), model.project.bias.detach()
    attended, mixes_scores = None, model.attend is not None and vocab.size <= MOST_JOINED
    if model.attend is not None:
        attended = attend(model, memory, mixes_scores)
    if mixes_scores and model.combine is not None:
        bias = torch.addmv(bias, weight, model.combine.bias.detach())
    tokens = whole(vocab.size) if vocab.size <= MOST_JOINED else vocab.size
    bias = functional.pad(bias, (0, tokens - vocab.size), value=-torch.inf)
    never = [token for token in (vocab.pad, vocab.bos) if token < vocab.size]
    bias = bias.index_fill(0, torch.tensor(never, dtype=torch.long), -torch.inf)
    seen = memory.seen or (weight.new_empty(0, 0, 2 * width), weight.new_empty(0, 0, width))
    return Decoder(
        filled(layer.weight_hh_l0.detach(), whole(3 * width)).t(),
        layer.bias_hh_l0.detach()[2 * width :].numpy(),
        None if memory.table is None else as_arrays(memory.table.value),
        enter,
        as_arrays(seen),
        Scorer(attended, None if mixes_scores else filled(weight, tokens), bias.numpy()),
        vocab,
    )


def attend(model: EncoderDecoder, memory: RecurrentMemory, mixes_scores: bool) -> Attended:
    """What attention reads: it mixes what is projected, or for small vocabularies the scores.

    Nothing nonlinear stands between the context and the scores, so what each source position adds is computed once.
    """
    from searnn.fast.cpu.blocks import whole
    from searnn.fast.cpu.choice import Attended

    assert model.attend is not None
    assert model.combine is not None
    assert memory.keys is not None
    assert memory.features is not None
    assert memory.mask is not None
    weight, bias, query = model.combine.weight.detach(), model.combine.bias.detach(), model.attend.query
    size, width = len(weight), len(weight)
    if mixes_scores:
        weight = model.project.weight.detach() @ weight
        size, bias = whole(len(weight)), bias.new_zeros(1)  # that of the scores is added with theirs
    units = whole(query.out_features)
    # The weights of all positions sum to one: a bias may be added to each.
    values = functional.linear(memory.features, filled(weight[:, width:], size)) + bias
    keys = memory.keys.clamp(-LARGEST, LARGEST).mul_(2).exp_()
    return Attended(
        torch.cat([filled(query.weight.detach(), units), filled(weight[:, :width], size)]).t(),
        filled(query.bias.detach(), units).numpy(),
        filled(model.attend.score.weight.detach().flatten(), units).numpy(),
        functional.pad(keys, (0, units - query.out_features)).numpy(),
        values.numpy(),
        memory.mask.contiguous().numpy(),
    )


def filled(weight: Float[Tensor, "N *D"], rows: int) -> Float[Tensor, "M *D"]:
    """The weights with zeros up to `rows`."""
    if rows == len(weight):
        return weight
    return torch.cat([weight, weight.new_zeros(rows - len(weight), *weight.shape[1:])])


def as_arrays(parts: Any) -> Any:
    """Tensors as NumPy sees them."""
    return tuple(part.detach().contiguous().numpy() for part in parts)
