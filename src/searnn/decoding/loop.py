"""The loop over time: every row of every example takes its next token, together, until all have ended."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor
from torch.nn import functional

from searnn import tree
from searnn.devices import reads_are_free
from searnn.engine import replaceable
from searnn.interfaces import GreedyFinisher, Memory, State, Stepper
from searnn.sequences import forbid
from searnn.types import Rows, Vocabulary

DROP_BELOW = 0.75  # ended rows are dropped once fewer than this share are left: dropping copies the others


class Standing(NamedTuple):
    """What a choice may depend on besides the scores: where in the written rows each one stands."""

    slot: Int[Tensor, "B R"]  # row · width + position of the cell that is chosen now
    written: Int[Tensor, "B N W"]  # all rows given to `unroll` as far as they are written

    @property
    def row(self) -> Int[Tensor, "B R"]:
        """The row's place among those given."""
        return self.slot // self.written.shape[-1]

    @property
    def position(self) -> Int[Tensor, "B R"]:
        """The cell that is chosen now."""
        return self.slot % self.written.shape[-1]


Choose = Callable[[Float[Tensor, "B R V"], Standing], Int[Tensor, "B R"]]


@dataclass(frozen=True)
class Greedy:
    """The best-scored token."""

    vocab: Vocabulary

    def __call__(self, scores: Float[Tensor, "B R V"], standing: Standing) -> Int[Tensor, "B R"]:
        return forbid(scores, self.vocab).max(-1).indices  # on a CPU 2 to 3 times faster than argmax


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


@replaceable
def unroll(
    model: Stepper, memory: Memory, state: State, rows: Rows, choose: Choose, widths: Sequence[int]
) -> Int[Tensor, "B R T"]:
    """Finish `rows`, whose `state` has consumed all but their last token.

    `widths` says for each step how many rows, counted from the first, can still be unfinished: rows are sorted so that
    those with the most room come first, and the others leave. It is known beforehand, so nothing is read back.
    """
    if isinstance(choose, Greedy) and isinstance(model, GreedyFinisher):
        finished = model.finish_greedily(memory, state, rows)
        if finished is not None:
            return finished
    vocab = model.vocab
    examples, count, length = rows.outputs.shape
    spare = length  # ended rows write into one column more, which is cut off at the end
    written = functional.pad(rows.outputs, (0, 1), value=vocab.pad)
    flat = written.view(examples, -1)
    tokens = last_tokens(rows, vocab)
    left = rows.limits - rows.cells - 1  # how many tokens each row may still take
    if vocab.eos is not None:
        left = left.masked_fill(tokens == vocab.eos, 0)
    slot = torch.arange(count, device=tokens.device) * (length + 1) + rows.cells + 1
    may_drop = vocab.eos is not None and reads_are_free(tokens.device)
    for width in widths:
        if may_drop:
            alive = left > 0
            most = int(alive.sum(1).max())
            if most == 0:
                break
            if most < DROP_BELOW * tokens.shape[1]:
                kept = alive.long().argsort(dim=1, descending=True, stable=True)[:, :most]
                state, tokens, left, slot = tree.take_rows((state, tokens, left, slot), kept)
        if width < tokens.shape[1]:
            state, tokens, left, slot = tree.first_rows((state, tokens, left, slot), width)
        scores, state = model.step(memory, state, tokens)
        tokens = choose(scores, Standing(slot, written))
        alive = left > 0
        flat.scatter_(1, torch.where(alive, slot, spare), tokens)
        slot, left = slot + alive, left - 1
        if vocab.eos is not None:
            left = left.masked_fill(tokens == vocab.eos, 0)
    return written[..., :length]
