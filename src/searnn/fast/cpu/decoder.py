"""Greedy roll-ins and roll-outs of GRU decoders on a CPU by compiled passes between the library's products."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional

from searnn import engine
from searnn.fast.cpu.applies import cpu_applies
from searnn.models.cells import GruLayer
from searnn.models.encoder_decoder import EncoderDecoder, RecurrentMemory, RecurrentState, RecurrentTrail
from searnn.types import Branches, Rows

if TYPE_CHECKING:
    from searnn.fast.cpu.blocks import Decoder
    from searnn.fast.cpu.choice import Attended

TOLD = "greedy roll-ins and roll-outs of GRU decoders on the CPU by compiled passes"
LEAST_WORK = 10_000_000  # multiplications from which on a call is worth it: below, loading the compiled code is not
MOST_JOINED = 1024  # tokens up to which the layers between attention and scores are joined to one
LARGEST = 20.0  # keys are cut to ± this, as queries are by `exp2`, so that exp(2 q) exp(2 k) is finite


def applies(model: EncoderDecoder, memory: RecurrentMemory, tokens: int) -> bool:
    """Whether this way pays for so many tokens and does what the plain loop would.

    That is for one GRU layer on a CPU in float32, without dropout and gradient. It does not depend on what was run
    before, so that a resumed run repeats an unbroken one.
    """
    hidden = memory.hidden[0]
    return (
        not torch.is_grad_enabled()
        and len(model.layers) == 1
        and isinstance(model.layers[0], GruLayer)
        and type(model).step is EncoderDecoder.step  # a user's own decoder may do something else
        and (model.same_in_training or not model.training)
        and {hidden.dtype, model.project.weight.dtype} == {torch.float32}
        and not torch.is_autocast_enabled("cpu")
        and tokens * 3 * hidden.shape[-1] ** 2 >= LEAST_WORK
        and cpu_applies(hidden)
    )


def finish_greedily(
    model: EncoderDecoder, memory: RecurrentMemory, state: RecurrentState, rows: Rows
) -> Int[Tensor, "B R T"] | None:
    """What `unroll(model, memory, state, rows, Greedy(model.vocab), widths)` returns, up to rounding.

    Rows may stand in any order. None where this way does not apply.
    """
    if not applies(model, memory, rows.outputs.numel()):
        return None
    from searnn.fast.cpu import blocks as cpu_blocks

    engine.announce(TOLD)
    decoder = pack(model, memory)
    outputs = rows.outputs.clone(memory_format=torch.contiguous_format)
    cells, limits = (part.contiguous().view(-1).numpy() for part in (rows.cells, rows.limits))
    hidden = state.hidden[0].flatten(0, 1).contiguous()
    if state.gates:  # U h is known, with its bias
        product, bias = torch.cat(state.gates[0], -1).flatten(0, 1), np.zeros_like(decoder.bias)
    else:
        product, bias = hidden @ decoder.recur, decoder.bias
    flat = outputs.flatten(0, 1).numpy()
    share = rows.outputs.shape[1]
    cpu_blocks.run(decoder, cpu_blocks.Work(
        flat, cells, limits, share, 0, hidden.numpy(), product.numpy(), bias
    ))  # fmt: skip
    return outputs


def finish_branches(
    model: EncoderDecoder,
    memory: RecurrentMemory,
    trail: RecurrentTrail,
    branches: Branches,
    lengths: Int[Tensor, "B"],
    *,
    needed: Bool[Tensor, "B C K"] | None = None,
    steps: int | None = None,
    budget: int | None = None,
) -> Int[Tensor, "B C K T"] | None:
    """What `search.advance_branches` returns where greedy decoding finishes the branches, up to rounding.

    Rows read their first state where the trail has it, so nothing is copied for each. Branches that are not valid or
    not `needed` come back as given. None where this way does not apply, or would take more bytes than the budget.
    """
    if not applies(model, memory, branches.tokens.numel() * branches.prefix.shape[1]):
        return None
    if budget is not None and workspace(model, trail.hidden[0].shape[:2].numel()) > budget:
        return None
    from searnn.fast.cpu import blocks as cpu_blocks

    engine.announce(TOLD)
    decoder = pack(model, memory)
    wanted = branches.valid if needed is None else branches.valid & needed
    outputs, cells, limits = cpu_blocks.open_branches(branches, wanted, lengths, steps, model.vocab.pad)
    share, span = branches.tokens[0].numel(), trail.hidden[0].shape[1]
    hidden = trail.hidden[0].flatten(0, 1).contiguous()
    product = hidden @ decoder.recur
    cpu_blocks.run(decoder, cpu_blocks.Work(
        outputs, cells, limits, share, span, hidden.numpy(), product.numpy(), decoder.bias
    ))  # fmt: skip
    return torch.from_numpy(outputs).view(*branches.tokens.shape, -1)


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
            return layer.enter(model.embed.weight if tokens is None else model.embed(tokens), model._of_tokens)

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
