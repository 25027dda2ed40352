"""How sure a metric of so many examples is: what it would have been on other draws of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor

Tokens = Sequence[int]
Metric = Callable[[Sequence[Tokens], Sequence[Tokens]], float]  # of outputs and their targets
REPEATS = 1000
ANEW = 200  # where the metric of every draw must be computed by itself
LEVEL = 0.95
DEVIATIONS = 1.96  # on either side, that hold as much of a normal distribution


@dataclass(frozen=True)
class Estimate:
    """A value, and the interval that holds it in 95 of 100 draws of the examples."""

    value: float
    low: float
    high: float

    @property
    def error(self) -> float:
        """The standard error of which a normal distribution has this interval."""
        return (self.high - self.low) / (2 * DEVIATIONS)

    def __str__(self) -> str:
        return f"{self.value:z.4f} ({self.low:z.4f} to {self.high:z.4f})"


def estimate(value: float, draws: Float[Tensor, "N"]) -> Estimate:
    """A value with the percentiles of its draws."""
    ends = torch.tensor([(1 - LEVEL) / 2, (1 + LEVEL) / 2], dtype=draws.dtype)
    low, high = torch.quantile(draws, ends).tolist()
    return Estimate(value, low, high)


def bootstrap(
    metric: Metric, systems: Sequence[Sequence[Tokens]], targets: Sequence[Tokens], rng: torch.Generator
) -> Float[Tensor, "M N"]:
    """The metric of each system's outputs on N draws of the examples with replacement, the same for all systems.

    Differences between rows are paired. A metric that is a mean over examples or over the true tokens, as found out on
    the data, is drawn by its parts; any other (BLEU, F1) is computed anew for every draw, and there are fewer of them.
    """
    count = len(targets)
    whole = [metric(outputs, targets) for outputs in systems]
    singles = [[metric([one], [truth]) for one, truth in zip(outputs, targets, strict=True)] for outputs in systems]
    for weights in ([1.0] * count, [float(max(1, len(truth))) for truth in targets]):
        if all(_is_mean(*pair, weights) for pair in zip(whole, singles, strict=True)):
            weight = torch.tensor(weights, dtype=torch.float64)
            parts = weight * torch.tensor(singles, dtype=torch.float64)  # [M, B]
            rows = draw(count, REPEATS, rng)
            return parts[:, rows].sum(-1) / weight[rows].sum(-1)
    found = [
        [metric([outputs[row] for row in rows], [targets[row] for row in rows]) for outputs in systems]
        for rows in draw(count, ANEW, rng).tolist()
    ]
    return torch.tensor(found, dtype=torch.float64).T


def draw(count: int, repeats: int, rng: torch.Generator) -> Int[Tensor, "N B"]:
    """Which examples are in every draw."""
    return torch.randint(count, (repeats, count), generator=rng)


def _is_mean(whole: float, singles: Sequence[float], weights: Sequence[float]) -> bool:
    mean = sum(map(float.__mul__, weights, singles)) / sum(weights)
    return math.isclose(whole, mean, rel_tol=1e-9, abs_tol=1e-12)
