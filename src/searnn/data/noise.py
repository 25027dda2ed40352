"""Noise on the sources of training, drawn anew for every batch: a search then sees mistakes like those on new data."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from searnn.types import Batch

GONE = 0.5  # of the units that are hit; the others are replaced


def disturb(batch: Batch, draw: torch.Generator, rate: float) -> Batch:
    """The batch with every unit of its sources left out or replaced, each with half the `rate`.

    What stands in its place is a unit of the batch's own sources, drawn evenly from all of them, so that frequent units
    are frequent there too. Of a source that would lose all units the first stays.
    """
    values, lengths = batch.inputs
    positions = torch.arange(values.shape[1])
    real = positions < lengths.unsqueeze(1)
    hit = torch.rand(real.shape, generator=draw) < rate
    gone = torch.rand(real.shape, generator=draw) < GONE
    others = values[real][torch.randint(int(real.sum()), real.shape, generator=draw)]
    values = torch.where(_like(hit & ~gone, values), others, values)
    kept = real & ~(hit & gone)
    kept[:, 0] |= ~kept.any(1)
    order = (~kept).to(torch.uint8).argsort(dim=1, stable=True)
    counts = kept.sum(1)
    values = values.gather(1, _like(order, values).expand_as(values))
    values = values.masked_fill(_like(positions >= counts.unsqueeze(1), values), 0)
    return replace(batch, inputs=batch.inputs._replace(values=values, lengths=counts))


def _like(rows: Tensor, values: Tensor) -> Tensor:
    """`[B, S]` with as many axes as the values have."""
    return rows.view(*rows.shape, *[1] * (values.ndim - 2))
