"""Optimal completion distillation (Sabour et al., 2019)."""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from typing import ClassVar

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from searnn.algorithms.common import paths
from searnn.algorithms.common.losses import total
from searnn.algorithms.common.settings import Normalisation, Tau
from searnn.costs import EditDistance, Hamming
from searnn.defaults import COUNTED_EDITS, Recipe
from searnn.interfaces import Cost, Encoded, RollIn, Stepper
from searnn.losses import KLLoss
from searnn.models.modes import evaluating
from searnn.oracles import CopyTarget, OptimalEdit
from searnn.policies import Sampled
from searnn.searching import as_roll_in
from searnn.sequences import forbid, valid_cells
from searnn.settings import check
from searnn.types import Batch, Branches, SearnnError, Update


@dataclass(frozen=True, kw_only=True)
class Ocd:
    """Σ_t -Σ_a π*(a) log p(a) over the cells of the model's own output, π*(a) ∝ exp(-c(a) / `tau`).

    c(a) is the least distance to the truth that an output can still have after the prefix and a, by the dynamic program
    of the edit distance. With `tau` 0, π* is uniform over the tokens from which the best can still be reached. Under
    `Hamming` that is the truth's token at the same position. The distance is not normalised, whatever the cost does.
    """

    name: ClassVar[str] = "ocd"
    recipe: ClassVar[Recipe] = {"cost": COUNTED_EDITS, "roll_in": "sampled"}
    roll_in: RollIn = field(default_factory=Sampled)
    cost: Cost = field(default_factory=EditDistance)
    tau: Tau = 0.0
    normalisation: Normalisation = "batch"

    def __post_init__(self) -> None:
        check(self)
        if not isinstance(self.cost, (EditDistance, Hamming)):
            told = f"ocd knows the best completions for edit and Hamming distance, not for {self.cost!r}"
            raise SearnnError(f"{told}: give one of them, or take searnn with an oracle")

    def __call__(self, model: Stepper, batch: Batch, rng: torch.Generator) -> Update:
        """One loss from one batch: roll in, find the optimal policy at every cell, distil it in one traced pass."""
        model, batch, memory, fixed = paths.read(model, batch)
        with torch.no_grad(), evaluating(model):
            prefix = as_roll_in(self.roll_in).roll_in(Encoded(model, fixed), batch, rng)
        scores, _ = model.trace(memory, prefix)
        scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
        counted = valid_cells(prefix, batch)
        choosable = forbid(scores.new_zeros(model.vocab.size), model.vocab) == 0
        valid = counted.unsqueeze(-1) & choosable  # [B, T, V]
        costs = self.costs_to_go(prefix, batch).to(scores.dtype)
        alpha = min(1 / self.tau, sys.float_info.max) if self.tau else sys.float_info.max
        loss = total(KLLoss(alpha)(scores, costs, valid), counted, self.normalisation)
        logs = self._logs(scores, costs, valid, counted)
        cells = counted.sum()
        return Update(loss, {"loss": loss.detach(), **logs}, cells, dict.fromkeys(logs, cells))

    @torch.no_grad()
    def costs_to_go(self, prefix: Int[Tensor, "B T"], batch: Batch) -> Float[Tensor, "B T V"]:
        """The least distance after `prefix[:, :t]` and each token.

        All tokens that the truth does not have cost the same, so that only the truth's and EOS are looked at, and BOS,
        which stands for all the others.
        """
        vocab, targets = batch.vocabulary, batch.targets
        known = torch.where(targets == vocab.pad, targets[:, :1], targets)
        others = [token for token in (vocab.eos, vocab.bos) if token is not None]
        asked = torch.cat([known, *(torch.full_like(known[:, :1], token) for token in others)], dim=1)
        tokens = asked.unsqueeze(1).expand(-1, prefix.shape[1], -1)  # [B, T, K]
        cells = torch.arange(prefix.shape[1], device=prefix.device).expand_as(prefix)
        branches = Branches(prefix, cells, tokens, torch.ones_like(tokens, dtype=torch.bool))
        if isinstance(self.cost, EditDistance):
            found = EditDistance(vocab, normalised=False).closed_form(OptimalEdit.name, branches, batch)
        else:
            found = Hamming(vocab).closed_form(CopyTarget.name, branches, batch)
        assert found is not None  # these two have a form
        everywhere = found[..., -1:].expand(-1, -1, vocab.size)
        return everywhere.scatter(2, tokens[..., :-1].clamp(max=vocab.size - 1), found[..., :-1])

    def _logs(
        self,
        scores: Float[Tensor, "B T V"],
        costs: Float[Tensor, "B T V"],
        valid: Bool[Tensor, "B T V"],
        counted: Bool[Tensor, "B T"],
    ) -> dict[str, Tensor]:
        """The probability that the model gives to optimal tokens, and how many of them there are at a cell."""
        costs = costs.masked_fill(~valid, torch.inf)
        best = valid & (costs == costs.amin(-1, keepdim=True))
        probs = scores.detach().masked_fill(~valid, torch.finfo(scores.dtype).min).softmax(-1)
        sizes = best.sum(-1).to(probs.dtype)
        return {
            "optimal_probability": paths.mean_over((probs * best).sum(-1), counted),
            "optimal_tokens": paths.mean_over(sizes, counted),
        }
