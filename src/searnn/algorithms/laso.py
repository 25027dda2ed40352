"""Learning as search optimisation (Daumé and Marcu, 2005)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from searnn.algorithms.bso import beam_at, search_logs, whole_beam
from searnn.algorithms.common import paths
from searnn.algorithms.common.losses import total
from searnn.algorithms.common.settings import Normalisation, TrainBeam
from searnn.decoding.tracking import beam_beside_truth, prefix_scores
from searnn.defaults import NEEDS_WARM_UP, Recipe
from searnn.interfaces import Stepper
from searnn.models.modes import evaluating
from searnn.sequences import seal, valid_cells
from searnn.settings import check
from searnn.types import Batch, Update


@dataclass(frozen=True, kw_only=True)
class Laso:
    """Σ_t mean_k f(ŷ_k) - f(y) over the cells t where the truth's prefix y falls out of the beam ŷ_1, ..., ŷ_K.

    The score f of a prefix is the sum of its tokens' scores, without softmax. After each error the search begins again
    from the truth. At its last cell the truth must be the first.
    """

    name: ClassVar[str] = "laso"
    recipe: ClassVar[Recipe] = NEEDS_WARM_UP
    train_beam: TrainBeam = 1
    normalisation: Normalisation = "batch"

    def __post_init__(self) -> None:
        check(self)

    def at(self, step: int) -> Laso:
        """The same with the beam of this update, a whole number, so that many updates have equal settings."""
        return replace(self, train_beam=beam_at(self.train_beam, step))

    def __call__(self, model: Stepper, batch: Batch, rng: torch.Generator) -> Update:
        """One loss from one batch: a beam search beside the truth, then the beams it fell out of, with gradient."""
        model, batch, memory, fixed = paths.read(model, batch)
        truth = seal(batch.targets, batch.lengths, model.vocab)
        with evaluating(model):
            width = whole_beam(self.train_beam)
            found = beam_beside_truth(model, fixed, truth, batch, width=width, judge=_judge, summed=True)
        ours, theirs = prefix_scores(model, memory, truth, found, summed=True)
        beam = (theirs * found.real).sum(1) / found.real.sum(1).clamp(min=1)
        counted = valid_cells(truth, batch)
        loss = total((beam - ours) * found.lost, counted, self.normalisation)
        cells = counted.sum()
        return Update(loss, {"loss": loss.detach(), **search_logs(found, counted)}, cells, {"lost_cells": cells})


def _judge(
    own: Float[Tensor, "B"], best: Float[Tensor, "B K"], last: Bool[Tensor, "B"]
) -> tuple[Bool[Tensor, "B"], Int[Tensor, "B K"]]:
    """The truth has lost to a whole beam that it is not in; where it ends, if it is not the best."""
    bar = torch.where(last, best[:, 0], best[:, -1])
    return own <= bar, torch.arange(best.shape[1], device=best.device).expand_as(best)
