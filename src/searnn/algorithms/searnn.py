"""SEARNN, the paper's Algorithm 1."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from searnn import tree
from searnn.algorithms.totals import Normalisation, check_normalisation, total
from searnn.interfaces import CellSampler, Cost, Loss, Memory, Model, Policy, Stepper, TokenSampler
from searnn.models import with_trace
from searnn.models.modes import evaluating
from searnn.rng import spawn
from searnn.samplers import AllCells, AllTokens
from searnn.search import collect
from searnn.types import Batch, SearchResult, SearnnError, Update


@dataclass(frozen=True)
class Searnn:
    """Roll in, branch at each cell with each token, roll out, cost; then train every cell on its costs.

    `classifier` is the paper's Appendix B: "network" sends each cell's gradient through the whole network, "cell" takes
    the states before the cells as given features and trains the cell alone (and what the cell itself reads of the
    input, by attention).
    """

    roll_in: Policy
    roll_out: Policy
    cost: Cost
    loss: Loss
    tokens: TokenSampler = field(default_factory=AllTokens)
    cells: CellSampler = field(default_factory=AllCells)
    normalisation: Normalisation = "batch"
    classifier: Literal["network", "cell"] = "network"

    def __post_init__(self) -> None:
        check_normalisation(self.normalisation)
        if self.classifier not in ("network", "cell"):
            raise SearnnError(f"classifier is {self.classifier!r}, it must be network or cell")

    def __call__(self, model: Stepper, batch: Batch, rng: torch.Generator) -> Update:
        """One loss from one batch: search without gradient, then learn from what was found."""
        model = with_trace(model)
        for_search, for_ties = spawn(rng, 2)
        # Lines 4 to 12: roll in, keep the states, branch at every cell with every token, roll out, collect the costs.
        found, scores = self._search_and_score(model, batch, for_search)  # scores [B, T, V]
        # Line 13: a loss for each cell from the costs of its candidates. Line 14, the gradient step, is the trainer's.
        scores = scores.gather(1, found.cells.unsqueeze(-1).expand(-1, -1, scores.shape[-1]))
        scores = scores.gather(2, found.tokens.clamp(0, scores.shape[-1] - 1))  # [B, C, K]
        scores = scores.to(torch.promote_types(scores.dtype, torch.float32))  # costs and losses want more than 16 bits
        ties: dict[str, Any] = {"rng": for_ties} if getattr(self.loss, "random", False) else {}
        losses = self.loss(scores, found.costs.to(scores.dtype), found.valid, **ties)
        counted = found.valid.any(-1)
        loss = total(losses, counted, self.normalisation)
        return Update(loss, {"loss": loss.detach()}, cells=counted.sum())

    def _search_and_score(
        self, model: Model, batch: Batch, rng: torch.Generator
    ) -> tuple[SearchResult, Float[Tensor, "B T V"]]:
        axes = (self.roll_in, self.roll_out, self.cost, self.tokens, self.cells)
        memory = model.encode(batch.inputs)
        if self.classifier == "network" and getattr(model, "same_in_training", False):
            return collect(model, memory, batch, *axes, rng)  # one encoding and one trace serve both halves
        with torch.no_grad(), evaluating(model):
            fixed = model.encode(batch.inputs)
            found, _ = collect(model, fixed, batch, *axes, rng)
        if self.classifier == "network":
            return found, model.trace(memory, found.prefix)[0]
        return found, score_cells(model, memory, fixed, found.prefix)


def score_cells(model: Model, memory: Memory, fixed: Memory, prefix: Int[Tensor, "B T"]) -> Float[Tensor, "B T V"]:
    """Each cell's scores with the state before it held fixed: one step of rows forked off a trace."""
    cells = torch.arange(prefix.shape[1] - 1, device=prefix.device).expand(len(prefix), -1)
    with torch.no_grad(), evaluating(model):
        start = model.start(fixed)
        _, trail = model.trace(fixed, prefix)
    scores, _ = model.step(memory, start, torch.full_like(prefix[:, :1], model.vocab.bos))
    # The states come from the encoding without dropout, like the trace; made with gradient, then cut off from it, since
    # a model may keep products of its weights in a state that was made without.
    state = tree.map_leaves(torch.Tensor.detach, model.fork(fixed, trail, cells)[1])
    forked, _ = model.fork(memory, trail, cells)
    rest, _ = model.step(forked, state, prefix[:, :-1])
    return torch.cat([scores, rest], dim=1)
