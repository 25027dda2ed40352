"""Cross-fitting, tried: the search of an example by a model that was not trained on it. A part of `distribution.py`.

The training data fall into folds. For each a model is trained on the other folds (`Folded` with `left_out`), by maximum
likelihood. Then every batch is drawn from one fold (`Folded` without), and `CrossFit` has its roll-ins and roll-outs
made by the model of that fold, which makes the mistakes of new data there; what learns is one model of all data.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from functools import cache
from typing import Annotated, Any, ClassVar

import torch
from torch import Tensor, nn

import searnn
from searnn.algorithms import Searnn
from searnn.data.batching import Examples, ShuffledBatches
from searnn.interfaces import Encoded, RollIn, RollOut
from searnn.models import with_trace
from searnn.models.modes import evaluating
from searnn.settings import Setting, checked
from searnn.tasks import Pairs
from searnn.tasks.settings import Test, Train, Valid
from searnn.types import Batch, Branches

FOLDS = 4


class Folded(Pairs):
    """Pairs whose training examples are all but those of one fold, or all, each batch from a fold of its own."""

    def __init__(
        self,
        train: Train,
        valid: Valid,
        test: Test | None = None,
        *,
        left_out: Annotated[int, Setting("fold that is left out; -1: none", ge=-1)] = -1,
        **settings: Any,
    ) -> None:
        super().__init__(train, valid, test, **settings)
        self.left_out = left_out

    def make(self, split: str) -> Examples:
        """Leave the fold out of the training data."""
        examples = super().make(split)
        leaves = split == "train" and self.left_out >= 0
        return examples.take((examples.ids % FOLDS != self.left_out).nonzero().squeeze(1)) if leaves else examples

    def train(self, batch_size: int, seed: int) -> ShuffledBatches:
        """Batches in the order of folds, where none is left out."""
        if self.left_out >= 0:
            return super().train(batch_size, seed)
        return ByFold(self.examples("train"), batch_size, seed)


class ByFold(ShuffledBatches):
    """The batch of step n has examples of fold n % FOLDS alone."""

    def __init__(self, examples: Examples, batch_size: int, seed: int) -> None:
        super().__init__(examples, batch_size, seed)
        self.folds = [(examples.ids % FOLDS == fold).nonzero().squeeze(1) for fold in range(FOLDS)]
        self.each = min(map(len, self.folds)) // batch_size
        self.steps_per_epoch = self.each * FOLDS

    def _shuffle(self, draw: torch.Generator) -> Tensor:
        drawn = [rows[torch.randperm(len(rows), generator=draw)] for rows in self.folds]
        batches = [rows[: self.each * self.batch_size].view(self.each, self.batch_size) for rows in drawn]
        return torch.stack(batches, dim=1).flatten(0, 1)


@dataclass(frozen=True)
class Other:
    """A policy carried out by another model, which reads the inputs itself."""

    model: nn.Module
    policy: RollIn | RollOut

    def roll_in(self, encoded: Encoded, batch: Batch, rng: torch.Generator) -> Tensor:
        """The other model's prefix."""
        own: Any = with_trace(self.model)  # type: ignore[arg-type]
        with evaluating(own):
            return self.policy.roll_in(Encoded(own, own.encode(batch.inputs)), batch, rng)  # type: ignore[union-attr]

    def roll_out(self, encoded: Encoded, branches: Branches, batch: Batch, rng: torch.Generator) -> Tensor:
        """Every branch finished by the other model."""
        own: Any = with_trace(self.model)  # type: ignore[arg-type]
        with evaluating(own):
            memory = own.encode(batch.inputs)
            read = Encoded(own, memory, own.trace(memory, branches.prefix)[1])
            return self.policy.roll_out(read, branches, batch, rng)  # type: ignore[union-attr]


@checked
class CrossFit(Searnn):
    """SEARNN whose search is made by the models of folds: `models` is the path of their runs, with {} for the fold."""

    name: ClassVar[str] = "crossfit"
    models: str = ""

    def at(self, step: int) -> Searnn:
        """The update of this step's fold."""
        model = model_of(self.models.format(step % FOLDS))
        plain = Searnn(**{item.name: getattr(self, item.name) for item in fields(Searnn)})
        return replace(plain, roll_in=Other(model, self.roll_in), roll_out=Other(model, self.roll_out))


@cache
def model_of(folder: str) -> nn.Module:
    """The best model of a run."""
    return searnn.load(folder, device="auto", trust_code=True).model.requires_grad_(False).eval()
