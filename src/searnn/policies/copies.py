"""Policies carried out by copies of the model, as of earlier rounds: by one, or by SEARN's draw among several."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from searnn.decoding import Choose, Greedy, Standing, at_rows, roll_from_start, unroll
from searnn.interfaces import Encoded, Memory, Oracle, RollIn, State, Trail
from searnn.models import with_trace
from searnn.models.stepping import row_bytes
from searnn.policies.reference import next_tokens
from searnn.rng import uniform
from searnn.searching import Wave, advance_branches, as_roll_in
from searnn.sequences import at_cells
from searnn.tree import take_examples
from searnn.types import Batch, Branches, Rows


@dataclass(frozen=True)
class Earlier:
    """A roll-in by `model`, which reads the inputs itself, in place of the model that learns."""

    model: nn.Module
    policy: RollIn

    def roll_in(self, encoded: Encoded, batch: Batch, rng: torch.Generator) -> Int[Tensor, "B T"]:
        """The other model's prefix."""
        own = with_trace(self.model)  # type: ignore[arg-type]
        return as_roll_in(self.policy).roll_in(Encoded(own, own.encode(batch.inputs)), batch, rng)


@dataclass(frozen=True)
class Interpolated:
    """The reference with probability `reference_weight`, else model i with `weights[i]`, drawn for every token.

    The models are copies, not the one that learns; they step together, and each has read all that was written, by
    whomever.
    """

    oracle: Oracle
    reference_weight: float
    models: tuple[nn.Module, ...]
    weights: tuple[float, ...]

    def roll_in(self, encoded: Encoded, batch: Batch, rng: torch.Generator) -> Int[Tensor, "B T"]:
        """A prefix by all of them."""
        own = Together(self.models)
        draws = uniform((len(batch.targets), 1, batch.targets.shape[1]), rng, batch.targets.device)
        return roll_from_start(own, own.encode(batch.inputs), batch, self._choose(own, batch, draws))

    def roll_out(
        self, encoded: Encoded, branches: Branches, batch: Batch, rng: torch.Generator
    ) -> Int[Tensor, "B C K T"]:
        """Every branch finished by all of them."""
        own = Together(self.models)
        memory = own.encode(batch.inputs)
        _, trail = own.trace(memory, branches.prefix)
        shape = (*branches.tokens.flatten(1).shape, branches.prefix.shape[1])
        draws = uniform(shape, rng, branches.tokens.device)  # drawn at once, so that waves do not matter

        def finish(forked: Encoded, state: State, rows: Rows, wave: Wave) -> Tensor:
            truth = take_examples(replace(batch, inputs=None), wave.examples)
            choose = self._choose(own, truth, draws[wave.examples.unsqueeze(1), wave.slots])
            return unroll(forked.model, forked.memory, state, rows, choose, wave.widths)

        return advance_branches(Encoded(own, memory, trail), branches, batch, finish)

    def _choose(self, own: Together, batch: Batch, draws: Float[Tensor, "B N T"]) -> Choose:
        best = Greedy(own.vocab)

        def choose(scores: Tensor, standing: Standing) -> Tensor:
            drawn = at_rows(draws, standing)
            edge = self.reference_weight
            tokens = torch.zeros_like(standing.slot)
            if edge > 0:
                written = standing.written[..., : batch.targets.shape[1]]
                tokens = next_tokens(self.oracle, at_cells(written, standing.row), standing.position, batch)
            for part, weight in zip(scores.chunk(len(self.models), dim=-1), self.weights, strict=True):
                tokens = torch.where(drawn >= edge, best(part, standing), tokens)
                edge += weight
            return tokens

        return choose


class Together:
    """Several models as one: memory, state and trail are tuples of theirs, their scores stand side by side."""

    def __init__(self, models: Sequence[nn.Module]) -> None:
        self.models = [with_trace(model) for model in models]  # type: ignore[arg-type]
        self.vocab = self.models[0].vocab

    def encode(self, inputs: Any) -> Memory:
        """Have all read the inputs."""
        return tuple(model.encode(inputs) for model in self.models)

    def start(self, memory: Memory) -> State:
        """The first state of each."""
        return tuple(model.start(own) for model, own in zip(self.models, memory, strict=True))

    def step(self, memory: Memory, state: State, tokens: Int[Tensor, "B R"]) -> tuple[Float[Tensor, "B R NV"], State]:
        """Have all consume the same token."""
        scores, states = zip(
            *(model.step(own, at, tokens) for model, own, at in zip(self.models, memory, state, strict=True)),
            strict=True,
        )
        return torch.cat(scores, dim=-1), states

    def trace(self, memory: Memory, tokens: Int[Tensor, "B T"]) -> tuple[Float[Tensor, "B T NV"], Trail]:
        """Have all score the same sequence."""
        pairs = (model.trace(own, tokens) for model, own in zip(self.models, memory, strict=True))
        scores, trails = zip(*pairs, strict=True)
        return torch.cat(scores, dim=-1), trails

    def fork(self, memory: Memory, trail: Trail, cells: Int[Tensor, "B R"]) -> tuple[Memory, State]:
        """Fork all at the same cells."""
        pairs = (model.fork(own, kept, cells) for model, own, kept in zip(self.models, memory, trail, strict=True))
        memories, states = zip(*pairs, strict=True)
        return memories, states

    def row_bytes(self, memory: Memory, length: int) -> int:
        """What a row takes in all of them."""
        return sum(row_bytes(model, own, length) for model, own in zip(self.models, memory, strict=True))
