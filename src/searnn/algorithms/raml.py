"""Reward-augmented maximum likelihood (Norouzi et al., 2016)."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar

import torch

from searnn.algorithms.common.perturbation import perturb, usual_tau
from searnn.algorithms.common.settings import Normalisation, TauOrUsual
from searnn.algorithms.mle import Mle
from searnn.costs import EditDistance, Hamming
from searnn.defaults import COUNTED_EDITS, Recipe
from searnn.interfaces import Cost, Stepper
from searnn.sequences import before_end, seal
from searnn.settings import check
from searnn.types import Batch, SearnnError, Update


@dataclass(frozen=True, kw_only=True)
class Raml:
    """-log p(ỹ | x) of a perturbed truth ỹ drawn from q(ỹ) ∝ exp(-d(ỹ, y) / `tau`), d the number of edits.

    `cost` says which edits: substitutions (`Hamming`), or insertions and deletions too (`EditDistance`); the distance
    is not normalised, whatever the cost does. With `tau` 0 this is maximum likelihood. Left out, `tau` follows from the
    vocabulary so that targets of any have about as many edits (`usual_tau`).
    """

    name: ClassVar[str] = "raml"
    recipe: ClassVar[Recipe] = {"cost": COUNTED_EDITS}
    cost: Cost = field(default_factory=EditDistance)
    tau: TauOrUsual = None
    normalisation: Normalisation = "batch"

    def __post_init__(self) -> None:
        check(self)
        if not isinstance(self.cost, (Hamming, EditDistance)):
            raise SearnnError(f"raml draws targets by edit or Hamming distance, not by {self.cost!r}: give one of them")

    def __call__(self, model: Stepper, batch: Batch, rng: torch.Generator) -> Update:
        """One loss from one batch: maximum likelihood of the perturbed targets."""
        batch = batch.with_vocab(model.vocab)
        edits = batch.targets.new_zeros(len(batch.targets))
        lengths = before_end(seal(batch.targets, batch.lengths, model.vocab), model.vocab).sum(1)
        tau = usual_tau(model.vocab) if self.tau is None else self.tau
        if tau:
            targets, edits = perturb(batch, tau, rng, lengths=isinstance(self.cost, EditDistance))
            batch = replace(batch, targets=targets)
        update = Mle(normalisation=self.normalisation)(model, batch, rng)
        edits = edits.to(update.loss.dtype)
        logs = {"edits": edits.mean(), "edited_share": (edits / lengths.clamp(min=1)).mean()}
        return replace(update, logs={**update.logs, **logs})
