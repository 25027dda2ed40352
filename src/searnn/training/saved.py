"""What checkpoints say besides their tensors, and the lines of `metrics.jsonl`: the fields, checked when read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

from pydantic import AfterValidator, ConfigDict, Field

from searnn.sealed import Checked, Number, Value, Whole
from searnn.training.optimisation import Plateau


@dataclass
class Counters:
    """Where a run stands."""

    __pydantic_config__ = Checked.model_config

    step: Whole = 0  # updates made
    best_metric: float | None = None
    best_step: Whole = 0
    stale: Whole = 0  # evaluations since the last improvement
    due: bool = False  # an evaluation was interrupted: it comes before the next step
    recorded: Annotated[int, Field(ge=-1)] = -1  # step of the last regular evaluation: a resume cuts the lines after it
    seconds: Annotated[float, Field(ge=0)] = 0.0
    training_seconds: Annotated[float, Field(ge=0)] = 0.0
    cpu_seconds: Annotated[float, Field(ge=0)] = 0.0  # of this process, all its threads together
    seconds_at_record: Annotated[float, Field(ge=0)] = 0.0  # training seconds at the last regular evaluation
    seconds_at_evaluation: Annotated[float, Field(ge=0)] = 0.0  # seconds when that evaluation began
    evaluation_seconds: Annotated[float, Field(ge=0)] = 0.0  # that it took
    gone: Annotated[float, Field(ge=0, le=1)] = 0.0  # part of the time, where anything follows it


class Line(Checked):
    """A line of `metrics.jsonl`: the step, and numbers of any name."""

    model_config = ConfigDict(extra="allow")
    __pydantic_extra__: dict[str, Number | None]  # None where one was not finite
    step: Whole
    signature: str | None = None  # of the metric


def _given(value: Any) -> Any:
    if value is None:
        raise ValueError("expected a value, got null")
    return value


Given = AfterValidator(_given)  # it may be missing, and is not null where it is there


class Meta(Checked):
    """What a checkpoint says: a best model its record, one that was kept its step, the last what resuming needs."""

    model_config = ConfigDict(extra="allow")
    identity: str | None = None  # of the vocabulary
    data: str | None = None  # a fingerprint
    record: Annotated[Line | None, Given] = None
    step: Annotated[Whole | None, Given] = None
    counters: Annotated[Counters | None, Given] = None
    plateau: Plateau | None = None
    meter: dict[str, Annotated[int, Field(ge=1)]] | None = None
    scaler: dict[str, Number] | None = None  # whole numbers stay whole: torch wants them so
    settings: dict[str, Value] | None = None


RESUMING = ("counters", "plateau", "meter", "scaler", "settings")  # without which there is nothing to resume
