"""Several models as one: at every cell the mean of their probabilities."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from searnn.interfaces import Memory, Model, State, Stepper, Trail
from searnn.models.stepping import row_bytes, unwrapped, with_trace
from searnn.sequences.ends import forbid
from searnn.types import SearnnError


class Ensemble(nn.Module):
    """A model whose probabilities are the mean of those of its members, which have one vocabulary and read one input.

    Its scores are log-probabilities. Members may be of any family; each keeps its own memory and state.
    """

    def __init__(self, members: Iterable[Stepper]) -> None:
        super().__init__()
        self.members = [with_trace(member) for member in members]
        if not self.members:
            raise SearnnError("an ensemble has no members: give at least one model")
        self.vocab = self.members[0].vocab
        for number, member in enumerate(self.members):
            if member.vocab != self.vocab:
                raise SearnnError(f"member {number} has {member.vocab}, member 0 {self.vocab}: expected the same")
        inner = (unwrapped(member) for member in self.members)
        self.weights = nn.ModuleList(member for member in inner if isinstance(member, nn.Module))

    def encode(self, inputs: Any) -> Memory:
        """What each member keeps of the inputs."""
        return tuple(member.encode(inputs) for member in self.members)

    def start(self, memory: Memory) -> State:
        """The state of each member."""
        return tuple(member.start(own) for member, own in self._with(memory))

    def step(self, memory: Memory, state: State, tokens: Int[Tensor, "B R"]) -> tuple[Float[Tensor, "B R V"], State]:
        """Consume one token per row; the log of the mean probability of the next."""
        stepped = [member.step(own, at, tokens) for (member, own), at in zip(self._with(memory), state, strict=True)]
        return self._mean([scores for scores, _ in stepped]), tuple(after for _, after in stepped)

    def trace(self, memory: Memory, tokens: Int[Tensor, "B T"]) -> tuple[Float[Tensor, "B T V"], Trail]:
        """Score a given sequence."""
        traced = [member.trace(own, tokens) for member, own in self._with(memory)]
        return self._mean([scores for scores, _ in traced]), tuple(trail for _, trail in traced)

    def fork(self, memory: Memory, trail: Trail, cells: Int[Tensor, "B R"]) -> tuple[Memory, State]:
        """Rows before `cells`, of each member."""
        forked = [member.fork(own, at, cells) for (member, own), at in zip(self._with(memory), trail, strict=True)]
        return tuple(own for own, _ in forked), tuple(state for _, state in forked)

    def row_bytes(self, memory: Memory, length: int) -> int:
        """What a row takes in all members together."""
        return sum(row_bytes(member, own, length) for member, own in self._with(memory))

    def _with(self, memory: Memory) -> Iterable[tuple[Model, Memory]]:
        return zip(self.members, memory, strict=True)

    def _mean(self, scores: Sequence[Float[Tensor, "*N V"]]) -> Float[Tensor, "*N V"]:
        """The log of the mean of the probabilities; PAD and BOS, which are never chosen, have none."""
        logs = torch.stack([forbid(one, self.vocab).log_softmax(-1) for one in scores])
        return logs.logsumexp(0) - math.log(len(scores))
