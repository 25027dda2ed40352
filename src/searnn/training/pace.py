"""What follows the clock where time ends a run: how much of it is gone, and when an evaluation is due.

Both are decided by the first rank and kept in the checkpoint, so that a run that is resumed goes on where it was.
"""

from __future__ import annotations

from searnn.training.saved import Counters
from searnn.training.settings import TrainingSettings

EVALUATIONS = 24  # in a run, the one at its end among them
MOST = 0.2  # of the time is for evaluations, at most: where they are slow there are fewer


def time_gone(settings: TrainingSettings, counters: Counters) -> float:
    """The part of the run's time that is gone."""
    assert settings.minutes is not None
    return min(1.0, counters.seconds / (60 * settings.minutes))


def is_time_to_evaluate(settings: TrainingSettings, counters: Counters) -> bool:
    """Whether another 24th of the time has begun since the last evaluation, and the time allows for one more."""
    assert settings.minutes is not None
    each, last = 60 * settings.minutes / EVALUATIONS, counters.seconds_at_evaluation
    if counters.step <= counters.recorded or counters.step == 0:
        return False  # it would find what the last one found
    return counters.seconds // each > last // each and counters.seconds - last >= counters.evaluation_seconds / MOST
