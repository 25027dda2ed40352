"""Steps recorded once and replayed: what the learner hands over for it. The plain code records nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import torch
from torch import Tensor

from searnn.engine import replaceable
from searnn.training.objective import Objective
from searnn.training.settings import TrainingSettings
from searnn.training.world import World
from searnn.types import Batch, SearnnError

Logs = Mapping[str, Tensor]


# Makes one step, of this number and with this randomness; told to hold, it must leave the parameters as they were.
Step = Callable[[Batch, int, torch.Generator, bool], Logs]
Recorder = Callable[[Batch, int], Logs]  # makes the step of this number


@replaceable
def records_steps(
    objective: Objective, settings: TrainingSettings, world: World, device: torch.device  # noqa: ARG001
) -> bool:  # fmt: skip
    """Whether steps are recorded as CUDA graphs: where that can be, unless told otherwise."""
    if settings.compile == "on":
        raise SearnnError("compile is on, but searnn.fast, which records steps, is not there: use compile auto or off")
    return False


@replaceable
def recorder(step: Step, objective: Objective, settings: TrainingSettings) -> Recorder | None:  # noqa: ARG001
    """Makes steps by replay, where they are recorded."""
    return None
