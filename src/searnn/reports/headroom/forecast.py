"""The forecast: what SEARNN is expected to gain over maximum likelihood, from what was measured of the latter's model.

Two things can be mended without knowing more than that model knows. Its own distribution may hold something better by
the metric than its best guess: that is what MBR gains. And a mistake may lead to the next, for which the model was not
trained: that is what is lacking, times the share of the mistakes that follow on another in the same output. Of each
SEARNN is taken to gain a fixed share. From task to task these shares differ by a factor of about two, and a gain is
told no better than the metric itself on so many examples: the interval has room for both.

The shares and the width are fitted on measured pairs of runs by `benchmarks/headroom.py`; docs/headroom.md tells how
well that does, and what else was tried.
"""

from __future__ import annotations

from dataclasses import dataclass

from searnn.reports.bootstrap import Estimate
from searnn.reports.headroom.records import Forecast


@dataclass(frozen=True)
class Calibration:
    """What SEARNN gains of either part, and the room for noise in standard errors of the greedy metric."""

    ambiguity: float  # of what MBR gains
    following: float  # of what is lacking, times the share of the mistakes that follow on another
    width: float


CALIBRATED = Calibration(ambiguity=0.77, following=0.09, width=1.3)
FACTOR = 2.0  # between what is forecast and what a task gains, the noise apart


def lacking(value: float, perfect: float) -> float:
    """How far a metric is from that of the truth; never 0, so that one can divide by it."""
    return max(abs(perfect - value), 1e-12)


def forecast(
    mbr: float, greedy: Estimate, lacks: float, following: float, calibration: Calibration = CALIBRATED
) -> Forecast:
    """The gain by the metric: `mbr` is what MBR gains, and `lacks` what greedy decoding lacks."""
    gain = calibration.ambiguity * max(0.0, mbr) + calibration.following * following * lacks
    half = calibration.width * greedy.error
    return Forecast(gain, gain / FACTOR - half, gain * FACTOR + half)
