"""The floor of a step: how many operations and bytes it cannot do without, from the sizes and from what was searched.

Only products of matrices are counted, a multiplication and an addition as two operations, and only for what is real:
source positions that are not padding, cells that exist, rows that have not ended. docs/performance.md has the formula;
`floors.py` sets the counts against what the machine can do.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from jaxtyping import Int
from torch import Tensor, nn

from searnn import search
from searnn.algorithms import Searnn
from searnn.bench.methods import draws
from searnn.interfaces import Algorithm
from searnn.models import EncoderDecoder
from searnn.policies import Focused, Learned, Mixed
from searnn.rng import spawn
from searnn.sequences import valid_cells
from searnn.types import Batch, Branches

FLOAT, TOKEN = 4, 8  # bytes
PASSES = 9  # over all parameters: gradient written and normed; gradient, weight and two moments read, three written


@dataclass(frozen=True)
class Amounts:
    """What one step asks of the model, example by example."""

    sources: Int[Tensor, "B"]  # source positions
    cells: Int[Tensor, "B"]  # cells of the traced sequence
    roll_in: Int[Tensor, "B"]  # row-steps of the roll-in
    forks: Int[Tensor, "B"]  # cells that some row leaves from
    rows: Int[Tensor, "B"]  # rows of the roll-outs
    roll_out: Int[Tensor, "B"]  # their row-steps
    outputs: int = 0  # tokens of the finished outputs, padding included

    @property
    def row_steps(self) -> int:
        """How often a row of the decoder goes on by a cell: in the trace, the roll-in and the roll-outs."""
        return int((self.cells + self.roll_in + self.roll_out).sum())


@dataclass(frozen=True)
class Counted(Learned):
    """The learned policy, which also keeps the branches that it is given to finish, and what became of them."""

    finished: list[tuple[Branches, Tensor]] = field(default_factory=list, compare=False)

    def finish(self, *arguments: Any, **named: Any) -> Tensor:
        """As the policy does it."""
        outputs = super().finish(*arguments, **named)
        self.finished.append((next(given for given in arguments if isinstance(given, Branches)), outputs))
        return outputs


def amounts(algorithm: Algorithm | None, model: EncoderDecoder, batch: Batch) -> Amounts:
    """What a step asks of the model: searched once more for SEARNN, with the randomness of the timed step."""
    batch = batch.with_vocab(model.vocab)
    sources = batch.inputs.lengths.cpu()
    if not isinstance(algorithm, Searnn):
        cells = valid_cells(batch.targets, batch).sum(1).cpu()
        return Amounts(sources, cells, *4 * [cells * 0])
    learned = Counted()
    found = search(
        model,
        batch,
        roll_in=algorithm.roll_in,
        roll_out=with_learned(algorithm.roll_out, learned),
        cost=algorithm.cost,
        tokens=algorithm.tokens,
        cells=algorithm.cells,
        rng=spawn(draws(batch), 2)[0],
    )
    cells = valid_cells(found.prefix, batch).sum(1).cpu()
    forks, rows, steps = cells * 0, cells * 0, cells * 0
    for branches, finished in learned.finished:
        written = (finished != model.vocab.pad).sum(-1)
        taken = ((written - branches.cells.unsqueeze(-1) - 1).clamp(min=0) * branches.valid).cpu()  # [B, C, K]
        forks = forks + (taken > 0).any(-1).sum(1)
        rows, steps = rows + (taken > 0).sum((1, 2)), steps + taken.sum((1, 2))
    rolls_in = isinstance(algorithm.roll_in, Learned)
    return Amounts(sources, cells, cells * rolls_in, forks, rows, steps, found.outputs.numel())


def with_learned(policy: Any, learned: Counted) -> Any:
    """The roll-out with this as the model's share in it."""
    if isinstance(policy, Learned):
        return learned
    return replace(policy, learned=learned) if isinstance(policy, (Mixed, Focused)) else policy


def products(model: EncoderDecoder, amounts: Amounts) -> dict[str, int]:
    """Operations of the products of matrices, phase by phase, for a GRU of one layer."""
    width, entering = model.project.in_features, model.embed.embedding_dim
    reader: Any = model.encoder
    first = reader.layers[0][0].input_size
    positions, cells = int(amounts.sources.sum()), int(amounts.cells.sum())
    recur = 2 * 3 * width * width
    enter = 2 * 3 * width * entering
    reads = positions * reader.directions * 2 * 3 * width * first  # the encoder's input gates
    encode = reads + positions * reader.directions * recur
    if model.bridge is not None:
        encode += len(amounts.sources) * 2 * reader.width * width
    if model.attend is not None:
        encode += positions * 2 * reader.width * model.attend.key.out_features
    trace = cells * (enter + recur) + _read_out(model, amounts.cells, amounts.sources)
    # Rows that leave from one cell share the product of its state, and tokens share a table of input gates.
    row_steps = int(amounts.roll_in.sum() + amounts.roll_out.sum())
    table = enter * min(model.embed.num_embeddings, row_steps)
    rolled_in = int(amounts.roll_in.sum()) * recur + _read_out(model, amounts.roll_in, amounts.sources)
    recurrences = int((amounts.roll_out - amounts.rows + amounts.forks).sum())
    rolled_out = recurrences * recur + _read_out(model, amounts.roll_out, amounts.sources)
    # Each product has two in the backward pass, but features of the input need no gradient.
    backward = 2 * (encode + trace) - (reads if reader.embed is None else 0)
    return {
        "encode": encode,
        "table": table,
        "roll-in": rolled_in,
        "trace": trace,
        "roll-out": rolled_out,
        "backward": backward,
    }


def _read_out(model: EncoderDecoder, steps: Int[Tensor, "B"], sources: Int[Tensor, "B"]) -> int:
    """From hidden states to scores: attention over the source where there is one, then the projection."""
    each = 2 * model.project.in_features * model.project.out_features
    if model.attend is None or model.combine is None:
        return int(steps.sum()) * each
    query: nn.Linear = model.attend.query
    each += 2 * query.in_features * query.out_features + 2 * model.combine.in_features * model.combine.out_features
    over = int((steps * sources).sum())  # pairs of a row and a source position
    return int(steps.sum()) * each + over * 2 * (query.out_features + model.attend.key.in_features)


def traffic(model: EncoderDecoder, amounts: Amounts) -> int:
    """Bytes that must be moved: parameters by the optimiser and the products, scores of the trace, finished outputs."""
    parameters = sum(parameter.numel() for parameter in model.parameters())
    looked_up = sum(module.weight.numel() for module in model.modules() if isinstance(module, nn.Embedding))
    weights = PASSES * parameters + 2 * (parameters - looked_up)  # read forward and backward
    scores = 4 * int(amounts.cells.sum()) * model.project.out_features  # written and read, and so is their gradient
    return FLOAT * (weights + scores) + 2 * TOKEN * amounts.outputs
