"""Beam-search optimisation (Wiseman and Rush, 2016)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, ClassVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from searnn.algorithms.common import paths
from searnn.algorithms.common.losses import total
from searnn.algorithms.common.settings import Normalisation, TrainBeamOfTwo
from searnn.decoding.tracking import Rivals, beam_beside_truth, prefix_scores
from searnn.defaults import NEEDS_WARM_UP, Recipe
from searnn.interfaces import Cost, Stepper
from searnn.models.modes import evaluating
from searnn.schedules import Schedule
from searnn.searching import bind
from searnn.sequences import seal, valid_cells
from searnn.settings import Setting, check
from searnn.types import Batch, SearnnError, Update


@dataclass(frozen=True, kw_only=True)
class Bso:
    """Σ_t Δ(ŷ) [m + f(ŷ) - f(y)] over the cells t where the truth's prefix y does not beat the beam's last, ŷ, by m.

    The score f of a prefix is that of its last token, without softmax. After each violation the search begins again
    from the truth (LaSO). At the truth's last cell ŷ is the best wrong prefix. Δ is 1, or with `cost_weighted` what ŷ
    costs since the search last began. A model trained with a beam of K is meant to be decoded with one of K - 1.
    """

    name: ClassVar[str] = "bso"
    recipe: ClassVar[Recipe] = NEEDS_WARM_UP
    train_beam: TrainBeamOfTwo = 2
    margin: Annotated[float, Setting("by how much the truth must beat the beam's last", ge=0)] = 1.0
    cost_weighted: Annotated[bool, Setting("violations count by what they cost")] = False
    cost: Cost | None = None
    normalisation: Normalisation = "batch"

    def __post_init__(self) -> None:
        check(self)
        if self.cost_weighted and self.cost is None:
            raise SearnnError("cost_weighted needs a cost to weigh violations by, and none is given: pass cost=")

    def at(self, step: int) -> Bso:
        """The same with the beam of this update, a whole number, so that many updates have equal settings."""
        return replace(self, train_beam=beam_at(self.train_beam, step))

    def __call__(self, model: Stepper, batch: Batch, rng: torch.Generator) -> Update:
        """One loss from one batch: a beam search beside the truth, then the violations' scores with gradient."""
        model, batch, memory, fixed = paths.read(model, batch)
        truth = seal(batch.targets, batch.lengths, model.vocab)
        with evaluating(model):
            width = whole_beam(self.train_beam)
            found = beam_beside_truth(model, fixed, truth, batch, width=width, judge=self._judge, summed=False)
        ours, theirs = prefix_scores(model, memory, truth, found, summed=False)
        losses = self._weights(truth, found, batch, ours) * (self.margin + theirs.squeeze(1) - ours)
        counted = valid_cells(truth, batch)
        loss = total(losses, counted, self.normalisation)
        cells = counted.sum()
        return Update(loss, {"loss": loss.detach(), **search_logs(found, counted)}, cells, {"lost_cells": cells})

    def _judge(
        self, own: Float[Tensor, "B"], best: Float[Tensor, "B K"], last: Bool[Tensor, "B"]
    ) -> tuple[Bool[Tensor, "B"], Int[Tensor, "B 1"]]:
        """The last wrong prefix of a beam that may hold the truth too; where the truth ends, the best wrong one."""
        width = best.shape[1]
        place = torch.where(own < best[:, -1], width - 1, width - 2).masked_fill(last, 0).unsqueeze(1)
        return own < best.gather(1, place).squeeze(1) + self.margin, place

    def _weights(
        self, truth: Int[Tensor, "B T"], found: Rivals, batch: Batch, like: Float[Tensor, "B T"]
    ) -> Float[Tensor, "B T"]:
        """Δ of each cell, 0 where nothing was violated."""
        if not self.cost_weighted or self.cost is None:
            return found.lost.to(like.dtype)
        vocab, length = batch.vocabulary, truth.shape[1]
        cells = torch.arange(length, device=truth.device)
        source = found.starts.unsqueeze(-1) + cells  # [B, T, T]: the stretch up to each cell, moved to the front
        written = source <= cells.unsqueeze(-1)
        source = source.clamp(max=length - 1)

        def stretches(tokens: Int[Tensor, "B T"]) -> Int[Tensor, "N T"]:
            taken = tokens.unsqueeze(1).expand_as(source).gather(2, source)
            return torch.where(written, taken, vocab.pad).flatten(0, 1)

        true = stretches(truth)
        wrong = torch.where(found.lost.flatten().unsqueeze(1), stretches(found.tokens[:, 0]), true)
        costs = bind(self.cost, vocab)(wrong.unsqueeze(1), true)  # every stretch is an example of its own
        return costs.view_as(truth).to(like.dtype) * found.lost


def beam_at(beam: float | Schedule, step: int) -> int:
    """The beam of an update, rounded down."""
    return int(beam if isinstance(beam, (int, float)) else beam(step))


def whole_beam(beam: float | Schedule) -> int:
    """The beam as a whole number, where its schedule has been looked up."""
    if not isinstance(beam, (int, float)):
        raise SearnnError("train_beam is a schedule: take its value with searnn.schedules.at(..., step)")
    return int(beam)


def search_logs(found: Rivals, counted: Bool[Tensor, "B T"]) -> dict[str, Tensor]:
    """How often the truth lost: the share of cells, and the share of examples in which it did."""
    cells = found.lost.sum() / counted.sum().clamp(min=1)
    return {"lost_cells": cells, "lost_examples": found.lost.any(1).to(cells.dtype).mean()}
