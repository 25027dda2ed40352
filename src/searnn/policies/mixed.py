"""The mixed policy: a coin chooses between the reference and the model."""

from __future__ import annotations

from dataclasses import field, replace
from typing import Annotated, ClassVar, Literal

import torch
from jaxtyping import Bool, Int
from torch import Tensor

from searnn.decoding import Choose, Greedy, Standing, at_rows, roll_from_start, sampling, unroll
from searnn.interfaces import Encoded, State
from searnn.policies.learned import Learned
from searnn.policies.reference import Reference, next_tokens
from searnn.policies.sampled import Sampled
from searnn.rng import uniform
from searnn.schedules import Schedule
from searnn.searching import Wave, advance_branches
from searnn.sequences import at_cells
from searnn.settings import Setting, checked
from searnn.tree import take_examples
from searnn.types import Batch, Branches, Rows, SearnnError

ReferenceProbability = Annotated[
    float | Tensor | Schedule,
    Setting("chance of the reference in a mixed roll-out", ge=0, le=1, schedule="linear:1:0:10000", section="search"),
    Setting(
        "chance of the reference in a mixed roll-in", ge=0, le=1, schedule="linear:1:0:10000",
        axis="roll_in", name="roll_in_reference_probability",
    ),
]  # fmt: skip
Per = Annotated[
    Literal["example", "cell", "branch", "token"],
    Setting("what one coin of a mixed roll-out decides", name="mix_per"),
    Setting(
        "what one coin of a mixed roll-in decides", choices=("example", "token"), axis="roll_in", name="roll_in_mix_per"
    ),
]


Drawn = Annotated[
    bool, Setting("the model's tokens of a mixed roll-in are drawn", axis="roll_in", name="roll_in_mix_sampled")
]


@checked
class Mixed:
    """The reference with `reference_probability`, else the model.

    One coin `per` example (as in the authors' release), per cell or per branch of a roll-out, or per token, where the
    reference continues from whatever has been written. A roll-in has coins per example or per token; per token with a
    falling probability it is scheduled sampling. The model's tokens are its best ones; with `sampled` those of a
    roll-in are drawn from its probabilities.
    """

    name: ClassVar[str] = "mixed"
    may_move: ClassVar[tuple[str, ...]] = ("reference_probability",)
    reference: Reference = field(default_factory=Reference)
    reference_probability: ReferenceProbability = 0.5
    per: Per = "example"
    learned: Learned = field(default_factory=Learned)
    sampled: Drawn = False

    def __post_init__(self) -> None:
        if self.per == "token" and self.learned.beam > 1:
            raise SearnnError("a coin per token needs a greedy model: take beam=1")
        if self.sampled and self.learned.beam > 1:
            raise SearnnError(f"tokens that are drawn need no beam, which is {self.learned.beam}: take beam=1")

    def roll_in(self, encoded: Encoded, batch: Batch, rng: torch.Generator) -> Int[Tensor, "B T"]:
        """The truth or the model's own output by a coin per example, or both by a coin per token."""
        examples, length = batch.targets.shape
        device = batch.targets.device
        if self.per == "example":
            coins = self._toss((examples,), rng).to(device, non_blocking=True)
            reference = self.reference.roll_in(encoded, batch, rng)
            learned = Sampled() if self.sampled else self.learned
            return torch.where(coins.unsqueeze(1), reference, learned.roll_in(encoded, batch, rng))
        if self.per == "token":
            coins = self._toss((examples, 1, length), rng).to(device, non_blocking=True)
            model, memory, _ = encoded
            best: Choose = Greedy(model.vocab)
            if self.sampled:
                best = sampling(model.vocab, uniform(tuple(coins.shape), rng, device), 1.0)
            return roll_from_start(model, memory, batch, self._choose(best, batch, coins))
        raise SearnnError(f"a mixed roll-in tosses its coin per example or per token, not per {self.per}")

    def roll_out(
        self, encoded: Encoded, branches: Branches, batch: Batch, rng: torch.Generator
    ) -> Int[Tensor, "B C K T"]:
        """The reference's completion or the model's; what falls to the reference takes no model call."""
        if self.per == "token":
            return self._roll_out_by_token(encoded, branches, batch, rng)
        examples, cells, candidates = branches.tokens.shape
        shape = {"example": (examples, 1, 1), "cell": (examples, cells, 1), "branch": (examples, cells, candidates)}
        coins = self._toss(shape[self.per], rng).expand_as(branches.tokens)
        learned = self.learned.finish(encoded, branches, batch, needed=~coins)
        reference = self.reference.roll_out(encoded, branches, batch, rng)
        coins = coins.to(learned.device, non_blocking=True)
        return torch.where(coins.unsqueeze(-1), reference, learned)

    def _roll_out_by_token(
        self, encoded: Encoded, branches: Branches, batch: Batch, rng: torch.Generator
    ) -> Int[Tensor, "B C K T"]:
        shape = (*branches.tokens.flatten(1).shape, branches.prefix.shape[1])
        coins = self._toss(shape, rng).to(branches.tokens.device, non_blocking=True)

        def finish(forked: Encoded, state: State, rows: Rows, wave: Wave) -> Tensor:
            own = coins[wave.examples.unsqueeze(1), wave.slots]
            truth = take_examples(replace(batch, inputs=None), wave.examples)
            choose = self._choose(Greedy(forked.model.vocab), truth, own)
            return unroll(forked.model, forked.memory, state, rows, choose, wave.widths)

        return advance_branches(encoded, branches, batch, finish, budget=self.learned.budget)

    def _choose(self, best: Choose, batch: Batch, coins: Bool[Tensor, "B N T"]) -> Choose:
        def choose(scores: Tensor, standing: Standing) -> Tensor:
            written = standing.written[..., : batch.targets.shape[1]]
            reference = next_tokens(self.reference.oracle, at_cells(written, standing.row), standing.position, batch)
            return torch.where(at_rows(coins, standing), reference, best(scores, standing))

        return choose

    def _toss(self, shape: tuple[int, ...], rng: torch.Generator) -> Bool[Tensor, "..."]:
        """True is the reference. Tossed where the generator lives: on the host, nothing need be read back."""
        probability = self.reference_probability
        if isinstance(probability, Schedule):
            raise SearnnError("reference_probability is a schedule: take its value with searnn.schedules.at(..., step)")
        return uniform(shape, rng, rng.device) < probability
