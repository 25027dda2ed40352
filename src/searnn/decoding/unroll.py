"""The loop over time: every row of every example takes its next token, together, until all have ended."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from searnn import tree
from searnn.devices import reads_are_free
from searnn.interfaces import Memory, Model, State
from searnn.sequences import forbid
from searnn.types import Rows, Vocabulary

DROP_BELOW = 0.75  # ended rows are dropped once fewer than this share are left: dropping copies the others


class Standing(NamedTuple):
    """What a choice may depend on besides the scores: which of the given rows these are, where they stand."""

    row: Int[Tensor, "B R"]  # the row's place among the rows given to `unroll`
    position: Int[Tensor, "B R"]  # the cell that is chosen now
    written: Int[Tensor, "B N W"]  # all given rows as far as they are written


Choose = Callable[[Float[Tensor, "B R V"], Standing], Int[Tensor, "B R"]]


def greedy(vocab: Vocabulary) -> Choose:
    """The best-scored token."""

    def choose(scores: Tensor, _: Standing) -> Tensor:
        return forbid(scores, vocab).max(-1).indices  # on a CPU 2 to 3 times faster than argmax

    return choose


def sampling(vocab: Vocabulary, draws: Float[Tensor, "B N T"], temperature: float) -> Choose:
    """A token drawn from the model's probabilities, by one number of [0, 1) per row and cell."""

    def choose(scores: Tensor, standing: Standing) -> Tensor:
        sums = (forbid(scores, vocab) / temperature).softmax(-1).cumsum(-1)
        drawn = at_rows(draws, standing) * sums[..., -1]
        return (sums <= drawn.unsqueeze(-1)).sum(-1).clamp(max=vocab.size - 1)

    return choose


def at_rows(values: Tensor, standing: Standing) -> Tensor:
    """The entry of `values [B, N, T]` for each standing row at its position."""
    examples = torch.arange(len(values), device=values.device).unsqueeze(1)
    return values[examples, standing.row, standing.position.clamp(max=values.shape[-1] - 1)]


def last_tokens(rows: Rows, vocab: Vocabulary) -> Int[Tensor, "B R"]:
    """The token each row consumes next: the last one written, BOS where there is none."""
    last = rows.outputs.gather(2, rows.cells.clamp(min=0).unsqueeze(-1)).squeeze(-1)
    return torch.where(rows.cells < 0, vocab.bos, last)


def unroll(
    model: Model, memory: Memory, state: State, rows: Rows, choose: Choose, widths: Sequence[int]
) -> Int[Tensor, "B R T"]:
    """Finish `rows`, whose `state` has consumed all but their last token.

    `widths` says for each step how many rows, counted from the first, can still be unfinished: rows are sorted so that
    those with the most room come first, and the others leave. It is known beforehand, so nothing is read back.
    """
    vocab = model.vocab
    examples, count, length = rows.outputs.shape
    written = functional.pad(rows.outputs, (0, 1), value=vocab.pad)  # ended rows write into the spare last column
    flat = written.view(examples, -1)
    tokens = last_tokens(rows, vocab)
    alive = rows.cells + 1 < rows.limits
    if vocab.eos is not None:
        alive = alive & (tokens != vocab.eos)
    index = torch.arange(count, device=tokens.device).expand(examples, count)
    position, limits = rows.cells + 1, rows.limits
    may_drop = vocab.eos is not None and reads_are_free(tokens.device)
    for width in widths:
        if may_drop:
            left = int(alive.sum(1).max())
            if left == 0:
                break
            if left < DROP_BELOW * index.shape[1]:
                kept = alive.long().argsort(dim=1, descending=True, stable=True)[:, :left]
                standing = (state, tokens, alive, index, position, limits)
                state, tokens, alive, index, position, limits = tree.take_rows(standing, kept)
        if width < index.shape[1]:
            standing = (state, tokens, alive, index, position, limits)
            state, tokens, alive, index, position, limits = tree.first_rows(standing, width)
        scores, state = model.step(memory, state, tokens)
        tokens = choose(scores, Standing(index, position, written))
        flat.scatter_(1, index * (length + 1) + torch.where(alive, position, length), tokens)
        position = position + 1
        alive = alive & (position < limits)
        if vocab.eos is not None:
            alive = alive & (tokens != vocab.eos)
    return written[..., :length]
