"""How many examples are decoded together: as many as fit a memory budget, whatever the batch that they are given in."""

from __future__ import annotations

from collections.abc import Iterator

import torch

from searnn import tree
from searnn.data import sharding
from searnn.devices import DECODING_BYTES, default_budget
from searnn.interfaces import Stepper
from searnn.models.modes import evaluating
from searnn.models.stepping import row_bytes
from searnn.types import Batch

TOGETHER = 256  # examples at most: more are no faster on a CPU
READING = 4  # what the encoder needs for an example beside what it keeps of it, in times the latter


def parts(model: Stepper, batch: Batch, *, width: int, budget: int | None = None) -> Iterator[Batch]:
    """The batch, on the model's device, in parts of which `width` rows for each example fit the budget in bytes.

    Inputs that are no tree of tensors cannot be cut, and stay together.
    """
    count = len(batch.targets)
    if count == 1 or next(tree.leaves(batch.inputs), None) is None:
        yield batch
        return
    device = batch.targets.device
    budget = default_budget(device, DECODING_BYTES) if budget is None else budget
    everyone = torch.arange(count, device=device)
    most = max(1, budget // example_bytes(model, sharding.take(batch, everyone[:1]), width))
    if most >= count:
        yield batch
        return
    for start in range(0, count, most):
        yield sharding.take(batch, everyone[start : start + most])


@torch.no_grad()
def example_bytes(model: Stepper, one: Batch, width: int) -> int:
    """About how many bytes it takes to decode an example by `width` rows; all examples of a batch are as long."""
    with evaluating(model):
        memory = model.encode(one.inputs)
        kept = sum(leaf.numel() * leaf.element_size() for leaf in tree.leaves(memory))
        return READING * kept + width * row_bytes(model, memory, one.targets.shape[1])
