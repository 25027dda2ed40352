"""The forecast: what SEARNN is expected to gain over maximum likelihood, from what was measured of the latter's model.

Two things must come together. The model's own distribution must hold something better by the metric than its best
guess: that is what MBR gains, as a share of what greedy decoding lacks. And the search must see mistakes where it
looks, in the training data: that is how often the model errs there, over how often it errs elsewhere. The gain, as a
share of what is lacking, is taken to grow with their product.

The constants are fitted on measured pairs of runs by `benchmarks/headroom.py`; docs/headroom.md tells how well.
"""

from __future__ import annotations

from dataclasses import dataclass

from searnn.reports.bootstrap import Estimate
from searnn.reports.headroom.records import Forecast, Prefixes


@dataclass(frozen=True)
class Calibration:
    """Gain = `slope` x signal, and half the width of the interval around it, both as shares of what is lacking."""

    slope: float
    width: float


CALIBRATED = Calibration(slope=1.4, width=0.06)


def lacking(value: float, perfect: float) -> float:
    """How far a metric is from that of the truth; never 0, so that one can divide by it."""
    return max(abs(perfect - value), 1e-12)


def seen(judged: Prefixes, train: Prefixes) -> float:
    """How much of the mistakes a search on the training data sees, from 0 to 1."""
    return min(1.0, train.visible / judged.visible) if judged.visible else 0.0


def signal(gain: float, lacks: float, sees: float) -> float:
    """What the forecast is proportional to."""
    return max(0.0, gain) / lacks * sees


def forecast(mbr: Estimate, lacks: float, sees: float, calibration: Calibration = CALIBRATED) -> Forecast:
    """The gain by the metric; the interval has the uncertainty of what MBR gains and that of the calibration."""
    middle, low, high = (calibration.slope * signal(gain, lacks, sees) for gain in (mbr.value, mbr.low, mbr.high))
    return Forecast(middle * lacks, (low - calibration.width) * lacks, (high + calibration.width) * lacks)
