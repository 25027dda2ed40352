"""Oracles applied to rows that have each gone their own way: every row is taken as an example of its own."""

from __future__ import annotations

from dataclasses import replace

import torch
from jaxtyping import Int
from torch import Tensor

from searnn.interfaces import Oracle
from searnn.sequences import reference_tokens
from searnn.types import Batch, Branches


def complete_rows(oracle: Oracle, outputs: Int[Tensor, "B R T"], batch: Batch) -> Int[Tensor, "B R T"]:
    """Partial outputs, each with at least one token, completed by the oracle."""
    examples, rows, length = outputs.shape
    flat = outputs.reshape(examples * rows, length)
    last = ((flat != batch.vocabulary.pad).sum(1) - 1).clamp(min=0).unsqueeze(1)
    tokens = flat.gather(1, last).unsqueeze(-1)
    each = replace(
        batch,
        inputs=None,
        targets=batch.targets.repeat_interleave(rows, dim=0),
        lengths=batch.lengths.repeat_interleave(rows, dim=0),
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
