"""The stochastic policy: tokens drawn from the model's probabilities."""

from __future__ import annotations

from typing import Annotated, ClassVar

import torch
from jaxtyping import Int
from torch import Tensor

from searnn.decoding import roll_from_start, sampling, unroll
from searnn.interfaces import Encoded, State
from searnn.policies.learned import Budget
from searnn.rng import uniform
from searnn.searching import Wave, advance_branches
from searnn.settings import Setting, checked
from searnn.types import Batch, Branches, Rows

Temperature = Annotated[
    float,
    Setting("temperature of a sampled roll-in", gt=0, axis="roll_in"),
    Setting("temperature of a sampled roll-out", gt=0, axis="roll_out", name="roll_out_temperature"),
]


@checked
class Sampled:
    """softmax(scores / temperature) decides, cell by cell."""

    name: ClassVar[str] = "sampled"
    temperature: Temperature = 1.0
    budget: Budget = None

    def roll_in(self, encoded: Encoded, batch: Batch, rng: torch.Generator) -> Int[Tensor, "B T"]:
        """One sampled output per example."""
        model, memory, _ = encoded
        draws = uniform((len(batch.targets), 1, batch.targets.shape[1]), rng, batch.targets.device)
        return roll_from_start(model, memory, batch, sampling(model.vocab, draws, self.temperature))

    def roll_out(
        self, encoded: Encoded, branches: Branches, batch: Batch, rng: torch.Generator
    ) -> Int[Tensor, "B C K T"]:
        """One sampled completion per branch."""
        shape = (*branches.tokens.flatten(1).shape, branches.prefix.shape[1])
        draws = uniform(shape, rng, branches.tokens.device)  # drawn at once, so that waves do not matter

        def finish(forked: Encoded, state: State, rows: Rows, wave: Wave) -> Tensor:
            own = draws[wave.examples.unsqueeze(1), wave.slots]
            choose = sampling(forked.model.vocab, own, self.temperature)
            return unroll(forked.model, forked.memory, state, rows, choose, wave.widths)

        return advance_branches(encoded, branches, batch, finish, budget=self.budget)
