"""The reference policy: rolls in with the truth and rolls out by an oracle, from rows that went their own way too."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import ClassVar

import torch
from jaxtyping import Float, Int
from torch import Tensor

from searnn.interfaces import ClosedForm, Cost, Encoded, Oracle
from searnn.oracles import CopyTarget, OptimalEdit
from searnn.sequences import reference_tokens, seal
from searnn.types import Batch, Branches


@dataclass(frozen=True)
class Reference:
    """Teacher forcing as a roll-in (the paper's Appendix A.2), the oracle's completion as a roll-out."""

    name: ClassVar[str] = "reference"
    oracle: Oracle = field(default_factory=CopyTarget)

    def roll_in(self, encoded: Encoded, batch: Batch, rng: torch.Generator) -> Int[Tensor, "B T"]:
        """The truth, as far as there is room for it."""
        return seal(batch.targets, batch.lengths, encoded.model.vocab)

    def roll_out(
        self, encoded: Encoded, branches: Branches, batch: Batch, rng: torch.Generator
    ) -> Int[Tensor, "B C K T"]:
        """The oracle's completion of every branch."""
        return self.oracle.complete(branches, batch)

    def known_costs(self, cost: Cost, branches: Branches, batch: Batch) -> Float[Tensor, "B C K"] | None:
        """What the completions cost, without looking at them, where the cost knows a formula for this oracle."""
        oracle = self.oracle
        if not isinstance(cost, ClosedForm) or not isinstance(oracle, (CopyTarget, OptimalEdit)):
            return None
        return cost.closed_form(oracle.name, branches, batch)


def complete_rows(oracle: Oracle, outputs: Int[Tensor, "B R T"], batch: Batch) -> Int[Tensor, "B R T"]:
    """Partial outputs, each with at least one token, completed by the oracle: every row is an example of its own."""
    examples, rows, length = outputs.shape
    flat = outputs.reshape(examples * rows, length)
    last = ((flat != batch.vocabulary.pad).sum(1) - 1).clamp(min=0).unsqueeze(1)
    tokens = flat.gather(1, last).view(-1, 1, 1)
    each = replace(
        batch,
        inputs=None,
        targets=batch.targets.repeat_interleave(rows, dim=0),
        lengths=batch.lengths.repeat_interleave(rows),
        ids=None,
        host_lengths=None,
    )
    branches = Branches(flat, last, tokens, torch.ones_like(tokens, dtype=torch.bool))
    return oracle.complete(branches, each).view(examples, rows, length)


def next_tokens(
    oracle: Oracle, outputs: Int[Tensor, "B R T"], position: Int[Tensor, "B R"], batch: Batch
) -> Int[Tensor, "B R"]:
    """What the reference policy writes next at `position`; with nothing written yet, the truth's first token."""
    completed = complete_rows(oracle, outputs, batch)
    at = position.clamp(max=outputs.shape[-1] - 1).unsqueeze(-1)
    first = reference_tokens(batch)[:, :1]
    return torch.where(position == 0, first, completed.gather(2, at).squeeze(-1))
