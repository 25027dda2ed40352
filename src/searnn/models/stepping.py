"""What any steppable model gets for nothing: scoring a whole sequence, restarting from any cell of it, its memory."""

from __future__ import annotations

from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from searnn import tree
from searnn.interfaces import Memory, Model, RowCost, State, Stepper, Trail


def shift_right(tokens: Int[Tensor, "B T"], bos: int) -> Int[Tensor, "B T"]:
    """What a model reads before it scores each cell: BOS, then all tokens but the last."""
    return torch.cat([torch.full_like(tokens[:, :1], bos), tokens[:, :-1]], dim=1)


class Stepped:
    """A stepper with `trace` and `fork` made from its `step`: T calls in place of one."""

    def __init__(self, stepper: Stepper) -> None:
        self.stepper = stepper
        self.vocab = stepper.vocab

    def encode(self, inputs: Any) -> Memory:
        """Read the inputs once."""
        return self.stepper.encode(inputs)

    def start(self, memory: Memory) -> State:
        """The state of one row per example."""
        return self.stepper.start(memory)

    def step(self, memory: Memory, state: State, tokens: Int[Tensor, "B R"]) -> tuple[Float[Tensor, "B R V"], State]:
        """Consume one token per row; score the next."""
        return self.stepper.step(memory, state, tokens)

    def trace(self, memory: Memory, tokens: Int[Tensor, "B T"]) -> tuple[Float[Tensor, "B T V"], Trail]:
        """Score a given sequence by stepping through it; the trail is the state at every cell."""
        state = self.stepper.start(memory)
        scores, states = [], []
        for token in shift_right(tokens, self.vocab.bos).unbind(1):
            scored, state = self.stepper.step(memory, state, token.unsqueeze(1))
            scores.append(scored)
            states.append(state)
        return torch.cat(scores, dim=1), tree.join_rows(states)

    def fork(self, memory: Memory, trail: Trail, cells: Int[Tensor, "B R"]) -> tuple[Memory, State]:
        """The states at `cells`."""
        return memory, tree.take_rows(trail, cells)


def with_trace(model: Stepper) -> Model:
    """The model itself where it can trace and fork, else the same model made able to."""
    return model if isinstance(model, Model) else Stepped(model)


def row_bytes(model: Stepper, memory: Memory, length: int) -> int:
    """About how many bytes a row takes while it advances: its state several times over, its scores, its tokens."""
    if isinstance(model, RowCost):
        return int(model.row_bytes(memory, length)) + 32 * length
    return 8 * tree.bytes_per_row(model.start(memory)) + 16 * model.vocab.size + 32 * length


def unwrapped(model: Stepper) -> Stepper:
    """The model as its author made it, without what `with_trace` has put around it."""
    return unwrapped(model.stepper) if isinstance(model, Stepped) else model
