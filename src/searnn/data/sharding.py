"""Who gets which examples of a batch."""

from __future__ import annotations

from dataclasses import replace

import torch
from jaxtyping import Int
from torch import Tensor

from searnn import tree
from searnn.rng import Shard
from searnn.types import Batch


def deal(lengths: Int[Tensor, "B"], index: int, count: int) -> Shard:
    """A shard of the examples that have these lengths; they are dealt out by length, so that all shards are alike.

    Processes wait for the slowest. With shares at random, say 64 words of 3 to 14 letters for each of 8, it would have
    13 % more roll-outs to make than the mean; dealt out it has 1 % more.
    """
    few = lengths.clamp(max=torch.iinfo(torch.int16).max).to(torch.int16)  # sorted much faster
    return Shard(index, count, len(lengths), few.argsort(stable=True)[index::count])


def take(batch: Batch, rows: Int[Tensor, "N"]) -> Batch:
    """The examples `rows` of a batch where it is, padded as in the batch."""
    inputs, targets, lengths = tree.take_examples((batch.inputs, batch.targets, batch.lengths), rows)
    chosen = rows.tolist()
    ids, limits = batch.ids, batch.limits()
    return replace(
        batch,
        inputs=inputs,
        targets=targets,
        lengths=lengths,
        ids=None if ids is None else tuple(ids[row] for row in chosen),
        host_lengths=tuple(limits[row] for row in chosen),
    )
