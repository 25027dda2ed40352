"""Beam search beside the truth: where the truth falls behind its rivals, and what model scores both.

The truth is always the first row. A judge says at every cell whether it has lost to the rivals there; the search then
begins again from the truth alone. So an output falls into stretches of cells, each with rivals of its own that follow
the truth up to where the stretch begins. Since stretches do not overlap, the rivals of all of them are one row of
tokens, and one loop over the cells scores them, in which every row goes back to the truth where a stretch begins.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from searnn import tree
from searnn.interfaces import Memory, Stepper
from searnn.sequences import forbid, valid_cells
from searnn.types import Batch

# From the truth's score [B], the best rivals' [B, K], best first, and whether the truth ends here [B]: whether the
# truth has lost [B], and the places [B, W] of those it has lost to. Rivals that do not exist score minus infinity.
Judge = Callable[
    [Float[Tensor, "B"], Float[Tensor, "B K"], Bool[Tensor, "B"]], tuple[Bool[Tensor, "B"], Int[Tensor, "B W"]]
]


class Rivals(NamedTuple):
    """Where the truth lost, and to whom."""

    tokens: Int[Tensor, "B W T"]  # at each cell those of its stretch's rivals; the truth's where nothing was lost
    lost: Bool[Tensor, "B T"]  # the last cells of stretches that ended in a loss
    real: Bool[Tensor, "B W T"]  # which of the rivals exist, at the cells where the truth lost
    starts: Int[Tensor, "B T"]  # the first cell of each cell's stretch


@torch.no_grad()
def beam_beside_truth(
    model: Stepper,
    memory: Memory,
    truth: Int[Tensor, "B T"],
    batch: Batch,
    *,
    width: int,
    judge: Judge,
    summed: bool,
) -> Rivals:
    """A beam of the truth and the `width` - 1 best rivals, as far as the truth goes.

    The score of a prefix is that of its last token, or, if `summed`, the sum over its tokens; no softmax is taken. A
    rival that has ended stays as it is.
    """
    vocab, (examples, length), device = model.vocab, truth.shape, truth.device
    inside = valid_cells(truth, batch)
    ends = inside & ~torch.cat([inside[:, 1:], torch.zeros_like(inside[:, :1])], dim=1)
    true = torch.where(inside, truth, vocab.choosable[0])
    cells = torch.arange(length, device=device)
    first = torch.arange(vocab.size, device=device) == 0
    state = tree.take_rows(model.start(memory), torch.zeros(examples, width, dtype=torch.long, device=device))
    dtype = torch.promote_types(tree.float_type(state), torch.float32)
    totals = torch.full((examples, width), -torch.inf, device=device, dtype=dtype)
    totals[:, 0] = 0
    tokens = torch.full((examples, width), vocab.bos, device=device)
    alive = torch.ones_like(tokens, dtype=torch.bool)
    written = truth.unsqueeze(1).repeat(1, width, 1)
    start = torch.zeros_like(truth[:, 0])
    found: Tensor | None = None
    lost, real, starts = [], [], []
    for cell in range(length):
        scores, state = model.step(memory, state, tokens)
        before = totals if summed else totals.masked_fill(totals > -torch.inf, 0)
        grown = before.unsqueeze(-1) + forbid(scores, vocab).to(dtype)  # [B, K, V]
        stays = totals.unsqueeze(-1).masked_fill(~first, -torch.inf)
        grown = torch.where(alive.unsqueeze(-1), grown, stays)
        here = true[:, cell : cell + 1]
        own = grown[:, 0].gather(1, here)  # [B, 1]
        grown[:, 0] = grown[:, 0].scatter(1, here, -torch.inf)  # what is left is wrong
        best = grown.flatten(1).topk(width)
        parents = best.indices // vocab.size
        rows, was_alive = tree.take_rows((written, alive), parents)
        picked = torch.where(was_alive, best.indices % vocab.size, vocab.pad)
        rows[..., cell] = picked
        behind, chosen = judge(own.squeeze(1), best.values, ends[:, cell])
        behind = behind & inside[:, cell]
        stretch = behind.unsqueeze(1) & (cells >= start.unsqueeze(1)) & (cells <= cell)  # [B, T]
        rivals = tree.take_rows(rows, chosen)
        found = truth.unsqueeze(1).expand_as(rivals) if found is None else found
        found = torch.where(stretch.unsqueeze(1), rivals, found)
        real.append(best.values.gather(1, chosen) > -torch.inf)
        lost.append(behind)
        starts.append(start)
        start = torch.where(behind, cell + 1, start)
        parents = torch.cat([torch.zeros_like(here), parents[:, :-1]], dim=1)
        state = tree.take_rows(state, parents)
        tokens = torch.cat([here, picked[:, :-1]], dim=1)
        totals = torch.cat([own, best.values[:, :-1].masked_fill(behind.unsqueeze(1), -torch.inf)], dim=1)
        alive = torch.cat([alive[:, :1], (was_alive & (picked != vocab.eos))[:, :-1]], dim=1)
        written = torch.cat([truth.unsqueeze(1), rows[:, :-1]], dim=1)
    assert found is not None  # a batch has at least one cell
    return Rivals(found, torch.stack(lost, 1), torch.stack(real, 2), torch.stack(starts, 1))


def prefix_scores(
    model: Stepper, memory: Memory, truth: Int[Tensor, "B T"], rivals: Rivals, *, summed: bool
) -> tuple[Float[Tensor, "B T"], Float[Tensor, "B W T"]]:
    """The scores of the truth's prefixes and of the rivals' up to every cell, with gradient.

    What has ended keeps its score. Sums are over the whole prefix.
    """
    vocab = model.vocab
    tokens = torch.cat([truth.unsqueeze(1), rivals.tokens], dim=1)  # [B, W+1, T]
    state = tree.take_rows(model.start(memory), torch.zeros_like(tokens[..., 0]))
    reads = torch.full_like(tokens[..., 0], vocab.bos)
    value: Tensor | None = None
    values = []
    for cell, back in enumerate(rivals.lost.unbind(1)):
        scores, state = model.step(memory, state, reads)
        scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
        reads = tokens[..., cell]
        here = scores.gather(2, reads.clamp(max=vocab.size - 1).unsqueeze(-1)).squeeze(-1)
        value = torch.zeros_like(here) if value is None else value
        value = torch.where(reads == vocab.pad, value, value + here if summed else here)
        values.append(value)
        state, reads, value = _back_to_truth((state, reads, value), back)
    found = torch.stack(values, dim=-1)
    return found[:, 0], found[:, 1:]


def _back_to_truth(rows: tuple[object, Tensor, Tensor], back: Bool[Tensor, "B"]) -> tuple[object, Tensor, Tensor]:
    """All rows of some examples as their first one, by a choice and no index: its gradient is a sum in fixed order."""

    def take(leaf: Tensor) -> Tensor:
        return torch.where(back.view(-1, *[1] * (leaf.ndim - 1)), leaf[:, :1], leaf)

    taken: tuple[object, Tensor, Tensor] = tree.map_leaves(take, rows)
    return taken
