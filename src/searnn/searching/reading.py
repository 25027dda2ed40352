"""A batch as it is read twice: by the search, without gradient and dropout, and by the pass that learns."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext

import torch
from jaxtyping import Float, Int
from torch import Tensor

from searnn import tree
from searnn.engine import span
from searnn.interfaces import Encoded, Memory, SameInTraining, Stepper
from searnn.models import with_trace
from searnn.models.modes import evaluating
from searnn.types import Batch


class Reading:
    """One batch read by one model; where the model does the same in training, one pass serves search and learning.

    `alone` keeps the two apart all the same. With `dropout` the search goes through that pass as it is in training.
    """

    def __init__(self, model: Stepper, batch: Batch, *, alone: bool = False, dropout: bool = False) -> None:
        self.model = with_trace(model)
        self.batch = batch.with_vocab(model.vocab)
        same = isinstance(model, SameInTraining) and model.same_in_training
        self.dropout = dropout and not same
        self.shared = not alone and (same or dropout)
        self.learning = torch.is_grad_enabled()
        self._memory: Memory = None
        self._encoded: Encoded | None = None
        self._scores: tuple[Tensor, Tensor] | None = None  # of a prefix that the search has traced with gradient

    @property
    def memory(self) -> Memory:
        """What the model keeps of the inputs, with gradient."""
        if self._memory is None:
            with torch.set_grad_enabled(self.learning), span("encode"):
                self._memory = self.model.encode(self.batch.inputs)
        return self._memory

    @contextmanager
    def searching(self) -> Iterator[None]:
        """No gradient, and no dropout that was not asked for."""
        with torch.no_grad(), nullcontext() if self.shared else evaluating(self.model):
            yield

    def rolling_out(self) -> AbstractContextManager[None]:
        """No dropout, whatever the roll-in had."""
        return evaluating(self.model) if self.dropout else nullcontext()

    def encode(self) -> Encoded:
        """The inputs read for the search."""
        if self._encoded is None and self.shared:
            self._encoded = Encoded(self.model, tree.map_leaves(torch.Tensor.detach, self.memory))
        elif self._encoded is None:
            with span("encode"):
                self._encoded = Encoded(self.model, self.model.encode(self.batch.inputs))
        return self._encoded

    def trace(self, encoded: Encoded, prefix: Int[Tensor, "B T"]) -> tuple[Encoded, Float[Tensor, "B T V"]]:
        """The states at every cell of a prefix, to branch from, and the scores there."""
        model, memory, _ = encoded
        with torch.set_grad_enabled(self.shared and self.learning), span("trace"):
            scores, trail = model.trace(self.memory if self.shared else memory, prefix)
        if self.shared:
            self._scores = prefix, scores
        return Encoded(model, memory, tree.map_leaves(torch.Tensor.detach, trail)), scores.detach()

    def scores(self, prefix: Int[Tensor, "B T"]) -> Float[Tensor, "B T V"]:
        """The scores along a prefix, with gradient: one teacher-forced pass."""
        if self._scores is not None and self._scores[0] is prefix:
            return self._scores[1]
        memory = self.memory
        with span("trace"):
            return self.model.trace(memory, prefix)[0]
