"""The learned policy: the model's own decoding, greedy or by beam search."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from searnn.decoding import Greedy, beam_search, decode_from, roll_from_start, unroll
from searnn.interfaces import Memory, Model, Policy, State, Trail
from searnn.searching import Wave, advance_branches
from searnn.settings import Setting, check
from searnn.types import Batch, Branches, Rows

Beam = Annotated[
    int,
    Setting("beam width of the learned roll-out; 1 is greedy", ge=1, axis="roll_out", name="roll_out_beam"),
]
Budget = Annotated[  # in bytes
    int | None,
    Setting("memory of roll-outs that run together in MiB, or auto", ge=1, none="auto", unit=2**20, axis="roll_out"),
]


@dataclass(frozen=True)
class Learned:
    """The current model, greedy or with a `beam`; `budget` bounds the bytes of rows that run together."""

    name: ClassVar[str] = "learned"
    beam: Beam = 1
    length_penalty: float = 1.0
    budget: Budget = None

    def __post_init__(self) -> None:
        check(self)

    def roll_in(self, model: Model, memory: Memory, batch: Batch, rng: torch.Generator) -> Int[Tensor, "B T"]:
        """The model's own output."""
        if self.beam == 1:
            return roll_from_start(model, memory, batch, Greedy(model.vocab))
        return decode_from(model, memory, batch, width=self.beam, length_penalty=self.length_penalty)[0][:, 0]

    def repeats(self, roll_in: Policy) -> bool:
        """Greedy decoding goes on from its own prefix as it did before; a beam need not."""
        return isinstance(roll_in, Learned) and roll_in.beam == self.beam == 1

    def roll_out(
        self, model: Model, memory: Memory, trail: Trail, branches: Branches, batch: Batch, rng: torch.Generator
    ) -> Int[Tensor, "B C K T"]:
        """Every branch finished by the model."""
        return self.finish_branches(model, memory, trail, branches, batch)

    def finish_branches(
        self,
        model: Model,
        memory: Memory,
        trail: Trail,
        branches: Branches,
        batch: Batch,
        *,
        needed: Bool[Tensor, "B C K"] | None = None,
        steps: int | None = None,
    ) -> Int[Tensor, "B C K T"]:
        """Those branches that are `needed`, finished or taken `steps` tokens further."""
        own = getattr(model, "finish_branches", None)  # a model may have a faster way of its own
        if self.beam == 1 and own is not None:
            asked = {"needed": needed, "steps": steps, "budget": self.budget}
            finished: Tensor | None = own(memory, trail, branches, batch.lengths, **asked)
            if finished is not None:
                return finished

        def finish(model: Model, memory: Memory, state: State, rows: Rows, wave: Wave) -> Tensor:
            if self.beam == 1:
                return unroll(model, memory, state, rows, Greedy(model.vocab), wave.widths)
            found, _ = beam_search(
                model, memory, state, rows, wave.widths, width=self.beam, length_penalty=self.length_penalty
            )
            return found[:, :, 0]

        return advance_branches(
            model,
            memory,
            trail,
            branches,
            batch,
            finish,
            needed=needed,
            steps=steps,
            budget=self.budget,
            copies=self.beam,
        )
