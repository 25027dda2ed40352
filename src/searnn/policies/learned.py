"""The learned policy: the model's own decoding, greedy or by beam search."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from searnn.decoding import Greedy, beam_search, decode_from, roll_from_start, unroll
from searnn.engine import replaceable
from searnn.interfaces import Encoded, RollIn, State
from searnn.searching import Wave, advance_branches
from searnn.settings import Setting, checked
from searnn.types import Batch, Branches, Rows

Beam = Annotated[
    int,
    Setting("beam width of the learned roll-out; 1 is greedy", ge=1, axis="roll_out", name="roll_out_beam"),
    Setting("beam width of the learned roll-in; 1 is greedy", ge=1, axis="roll_in", name="roll_in_beam"),
]
Penalty = Annotated[
    float,
    Setting("power of the length in a roll-out's beam", ge=0, axis="roll_out", name="roll_out_length_penalty"),
    Setting("power of the length in a roll-in's beam", ge=0, axis="roll_in", name="roll_in_length_penalty"),
]
Budget = Annotated[  # in bytes
    int | None,
    Setting("memory of roll-outs that run together in MiB, or auto", ge=1, none="auto", unit=2**20, axis="roll_out"),
]


@checked
class Learned:
    """The current model, greedy or with a `beam`; `budget` bounds the bytes of rows that run together.

    A beam orders its outputs by their log-probability divided by their length to the power of `length_penalty`.
    """

    name: ClassVar[str] = "learned"
    beam: Beam = 1
    length_penalty: Penalty = 1.0
    budget: Budget = None

    def roll_in(self, encoded: Encoded, batch: Batch, rng: torch.Generator) -> Int[Tensor, "B T"]:
        """The model's own output."""
        model, memory, _ = encoded
        if self.beam == 1:
            return roll_from_start(model, memory, batch, Greedy(model.vocab))
        return decode_from(model, memory, batch, width=self.beam, length_penalty=self.length_penalty)[0][:, 0]

    def repeats(self, roll_in: RollIn) -> bool:
        """Greedy decoding goes on from its own prefix as it did before; a beam need not."""
        return isinstance(roll_in, Learned) and roll_in.beam == self.beam == 1

    def roll_out(
        self, encoded: Encoded, branches: Branches, batch: Batch, rng: torch.Generator
    ) -> Int[Tensor, "B C K T"]:
        """Every branch finished by the model."""
        return self.finish(encoded, branches, batch)

    def finish(
        self,
        encoded: Encoded,
        branches: Branches,
        batch: Batch,
        *,
        needed: Bool[Tensor, "B C K"] | None = None,
        steps: int | None = None,
    ) -> Int[Tensor, "B C K T"]:
        """Those branches that are `needed`, finished or taken `steps` tokens further."""
        if self.beam == 1:
            return finish_greedily(encoded, branches, batch, needed=needed, steps=steps, budget=self.budget)

        def by_beam(forked: Encoded, state: State, rows: Rows, wave: Wave) -> Tensor:
            found, _ = beam_search(
                forked.model, forked.memory, state, rows, wave.widths, width=self.beam,
                length_penalty=self.length_penalty,
            )  # fmt: skip
            return found[:, :, 0]

        asked: dict[str, Any] = {"needed": needed, "steps": steps, "budget": self.budget, "copies": self.beam}
        return advance_branches(encoded, branches, batch, by_beam, **asked)


@replaceable
def finish_greedily(
    encoded: Encoded,
    branches: Branches,
    batch: Batch,
    *,
    needed: Bool[Tensor, "B C K"] | None = None,
    steps: int | None = None,
    budget: int | None = None,
) -> Int[Tensor, "B C K T"]:
    """The branches finished by the model's best tokens; the numbers are those of `advance_branches`."""

    def greedily(forked: Encoded, state: State, rows: Rows, wave: Wave) -> Tensor:
        return unroll(forked.model, forked.memory, state, rows, Greedy(forked.model.vocab), wave.widths)

    return advance_branches(encoded, branches, batch, greedily, needed=needed, steps=steps, budget=budget)
