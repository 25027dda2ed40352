"""SEARNN, the paper's Algorithm 1. It reads from top to bottom: lines 4 to 12 in `search`, 13 and 14 in `Searnn`."""

from __future__ import annotations

from dataclasses import field
from typing import Annotated, Any, ClassVar, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from searnn import tree
from searnn.algorithms.common.losses import normalised, total
from searnn.algorithms.common.settings import (
    CrossEntropyWeight,
    DefaultCost,
    LabelSmoothing,
    Normalisation,
    Softmax,
)
from searnn.algorithms.common.softmax import losses_of, watched
from searnn.algorithms.mle import cross_entropy
from searnn.engine import span
from searnn.interfaces import (
    CellSampler,
    Cost,
    Encoded,
    Loss,
    Model,
    RollIn,
    RollOut,
    Stepper,
    TokenSampler,
)
from searnn.models.modes import evaluating
from searnn.policies import Reference
from searnn.rng import spawn
from searnn.samplers import AllCells, AllTokens
from searnn.searching import Reading, as_roll_in, as_roll_out, branch, cost_of, finish, sample_cells
from searnn.sequences import at_cells, seal, valid_cells
from searnn.settings import Setting, checked
from searnn.types import Batch, SearchResult, SearnnError, Update


def search(
    model: Stepper,
    batch: Batch,
    *,
    roll_in: RollIn,
    roll_out: RollOut,
    cost: Cost,
    tokens: TokenSampler = AllTokens(),  # noqa: B008
    cells: CellSampler = AllCells(),  # noqa: B008
    rng: torch.Generator,
    reading: Reading | None = None,
) -> SearchResult:
    """The paper's intermediate data set for one batch (Algorithm 1, lines 4 to 12): what each candidate token costs.

    No gradient, and no dropout unless the `reading` has it. Cells past the end of the roll-in, repeated cells and
    repeated candidates are masked. A `reading` of the batch by the model is what a pass that learns shares with the
    search.
    """
    reading = reading if reading is not None else Reading(model, batch, alone=True)
    batch, roll_in, roll_out = reading.batch, as_roll_in(roll_in), as_roll_out(roll_out)
    for_roll_in, for_cells, for_tokens, for_roll_out = spawn(rng, 4)
    with reading.searching():
        # Lines 4 and 5. For all examples at once: compute the features of the inputs.
        encoded = reading.encode()
        # Line 6. Run the model by following the roll-in policy.
        with span("roll_in"):
            prefix = roll_in.roll_in(encoded, batch, for_roll_in)
        # Line 7. Store the hidden states, to perform several roll-outs.
        encoded, scores = reading.trace(encoded, prefix)
        # Lines 8 and 9. For every cell, or some of them, and every token there, or some.
        with span("branch"):
            chosen = sample_cells(cells, prefix, batch, for_cells, scores)
            branches = branch(prefix, chosen, scores, batch, tokens, for_tokens)
        # Lines 10 and 11. Enforce the token at the cell, then follow the roll-out policy to the end.
        with span("roll_out"), reading.rolling_out():
            repeated = None if reading.dropout else roll_in
            outputs = finish(encoded, branches, batch, repeated, roll_out, for_roll_out)
        # Line 12. Collect the costs by comparing the outputs to the truth.
        with span("cost"):
            costs = cost_of(cost, roll_out, branches, outputs, batch)
    return SearchResult(prefix, branches.cells, branches.tokens, outputs, costs, branches.valid)


