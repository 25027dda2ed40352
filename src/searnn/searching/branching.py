"""The steps of a search: which cells and tokens are tried, the branches finished, and what they cost."""

from __future__ import annotations

from dataclasses import is_dataclass, replace
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from searnn.interfaces import (
    CellSampler,
    Cost,
    Distinct,
    Encoded,
    KnownCosts,
    NeedsScores,
    NeedsVocabulary,
    Repeats,
    RollIn,
    RollOut,
    TokenSampler,
)
from searnn.sequences import at_cells, valid_cells
from searnn.types import Batch, Branches, SearnnError, Vocabulary


def sample_cells(
    cells: CellSampler, prefix: Int[Tensor, "B T"], batch: Batch, rng: torch.Generator, scores: Float[Tensor, "B T V"]
) -> Int[Tensor, "B C"]:
    """The cells to cost, ascending as roll-outs need them."""
    extra: dict[str, Any] = {"scores": scores} if isinstance(cells, NeedsScores) and cells.needs_scores else {}
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
    tokens = sampler(at_cells(scores, inside), batch, inside, rng)
    exists = valid_cells(prefix, batch).gather(1, inside) & (inside == cells) & ~repeated(cells)
    vocab = batch.vocabulary
    choosable = (tokens >= 0) & (tokens < vocab.size) & (tokens != vocab.pad) & (tokens != vocab.bos)
    if not (isinstance(sampler, Distinct) and sampler.distinct):
        choosable = choosable & ~repeated(tokens)
    return Branches(prefix, inside, tokens, exists.unsqueeze(-1) & choosable)


def repeated(values: Int[Tensor, "*N K"]) -> Bool[Tensor, "*N K"]:
    """True where the same value stands earlier in the last axis."""
    ordered = values.sort(stable=True)
    again = torch.zeros_like(values, dtype=torch.bool)
    again[..., 1:] = ordered.values[..., 1:] == ordered.values[..., :-1]
    return torch.zeros_like(again).scatter(-1, ordered.indices, again)


def finish(
    encoded: Encoded, branches: Branches, batch: Batch, roll_in: RollIn | None, roll_out: RollOut, rng: torch.Generator
) -> Int[Tensor, "B C K T"]:
    """Roll out; where the roll-out would only repeat the `roll_in`, the branch with the roll-in's token is not run."""
    if roll_in is not None and isinstance(roll_out, Repeats) and roll_out.repeats(roll_in):
        known = branches.tokens == branches.prefix.gather(1, branches.cells).unsqueeze(-1)
        others = replace(branches, valid=branches.valid & ~known)
        outputs = roll_out.roll_out(encoded, others, batch, rng)
        outputs = torch.where(known.unsqueeze(-1), branches.prefix[:, None, None, :], outputs)
    else:
        outputs = roll_out.roll_out(encoded, branches, batch, rng)
    return outputs.masked_fill(~branches.valid.unsqueeze(-1), encoded.model.vocab.pad)


def bind(cost: Cost, vocab: Vocabulary) -> Cost:
    """A cost that needs to know EOS and PAD and was made without a vocabulary gets the model's."""
    unbound: Any = cost
    if is_dataclass(unbound) and isinstance(cost, NeedsVocabulary) and cost.vocab is None:
        unbound = replace(unbound, vocab=vocab)  # type: ignore[type-var]
    return unbound  # type: ignore[no-any-return]


def cost_of(
    cost: Cost, roll_out: RollOut, branches: Branches, outputs: Int[Tensor, "B C K T"], batch: Batch
) -> Float[Tensor, "B C K"]:
    """What every finished branch costs: in closed form where the roll-out and the cost have one."""
    cost = bind(cost, batch.vocabulary)
    costs = roll_out.known_costs(cost, branches, batch) if isinstance(roll_out, KnownCosts) else None
    if costs is None:
        truth = batch.targets[:, None, None, :]
        shown = torch.where(branches.valid.unsqueeze(-1), outputs, truth)  # a user's cost need not bear masked branches
        costs = cost(shown, batch.targets)
    if costs.shape != branches.tokens.shape:
        raise SearnnError(f"the cost gave shape {list(costs.shape)}, expected one number per branch: "
                          f"{list(branches.tokens.shape)}")  # fmt: skip
    return costs.masked_fill(~branches.valid, 0)
