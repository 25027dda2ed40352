"""Training in rounds: the policies of earlier rounds as untrained copies of the model, and the data they stand for.

Data aggregation (Ross et al., 2011) keeps what every round's policy visited. Here the policies are kept instead, and
visit anew whatever batch comes: the same set in expectation, with other examples. A copy has a size that is known
before training, whatever the inputs are, and is the same on all ranks and for all parts of a batch.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn

from searnn.algorithms.common.settings import Normalisation
from searnn.interfaces import Algorithm, Oracle, RollIn, Stepper
from searnn.models.stepping import unwrapped
from searnn.policies import Learned, Mixed, Reference
from searnn.policies.copies import Earlier
from searnn.types import Batch, SearnnError, Update


class Snapshots(nn.Module):
    """`count` untrained copies of the model, made by `attach`; each is overwritten in place when it is taken anew."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.count = count
        self.copies = nn.ModuleList()

    def attach(self, model: nn.Module) -> None:
        """Make the copies."""
        copies = (copy.deepcopy(model).requires_grad_(False) for _ in range(self.count))
        self.copies = nn.ModuleList(copies).eval()

    def train(self, mode: bool = True) -> Snapshots:
        """Copies search and never learn: their dropout stays off."""
        return super().train(False)

    def of(self, slot: int) -> nn.Module:
        """The copy in this slot."""
        if slot >= len(self.copies):
            raise SearnnError("there are no copies of the model yet: call the algorithm's attach(model) first")
        return self.copies[slot]

    @torch.no_grad()
    def take(self, slot: int, model: Stepper) -> None:
        """Note the model as it is now. Doing so again within an update changes nothing."""
        inner: Any = unwrapped(model)
        kept = self.of(slot)
        olds, news = ((*module.parameters(), *module.buffers()) for module in (kept, inner))
        for old, new in zip(olds, news, strict=True):
            old.copy_(new)


@dataclass(frozen=True)
class Round:
    """What an update does at some place of a round: note the model in `slot` if a round begins, then learn."""

    learn: Algorithm
    snapshots: Snapshots
    slot: int | None = None

    def __call__(self, model: Stepper, batch: Batch, rng: torch.Generator) -> Update:
        if self.slot is not None:
            self.snapshots.take(self.slot, model)
        return self.learn(model, batch, rng)  # type: ignore[arg-type]


class Aggregation(nn.Module):
    """The roll-ins of the last `buffer` rounds: round i's policy is the reference with probability
    `reference_decay`^i at every token, else the model as it stood when the round began.

    Updates take turns among the rounds that are kept, the newest first, so that all count the same.
    """

    def __init__(self, round_steps: int, buffer: int, reference_decay: float) -> None:
        super().__init__()
        self.round_steps, self.buffer, self.reference_decay = round_steps, buffer, reference_decay
        self.snapshots = Snapshots(buffer)

    def attach(self, model: nn.Module) -> None:
        """Make room for the policies."""
        self.snapshots.attach(model)

    def phase(self, step: int, oracle: Oracle, learn: Callable[[RollIn], Algorithm]) -> Round:
        """What update `step` does, where `learn` makes an algorithm of a roll-in."""
        newest, turn = divmod(step, self.round_steps)
        chosen = newest - turn % min(newest + 1, self.buffer)
        begins = turn == 0 and self._probability(newest) < 1  # the reference needs no model
        return Round(learn(self._roll_in(chosen, oracle)), self.snapshots, newest % self.buffer if begins else None)

    def _roll_in(self, number: int, oracle: Oracle) -> RollIn:
        """The policy of round `number`."""
        probability = self._probability(number)
        if probability == 1:
            return Reference(oracle)
        policy = Mixed(Reference(oracle), probability, per="token") if probability > 0 else Learned()
        return Earlier(self.snapshots.of(number % self.buffer), policy)

    def _probability(self, number: int) -> float:
        return float(self.reference_decay**number)


class Aggregating(nn.Module, ABC):
    """An algorithm that learns from the roll-ins of an aggregation; its first update is what a plain call makes."""

    def __init__(self, oracle: Oracle, normalisation: Normalisation, aggregation: Aggregation) -> None:
        super().__init__()
        self.oracle, self.normalisation, self.aggregation = oracle, normalisation, aggregation

    def attach(self, model: nn.Module) -> None:
        """Make room for the policies of the rounds that are kept."""
        self.aggregation.attach(model)

    def at(self, step: int) -> Round:
        """What this update does."""
        return self.aggregation.phase(step, self.oracle, self.learn)

    def forward(self, model: Stepper, batch: Batch, rng: torch.Generator) -> Update:
        """The first update."""
        return self.at(0)(model, batch, rng)

    @abstractmethod
    def learn(self, roll_in: RollIn) -> Algorithm:
        """What is learned where this policy rolls in."""
