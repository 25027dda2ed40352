"""SEARNN, the paper's Algorithm 1."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from searnn import tree
from searnn.algorithms.common.settings import CrossEntropyWeight, LabelSmoothing, Normalisation
from searnn.algorithms.common.totals import normalised, total
from searnn.algorithms.mle import cross_entropy
from searnn.interfaces import CellSampler, Cost, Loss, Memory, Model, Policy, Stepper, TokenSampler
from searnn.models import with_trace
from searnn.models.modes import evaluating
from searnn.policies import Reference
from searnn.rng import spawn
from searnn.samplers import AllCells, AllTokens
from searnn.searching import collect
from searnn.sequences import seal, valid_cells
from searnn.settings import Setting, check
from searnn.types import Batch, SearchResult, Update


@dataclass(frozen=True)
class Searnn:
    """Roll in, branch at each cell with each token, roll out, cost; then train every cell on its costs.

    `classifier` is the paper's Appendix B: "network" sends each cell's gradient through the whole network, "cell" takes
    the states before the cells as given features and trains the cell alone (and what the cell itself reads of the
    input, by attention).

    With a `cross_entropy_weight` the cross-entropy of the truth, as in `Mle` with this `label_smoothing`, is added to
    the sum over the cells before it is normalised: the scores are then those of likely outputs too, which a beam needs.
    """

    name: ClassVar[str] = "searnn"
    roll_in: Policy
    roll_out: Policy
    cost: Cost
    loss: Loss
    tokens: TokenSampler = field(default_factory=AllTokens)
    cells: CellSampler = field(default_factory=AllCells)
    normalisation: Normalisation = "batch"
    classifier: Annotated[
        Literal["network", "cell"], Setting("what the gradient goes through (Appendix B)", section="loss")
    ] = "network"
    cross_entropy_weight: CrossEntropyWeight = 0.0
    label_smoothing: LabelSmoothing = 0.0

    def __post_init__(self) -> None:
        check(self)

    def __call__(self, model: Stepper, batch: Batch, rng: torch.Generator) -> Update:
        """One loss from one batch: search without gradient, then learn from what was found."""
        model = with_trace(model)
        for_search, for_ties = spawn(rng, 2)
        # Lines 4 to 12: roll in, keep the states, branch at every cell with every token, roll out, collect the costs.
        found, along = self._search_and_score(model, batch, for_search)  # along the prefix: [B, T, V]
        # Line 13: a loss for each cell from the costs of its candidates. Line 14, the gradient step, is the trainer's.
        scores = along.gather(1, found.cells.unsqueeze(-1).expand(-1, -1, along.shape[-1]))
        scores = scores.gather(2, found.tokens.clamp(0, scores.shape[-1] - 1))  # [B, C, K]
        scores = scores.to(torch.promote_types(scores.dtype, torch.float32))  # costs and losses want more than 16 bits
        ties: dict[str, Any] = {"rng": for_ties} if getattr(self.loss, "random", False) else {}
        losses = self.loss(scores, found.costs.to(scores.dtype), found.valid, **ties)
        counted = found.valid.any(-1)
        loss = total(losses, counted, self.normalisation)
        if self.cross_entropy_weight:
            of_truth = normalised(self._cross_entropy(model, batch, along), counted, self.normalisation)
            loss = loss + self.cross_entropy_weight * of_truth
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

    def _cross_entropy(self, model: Model, batch: Batch, along: Float[Tensor, "B T V"]) -> Float[Tensor, ""]:
        """Summed over the cells of the truth; scores `along` a roll-in that is the truth serve it as they are."""
        batch = batch.with_vocab(model.vocab)
        truth = seal(batch.targets, batch.lengths, model.vocab)
        if type(self.roll_in) is not Reference or self.classifier != "network":
            along, _ = model.trace(model.encode(batch.inputs), truth)
        counted = valid_cells(truth, batch)
        losses = cross_entropy(along, truth, counted, model.vocab, self.label_smoothing)
        return (losses * counted).sum()


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
