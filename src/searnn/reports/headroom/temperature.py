"""The temperature at which a model fits the data: label smoothing makes it too even, a long training too sharp."""

from __future__ import annotations

from collections.abc import Iterable

import torch

from searnn.interfaces import Stepper
from searnn.reports.headroom.prefixes import scored
from searnn.sequences import seal, valid_cells
from searnn.types import Batch

TRIED = tuple(step / 20 for step in range(6, 31))  # from 0.3 to 1.5


def fitting(model: Stepper, batches: Iterable[Batch]) -> float:
    """Of the temperatures that are tried the one at which the true tokens are most likely after true prefixes."""
    losses = torch.zeros(len(TRIED), dtype=torch.float64)
    for batch in batches:
        truth = seal(batch.targets, batch.lengths, model.vocab)
        cells = valid_cells(truth, batch)
        scores, tokens = scored(model, batch, truth)[cells], truth[cells].unsqueeze(-1)
        for place, temperature in enumerate(TRIED):
            losses[place] -= float((scores / temperature).log_softmax(-1).gather(1, tokens).sum())
    return TRIED[int(losses.argmin())]
