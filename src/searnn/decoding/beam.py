"""Beam search from any rows: each keeps its `width` best continuations, ended ones among them."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from searnn import tree
from searnn.decoding.loop import last_tokens
from searnn.interfaces import Memory, State, Stepper
from searnn.sequences import forbid
from searnn.types import Rows, SearnnError


def beam_search(
    model: Stepper,
    memory: Memory,
    state: State,
    rows: Rows,
    widths: Sequence[int],
    *,
    width: int,
    length_penalty: float = 1.0,
) -> tuple[Int[Tensor, "B R W T"], Float[Tensor, "B R W"]]:
    """The `width` best completions of every row, best first, with their scores.

    The score of a completion is its log-probability over (number of tokens it adds, EOS included) ** length_penalty.
    """
    if width < 1:
        raise SearnnError(f"beam width is {width}, it must be at least 1")
    vocab = model.vocab
    examples, count, length = rows.outputs.shape
    device = rows.outputs.device
    spread = torch.arange(count, device=device).repeat_interleave(width).expand(examples, -1)
    state, start = tree.take_rows((state, rows), spread)
    tokens = last_tokens(start, vocab)
    alive = start.cells + 1 < start.limits
    if vocab.eos is not None:
        alive = alive & (tokens != vocab.eos)
    position = start.cells + 1
    written = functional.pad(start.outputs, (0, 1), value=vocab.pad)
    sums = torch.full((examples, count, width), -torch.inf, device=device, dtype=tree.float_type(state))
    sums[..., 0] = 0
    sums = sums.view(examples, -1)
    first = torch.arange(vocab.size, device=device) == 0
    stay = torch.zeros(vocab.size, device=device, dtype=sums.dtype).masked_fill(~first, -torch.inf)
    for wide in widths:
        used = wide * width  # rows beyond have ended
        scores, state = model.step(memory, tree.first_rows(state, used), tokens[:, :used])
        log_probs = forbid(scores, vocab).log_softmax(-1)
        log_probs = torch.where(alive[:, :used].unsqueeze(-1), log_probs, stay)  # an ended one goes on as it is
        totals = (sums[:, :used].unsqueeze(-1) + log_probs).view(examples, wide, width * vocab.size)
        best = totals.topk(width, dim=-1)
        parent = best.indices // vocab.size + torch.arange(wide, device=device).unsqueeze(1) * width
        parent = parent.view(examples, used)
        chosen = (best.indices % vocab.size).view(examples, used)
        state, was_alive, kept = tree.take_rows((state, alive[:, :used], written[:, :used]), parent)
        here = position[:, :used]
        slot = torch.where(was_alive, here, length).unsqueeze(-1)
        written[:, :used] = kept.scatter(2, slot, chosen.unsqueeze(-1))
        sums[:, :used] = best.values.view(examples, used)
        now = was_alive & (here + 1 < start.limits[:, :used])
        if vocab.eos is not None:
            now = now & (chosen != vocab.eos)
        alive = torch.cat([now, alive[:, used:]], dim=1)
        position = position + 1
        tokens = torch.cat([chosen, tokens[:, used:]], dim=1)
    outputs = written[..., :length].view(examples, count, width, length)
    produced = ((outputs != vocab.pad).sum(-1) - rows.cells.unsqueeze(-1) - 1).clamp(min=1)
    ranked = (sums.view(examples, count, width) / produced**length_penalty).sort(dim=-1, descending=True)
    order = ranked.indices.unsqueeze(-1).expand_as(outputs)
    return outputs.gather(2, order), ranked.values