@checked
class Searnn:
    """Roll in, branch at each cell with each token, roll out, cost; then train every cell on its costs.

    `classifier` is the paper's Appendix B: "network" sends each cell's gradient through the whole network, "cell" takes
    the states before the cells as given features and trains the cell alone (and what the cell itself reads of the
    input, by attention).

    With a `cross_entropy_weight` the cross-entropy of the truth, as in `Mle` with this `label_smoothing`, is added to
    the sum over the cells before it is normalised: the scores are then those of likely outputs too, which a beam needs.

    `softmax` and `default_cost` say what becomes of tokens that are no candidates: `searnn.algorithms.common.softmax`.

    Deviation: the whole search runs without dropout, unless `search_dropout`: then as in the authors' release, which
    rolls in with it, branches from those states and rolls out without; the paper does not say. Here the pass that
    learns is the one that is branched from, so both have the same units dropped.
    """

    name: ClassVar[str] = "searnn"
    roll_in: RollIn
    roll_out: RollOut
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
    softmax: Softmax = "candidates"
    default_cost: DefaultCost = None
    search_dropout: Annotated[bool, Setting("roll in and branch with dropout, roll out without", section="search")] = (
        False
    )

    def __post_init__(self) -> None:
        if self.search_dropout and self.classifier == "cell":
            raise SearnnError("search_dropout is for the classifier network: with cell states have no dropout")

    def __call__(self, model: Stepper, batch: Batch, rng: torch.Generator) -> Update:
        """One loss from one batch: search without gradient, then learn from what was found."""
        for_search, for_ties = spawn(rng, 2)
        reading = Reading(model, batch, alone=self.classifier == "cell", dropout=self.search_dropout)
        found = search(
            model, batch, roll_in=self.roll_in, roll_out=self.roll_out, cost=self.cost, tokens=self.tokens,
            cells=self.cells, rng=for_search, reading=reading,
        )  # fmt: skip
        # Line 13. Derive a loss for each cell from the collected costs.
        along = reading.scores(found.prefix) if self.classifier == "network" else score_cells(reading, found.prefix)
        with span("loss"):
            scores = at_cells(along, found.cells)  # [B, C, V]
            over: dict[str, Any] = {"softmax": self.softmax, "default_cost": self.default_cost}
            losses = losses_of(self.loss, scores, found, reading.model.vocab, for_ties, **over)
            logs, counts = watched(self.loss, found, reading.model.vocab, **over)
            counted = found.valid.any(-1)
            loss = total(losses, counted, self.normalisation)
            if self.cross_entropy_weight:
                of_truth = normalised(self._cross_entropy(reading, along), counted, self.normalisation)
                loss = loss + self.cross_entropy_weight * of_truth
        # Line 14. The single gradient step is the trainer's.
        return Update(loss, {"loss": loss.detach(), **logs}, counted.sum(), counts)

    def _cross_entropy(self, reading: Reading, along: Float[Tensor, "B T V"]) -> Float[Tensor, ""]:
        """Summed over the cells of the truth; scores `along` a roll-in that is the truth serve it as they are."""
        model, batch = reading.model, reading.batch
        truth = seal(batch.targets, batch.lengths, model.vocab)
        if type(self.roll_in) is not Reference or self.classifier != "network":
            along, _ = model.trace(model.encode(batch.inputs), truth)
        counted = valid_cells(truth, batch)
        losses = cross_entropy(along, truth, counted, model.vocab, self.label_smoothing)
        return (losses * counted).sum()


def searnn_with(settings: Any, roll_in: RollIn, roll_out: RollOut) -> Searnn:
    """SEARNN with these policies and the search settings of an algorithm, which is what many algorithms are."""
    return Searnn(
        roll_in, roll_out, settings.cost, settings.loss, settings.tokens, settings.cells, settings.normalisation,
        softmax=settings.softmax, default_cost=settings.default_cost,
    )  # fmt: skip


def score_cells(reading: Reading, prefix: Int[Tensor, "B T"]) -> Float[Tensor, "B T V"]:
    """Each cell's scores with the state before it held fixed (Appendix B): one step of rows forked off a trace."""
    model: Model = reading.model
    cells = torch.arange(prefix.shape[1] - 1, device=prefix.device).expand(len(prefix), -1)
    memory = reading.memory
    with torch.no_grad(), evaluating(model):
        fixed: Encoded = reading.encode()
        start = model.start(fixed.memory)
        _, trail = model.trace(fixed.memory, prefix)
    scores, _ = model.step(memory, start, torch.full_like(prefix[:, :1], model.vocab.bos))
    # The states come from the encoding without dropout, like the trace; made with gradient, then cut off from it, since
    # a model may keep products of its weights in a state that was made without.
    state = tree.map_leaves(torch.Tensor.detach, model.fork(fixed.memory, trail, cells)[1])
    forked, _ = model.fork(memory, trail, cells)
    rest, _ = model.step(forked, state, prefix[:, :-1])
    return torch.cat([scores, rest], dim=1)
