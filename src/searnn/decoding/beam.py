"""Beam search from any rows: each keeps its `width` best continuations, ended ones among them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.nn import functional

from searnn import tree
from searnn.decoding.loop import last_tokens
from searnn.devices import reads_are_free
from searnn.interfaces import Memory, State, Stepper
from searnn.sequences import forbid
from searnn.types import Rows, SearnnError

LEAVE_BELOW = 0.5  # decided examples leave once fewer than this share are left: leaving copies the others


class Beams(NamedTuple):
    """What is known of every row of every beam; N is R times the width."""

    written: Int[Tensor, "B N X"]  # one column more than outputs have, for what ended rows write
    sums: Float[Tensor, "B N"]
    alive: Bool[Tensor, "B N"]
    tokens: Int[Tensor, "B N"]  # the last ones
    position: Int[Tensor, "B N"]  # of the next
    limits: Int[Tensor, "B N"]
    first: Int[Tensor, "B N"]  # the position of the first token that was added


def beam_search(
    model: Stepper,
    memory: Memory,
    state: State,
    rows: Rows,
    widths: Sequence[int],
    *,
    width: int,
    length_penalty: float = 1.0,
    best: int | None = None,
) -> tuple[Int[Tensor, "B R W T"], Float[Tensor, "B R W"]]:
    """The `width` best completions of every row, best first, with their scores.

    The score of a completion is its log-probability over (number of tokens it adds, EOS included) ** length_penalty.
    Where only the `best` of them are asked for, the others may be unfinished: on a CPU the search for an example then
    ends when they are decided.
    """
    if width < 1:
        raise SearnnError(f"beam width is {width}, it must be at least 1")
    vocab = model.vocab
    examples, count, length = rows.outputs.shape
    state, beams = _opened(model, state, rows, width)
    everyone, running = beams, torch.arange(examples, device=rows.outputs.device)
    may_stop = best is not None and length_penalty >= 0 and reads_are_free(rows.outputs.device)
    first = torch.arange(vocab.size, device=rows.outputs.device) == 0
    stay = torch.zeros(vocab.size, device=first.device, dtype=beams.sums.dtype).masked_fill(~first, -torch.inf)
    for wide in widths:
        if may_stop and best is not None:
            kept = _undecided(beams, vocab.pad, width, best, length_penalty).nonzero().squeeze(1)
            if not len(kept):
                break
            if len(kept) < LEAVE_BELOW * len(running):
                _put_back(everyone, beams, running)
                memory, state, beams, running = tree.take_examples((memory, state, beams, running), kept)
        used = wide * width  # rows beyond have ended
        written, sums, alive, tokens, position, limits, _ = (leaf[:, :used] for leaf in beams)
        scores, state = model.step(memory, tree.first_rows(state, used), tokens)
        log_probs = forbid(scores, vocab).log_softmax(-1)
        log_probs = torch.where(alive.unsqueeze(-1), log_probs, stay)  # an ended one goes on as it is
        totals = (sums.unsqueeze(-1) + log_probs).view(len(running), wide, width * vocab.size)
        found = totals.topk(width, dim=-1)
        parent = found.indices // vocab.size + torch.arange(wide, device=first.device).unsqueeze(1) * width
        parent = parent.view(len(running), used)
        chosen = (found.indices % vocab.size).view(len(running), used)
        state, was_alive, kept_rows = tree.take_rows((state, alive, written), parent)
        slot = torch.where(was_alive, position, length).unsqueeze(-1)
        now = was_alive & (position + 1 < limits)
        if vocab.eos is not None:
            now = now & (chosen != vocab.eos)
        beams.written[:, :used] = kept_rows.scatter(2, slot, chosen.unsqueeze(-1))
        beams.sums[:, :used] = found.values.view(len(running), used)
        beams.alive[:, :used] = now
        beams.tokens[:, :used] = chosen
        beams = beams._replace(position=beams.position + 1)
    _put_back(everyone, beams, running)
    outputs = everyone.written[..., :length].view(examples, count, width, length)
    ranked = _scores(everyone, vocab.pad, length_penalty).view(examples, count, width).sort(dim=-1, descending=True)
    order = ranked.indices.unsqueeze(-1).expand_as(outputs)
    return outputs.gather(2, order), ranked.values


def _opened(model: Stepper, state: State, rows: Rows, width: int) -> tuple[State, Beams]:
    """Every row `width` times, of which only the first has a chance at the first token."""
    vocab, (examples, count, _), device = model.vocab, rows.outputs.shape, rows.outputs.device
    spread = torch.arange(count, device=device).repeat_interleave(width).expand(examples, -1)
    state, start = tree.take_rows((state, rows), spread)
    tokens = last_tokens(start, vocab)
    position = start.cells + 1
    alive = position < start.limits
    if vocab.eos is not None:
        alive = alive & (tokens != vocab.eos)
    sums = torch.full((examples, count, width), -torch.inf, device=device, dtype=tree.float_type(state))
    sums[..., 0] = 0
    written = functional.pad(start.outputs, (0, 1), value=vocab.pad)
    return state, Beams(written, sums.view(examples, -1), alive, tokens, position, start.limits, position)


def _put_back(everyone: Beams, beams: Beams, running: Int[Tensor, "N"]) -> None:
    """Note how far the running examples have come; as long as all run, they are written in place."""
    if beams.sums is not everyone.sums:
        everyone.written[running], everyone.sums[running] = beams.written, beams.sums


def _scores(beams: Beams, pad: int, length_penalty: float) -> Float[Tensor, "B N"]:
    """The score of every row as far as it is written."""
    produced = (beams.written[..., :-1] != pad).sum(-1) - beams.first
    return beams.sums / produced.clamp(min=1) ** length_penalty


def _undecided(beams: Beams, pad: int, width: int, best: int, length_penalty: float) -> Bool[Tensor, "B"]:
    """The examples in which a row that goes on may still come among the `best` of its beam.

    Sums only fall, so no row ends with a score above its sum over the largest length. One that stays below the best by
    that has a smaller sum than each of them too, and so cannot take their place in the beam.
    """
    ended = _scores(beams, pad, length_penalty).masked_fill(beams.alive, -torch.inf)
    ahead = beams.sums / (beams.limits - beams.first).clamp(min=1) ** length_penalty
    least = ended.view(len(ended), -1, width).topk(best, dim=-1).values[..., -1]  # [B, R]
    rival = ahead >= least.repeat_interleave(width, dim=1)
    return (beams.alive & rival).any(1)
