"""What is measured while training, kept on the device: reading it every step would make the host wait every step."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import torch
from jaxtyping import Float
from torch import Tensor

from searnn.training.fitting import check_tensor

PREFIX = "meter."
SEPARATOR = "\t"


class Meter:
    """Means over the steps since the last evaluation; what is not finite (16-mixed skips such steps) counts as 0."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.totals: dict[str, Tensor] = {}  # by the names, joined: an algorithm may log other things at other times
        self.counts: dict[str, int] = {}

    def add(self, values: Mapping[str, Tensor]) -> None:
        """Take in one step's scalars."""
        key = SEPARATOR.join(values)
        row = torch.stack([self._scalar(value) for value in values.values()]).double()
        row = torch.nan_to_num(row, nan=0.0, posinf=0.0, neginf=0.0)
        self.totals[key] = self.totals[key] + row if key in self.totals else row
        self.counts[key] = self.counts.get(key, 0) + 1

    def means(self) -> dict[str, float]:
        """The mean of every name; waits for the device."""
        sums: dict[str, float] = {}
        counts: dict[str, int] = {}
        for key, totals in self.totals.items():
            for name, total in zip(key.split(SEPARATOR), totals.tolist(), strict=True):
                sums[name] = sums.get(name, 0.0) + total
                counts[name] = counts.get(name, 0) + self.counts[key]
        return {name: total / counts[name] for name, total in sums.items()}

    def reset(self) -> None:
        """Begin anew."""
        self.totals, self.counts = {}, {}

    def tensors(self) -> dict[str, Tensor]:
        """The sums, for a checkpoint."""
        return {PREFIX + key: totals for key, totals in self.totals.items()}

    def restore(self, tensors: Mapping[str, Tensor], counts: Mapping[str, int], folder: Path) -> None:
        """Put back what a checkpoint holds."""
        for key in counts:
            row = torch.zeros(key.count(SEPARATOR) + 1, dtype=torch.float64)
            check_tensor(PREFIX + key, tensors.get(PREFIX + key), row, folder)
        self.totals = {key: tensors[PREFIX + key].to(self.device) for key in counts}
        self.counts = dict(counts)

    def _scalar(self, value: Tensor) -> Tensor:
        value = value.detach().to(self.device, non_blocking=True)
        return value.double().mean() if value.ndim else value


class Guard:
    """Watches for a loss or gradient that is not finite and remembers the first such step, all on the device."""

    def __init__(self, first_step: int, device: torch.device) -> None:
        self.good = torch.ones((), dtype=torch.bool, device=device)
        self.next = torch.full((), first_step, device=device)  # stays at the first bad step

    def note(self, loss: Float[Tensor, ""], norm: Float[Tensor, ""]) -> Float[Tensor, ""]:
        """Look at one step; 1 from the first bad step on, so that the optimiser leaves the parameters alone."""
        self.good.logical_and_(torch.isfinite(loss.detach() + norm))  # in place: a recorded step finds it where it was
        self.next.add_(self.good)
        return (~self.good).float()

    def bad_step(self) -> int | None:
        """The first step that was not finite; waits for the device."""
        return None if bool(self.good) else int(self.next)
