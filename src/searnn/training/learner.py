"""What an update changes: the model and the algorithm's own parameters, their optimiser, and what is measured."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from searnn.interfaces import Algorithm, Phased, TrainingData
from searnn.sealed import RESTORE
from searnn.training import checkpoints
from searnn.training.average import Average
from searnn.training.devices import make_fabric
from searnn.training.gradients import Gradients
from searnn.training.meters import Guard, Meter
from searnn.training.objective import Objective, Work
from searnn.training.optimisation import make_optimizer, optimizer_tensors, restore_optimizer, set_rate
from searnn.training.recording import Logs, recorder, records_steps
from searnn.training.settings import TrainingSettings
from searnn.training.world import World
from searnn.types import Batch, SearnnError

OWN = ("model.", "algorithm.", "adjusted.")  # begins the names of what the objective holds


class Learner:
    """Makes updates; the same on all ranks, which share the work on each batch."""

    def __init__(
        self,
        model: nn.Module,
        algorithm: Algorithm,
        data: TrainingData,
        settings: TrainingSettings,
        world: World,
        device: torch.device,
    ) -> None:
        self.settings, self.data = settings, data
        self.raw_objective = Objective(model, algorithm, settings.seed).train().to(device)
        self.adjusted: Iterable[Any] = self.raw_objective.adjusted
        self.gradients = Gradients(self.raw_objective, data, settings, world, device)
        phases = isinstance(algorithm, Phased)  # then another step may leave out what the first does not
        unused = world.size > 1 and (phases or self.gradients.leaves_some_out())
        self.fabric = make_fabric(device, settings.precision, world, some_unused=unused)
        self.objective = self.fabric.setup_module(self.raw_objective)
        recorded = records_steps(self.raw_objective, settings, world, device)
        self.raw_optimizer = make_optimizer(settings, self.raw_objective, recorded)
        self.optimizer = self.fabric.setup_optimizers(self.raw_optimizer)
        self.average = Average(model, settings.average) if settings.average else None
        self.meter, self.guard = Meter(device), Guard(0, device)
        self.held = torch.ones((), device=device)  # tells the optimiser to leave everything as it is
        self.recorder = recorder(self._learn_from, self.raw_objective, settings) if recorded else None

    def update(self, step: int, rate: float) -> Tensor:
        """One step of the optimiser; returns the loss, still on the device."""
        set_rate(self.raw_optimizer, rate)
        if self.recorder is None:
            values = self._learn(lambda: self.gradients.add(self.fabric, self.objective, step), hold=False)
        else:
            values = self.recorder(self.data.batch(step), step)
        if self.average is not None:
            self.average.update(step + 1)
        self.meter.add(values)
        return values["train_loss"]

    def _learn_from(self, batch: Batch, step: int, generator: torch.Generator, hold: bool) -> Logs:
        work = Work(batch, step, generator)
        return self._learn(lambda: self.gradients.add_whole(self.fabric, self.objective, work), hold)

    def _learn(self, add: Callable[[], tuple[Tensor, dict[str, Tensor]]], hold: bool) -> Logs:
        """Have the gradient added, then take the optimiser's step, or with `hold` all but its effect."""
        self.optimizer.zero_grad()
        loss, logs = add()
        norm = self.fabric.clip_gradients(
            self.objective, self.optimizer, max_norm=self.settings.clip or math.inf, error_if_nonfinite=False
        )
        if self.settings.precision == "16-mixed":  # its scaler skips steps whose gradient overflows: no failure
            bad = self.guard.note(loss, loss)
        else:
            bad = self.held if hold else self.guard.note(loss, norm)
            self.raw_optimizer.found_inf = bad  # type: ignore[attr-defined]
        self.optimizer.step()
        for part in self.adjusted:
            part.adjust(logs, 1 - bad)
        train_logs = {f"train_{name}": value for name, value in logs.items()}
        return {**train_logs, "train_loss": loss, "gradient_norm": norm}

    def averaged(self) -> AbstractContextManager[None]:
        """While it lasts the model has the average of its weights, where there is one."""
        return nullcontext() if self.average is None else self.average.in_place()

    def weights(self) -> dict[str, Tensor]:
        """The parameters, for a checkpoint."""
        return self.raw_objective.state_dict()

    def tensors(self) -> dict[str, Tensor]:
        """All tensors that resuming needs."""
        return {
            **self.weights(),
            **optimizer_tensors(self.raw_optimizer, self.raw_objective),
            **(self.average.tensors() if self.average is not None else {}),
            **self.meter.tensors(),
        }

    def meta(self) -> dict[str, Any]:
        """What resuming needs besides tensors."""
        return {"meter": self.meter.counts, "scaler": self.fabric.strategy.precision.state_dict()}

    def restore(self, tensors: Mapping[str, Tensor], meta: Mapping[str, Any], step: int, folder: Path) -> None:
        """Put back what a checkpoint holds, to go on with this step."""
        weights = {name: value for name, value in tensors.items() if name.startswith(OWN)}
        checkpoints.restore(self.raw_objective, weights, folder)
        restore_optimizer(self.raw_optimizer, self.raw_objective, tensors, folder)
        if self.average is not None:
            self.average.restore(tensors, folder)
        self.meter.restore(tensors, meta["meter"], folder)
        scaler = self.fabric.strategy.precision
        if meta["scaler"].keys() != scaler.state_dict().keys():
            raise SearnnError(f"the checkpoint {folder} is damaged: its scaler is of another precision: {RESTORE}")
        scaler.load_state_dict(meta["scaler"])
        self.guard = Guard(step, self.guard.good.device)
