"""The search half of Algorithm 1: roll in, branch, roll out, cost."""

from __future__ import annotations

from dataclasses import is_dataclass, replace
from typing import Any, cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor
from torch.profiler import record_function

from searnn import tree
from searnn.interfaces import CellSampler, Cost, Memory, Model, Policy, Stepper, TokenSampler, Trail
from searnn.models import with_trace
from searnn.models.modes import evaluating
from searnn.rng import spawn
from searnn.samplers import AllCells, AllTokens
from searnn.sequences import valid_cells
from searnn.types import Batch, Branches, SearchResult, SearnnError, Vocabulary


def search(
    model: Stepper,
    batch: Batch,
    *,
    roll_in: Policy,
    roll_out: Policy,
    cost: Cost,
    tokens: TokenSampler = AllTokens(),  # noqa: B008
    cells: CellSampler = AllCells(),  # noqa: B008
    rng: torch.Generator,
) -> SearchResult:
    """The paper's intermediate data set for one batch (Algorithm 1, lines 4 to 12): what each candidate token costs.

    No gradient, no dropout. Cells past the end of the roll-in, repeated cells and repeated candidates are masked.
    """
    model = with_trace(model)
    with torch.no_grad(), evaluating(model):
        with record_function("searnn.encode"):
            memory = model.encode(batch.inputs)
        return collect(model, memory, batch, roll_in, roll_out, cost, tokens, cells, rng)[0]


def collect(
    model: Model,
    memory: Memory,
    batch: Batch,
    roll_in: Policy,
    roll_out: Policy,
    cost: Cost,
    tokens: TokenSampler,
    cells: CellSampler,
    rng: torch.Generator,
) -> tuple[SearchResult, Float[Tensor, "B T V"]]:
    """The search from an encoded batch, and the scores of the prefix: these alone may carry a gradient."""
    batch = batch.with_vocab(model.vocab)
    fixed = tree.map_leaves(torch.Tensor.detach, memory)
    for_roll_in, for_cells, for_tokens, for_roll_out = spawn(rng, 4)
    with record_function("searnn.roll_in"), torch.no_grad():
        prefix = roll_in.roll_in(model, fixed, batch, for_roll_in)
    with record_function("searnn.trace"):
        scores, trail = model.trace(memory, prefix)
    with torch.no_grad():
        trail = tree.map_leaves(torch.Tensor.detach, trail)
        with record_function("searnn.branch"):
            chosen = sample_cells(cells, prefix, batch, for_cells, scores)
            branches = branch(prefix, chosen, scores, batch, tokens, for_tokens)
        with record_function("searnn.roll_out"):
            outputs = finish(model, fixed, trail, branches, batch, roll_in, roll_out, for_roll_out)
            outputs = outputs.masked_fill(~branches.valid.unsqueeze(-1), model.vocab.pad)
        with record_function("searnn.cost"):
            costs = cost_of(bind(cost, model.vocab), roll_out, branches, outputs, batch)
    return SearchResult(prefix, branches.cells, branches.tokens, outputs, costs, branches.valid), scores


def finish(
    model: Model,
    memory: Memory,
    trail: Trail,
    branches: Branches,
    batch: Batch,
    roll_in: Policy,
    roll_out: Policy,
    rng: torch.Generator,
) -> Int[Tensor, "B C K T"]:
    """Roll out; where the roll-out would only repeat the roll-in, the branch with the roll-in's token is not run."""
    repeats = getattr(roll_out, "repeats", None)
    if repeats is None or not repeats(roll_in):
        return roll_out.roll_out(model, memory, trail, branches, batch, rng)
    known = branches.tokens == branches.prefix.gather(1, branches.cells).unsqueeze(-1)
    others = replace(branches, valid=branches.valid & ~known)
    outputs = roll_out.roll_out(model, memory, trail, others, batch, rng)
    return torch.where(known.unsqueeze(-1), branches.prefix[:, None, None, :], outputs)


def sample_cells(
    cells: CellSampler, prefix: Int[Tensor, "B T"], batch: Batch, rng: torch.Generator, scores: Float[Tensor, "B T V"]
) -> Int[Tensor, "B C"]:
    """The cells to cost, ascending as the engine needs them."""
    extra: dict[str, Any] = {"scores": scores} if getattr(cells, "needs_scores", False) else {}
    return cells(prefix, batch, rng, **extra).sort(dim=1).values


def branch(
    prefix: Int[Tensor, "B T"],
    cells: Int[Tensor, "B C"],
    scores: Float[Tensor, "B T V"],
    batch: Batch,
    sampler: TokenSampler,
    rng: torch.Generator,
) -> Branches:
    """Leave the roll-in at `cells` with the sampler's candidates; mask what must not count."""
    inside = cells.clamp(0, prefix.shape[1] - 1)
    here = scores.gather(1, inside.unsqueeze(-1).expand(-1, -1, scores.shape[-1]))
    tokens = sampler(here, batch, inside, rng)
    exists = valid_cells(prefix, batch).gather(1, inside) & (inside == cells) & ~repeated(cells)
    vocab = batch.vocabulary
    choosable = (tokens >= 0) & (tokens < vocab.size) & (tokens != vocab.pad) & (tokens != vocab.bos)
    if not getattr(sampler, "distinct", False):
        choosable = choosable & ~repeated(tokens)
    return Branches(prefix, inside, tokens, exists.unsqueeze(-1) & choosable)


def repeated(values: Int[Tensor, "*N K"]) -> Bool[Tensor, "*N K"]:
    """True where the same value stands earlier in the last axis."""
    ordered = values.sort(dim=-1, stable=True)
    again = torch.zeros_like(values, dtype=torch.bool)
    again[..., 1:] = ordered.values[..., 1:] == ordered.values[..., :-1]
    return torch.zeros_like(again).scatter(-1, ordered.indices, again)


def bind(cost: Cost, vocab: Vocabulary) -> Cost:
    """A cost that needs to know EOS and PAD and was made without a vocabulary gets the model's."""
    unbound: Any = cost
    if is_dataclass(unbound) and getattr(unbound, "vocab", vocab) is None:
        return cast(Cost, replace(unbound, vocab=vocab))  # type: ignore[type-var]
    return cost


def cost_of(
    cost: Cost, roll_out: Policy, branches: Branches, outputs: Int[Tensor, "B C K T"], batch: Batch
) -> Float[Tensor, "B C K"]:
    """What every finished branch costs: in closed form where the roll-out and the cost have one."""
    closed = getattr(roll_out, "closed_form", None)
    costs = closed(cost, branches, batch) if closed is not None else None
    if costs is None:
        truth = batch.targets[:, None, None, :]
        shown = torch.where(branches.valid.unsqueeze(-1), outputs, truth)  # a user's cost need not bear masked branches
        costs = cost(shown, batch.targets)
    if costs.shape != branches.tokens.shape:
        raise SearnnError(f"the cost gave shape {list(costs.shape)}, expected one number per branch: "
                          f"{list(branches.tokens.shape)}")  # fmt: skip
    return costs.masked_fill(~branches.valid, 0)
