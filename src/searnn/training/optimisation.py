"""Optimisers, their state as named tensors, and the learning rate of every step."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from searnn.sealed import Checked, Whole
from searnn.training.fitting import check_tensor
from searnn.training.settings import TrainingSettings

PREFIX = "optimizer."


def make_optimizer(settings: TrainingSettings, module: nn.Module, recorded: bool = False) -> torch.optim.Optimizer:
    """The optimiser of all parameters.

    The fused kind takes `found_inf`, a tensor on the device that tells it to leave everything as it is: a bad step is
    skipped without asking the device. With 16-mixed the gradient scaler does that, and wants the plain kind. Where
    steps are recorded as CUDA graphs, the learning rate too is a tensor on the device.
    """
    parameters = [parameter for parameter in module.parameters() if parameter.requires_grad]
    fused = settings.precision != "16-mixed"
    rate: Any = torch.tensor(settings.lr, device=parameters[0].device) if recorded else settings.lr
    if settings.optimizer == "sgd":
        sgd = torch.optim.SGD(parameters, rate, settings.momentum, weight_decay=settings.weight_decay, fused=fused)
        if settings.momentum:  # the fused kind cannot start some parameters later than others; zeros change nothing
            for parameter in parameters:
                sgd.state[parameter]["momentum_buffer"] = torch.zeros_like(parameter)
        return sgd
    kind = torch.optim.AdamW if settings.optimizer == "adamw" else torch.optim.Adam
    return kind(parameters, rate, weight_decay=settings.weight_decay, fused=fused, capturable=recorded)


def set_rate(optimizer: torch.optim.Optimizer, rate: float) -> None:
    """Give all parameters this learning rate."""
    for group in optimizer.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(rate)
        else:
            group["lr"] = rate


def _names(module: nn.Module) -> list[str]:
    """The names of the optimised parameters, in the optimiser's order."""
    return [name for name, parameter in module.named_parameters() if parameter.requires_grad]


def optimizer_tensors(optimizer: torch.optim.Optimizer, module: nn.Module) -> dict[str, Tensor]:
    """The optimiser's state as tensors, named by parameter and kind."""
    names = _names(module)
    return {
        f"{PREFIX}{names[index]}.{kind}": value
        for index, kinds in optimizer.state_dict()["state"].items()
        for kind, value in kinds.items()
        if isinstance(value, Tensor)
    }


def restore_optimizer(
    optimizer: torch.optim.Optimizer, module: nn.Module, tensors: Mapping[str, Tensor], folder: Path
) -> None:
    """Put back what `optimizer_tensors` gave; the rest of a checkpoint's tensors is passed over."""
    kinds = ("momentum_buffer",) if isinstance(optimizer, torch.optim.SGD) else ("step", "exp_avg", "exp_avg_sq")
    parameters = dict(module.named_parameters())
    places = {name: index for index, name in enumerate(_names(module))}
    found = [full.removeprefix(PREFIX).rpartition(".") for full in tensors if full.startswith(PREFIX)]
    state: dict[int, dict[str, Tensor]] = {}
    whole = [(name, kind) for name, _, kind in found]
    whole += [(name, kind) for name in dict(whole) for kind in kinds]  # of a parameter there is all or nothing
    for name, kind in whole:
        full, wanted = f"{PREFIX}{name}{'.' if name else ''}{kind}", None
        if name in places and kind in kinds:
            wanted = torch.zeros(()) if kind == "step" else parameters[name]
        check_tensor(full, tensors.get(full), wanted, folder, finite=False)
        state.setdefault(places[name], {})[kind] = tensors[full]
    optimizer.load_state_dict({"state": state, "param_groups": optimizer.state_dict()["param_groups"]})


@dataclass
class Plateau:
    """Cuts the learning rate where the validation metric has stopped improving."""

    __pydantic_config__ = Checked.model_config  # for what is read back

    scale: float = 1.0
    best: float | None = None
    stale: Whole = 0  # evaluations since the last improvement or cut

    def observe(self, metric: float, higher_is_better: bool, settings: TrainingSettings) -> None:
        """Take note of one evaluation."""
        if is_better(metric, self.best, higher_is_better):
            self.best, self.stale = metric, 0
            return
        self.stale += 1
        if self.stale > settings.plateau_patience:
            self.scale, self.stale = self.scale * settings.plateau_factor, 0


def is_better(metric: float, best: float | None, higher_is_better: bool) -> bool:
    """Whether the metric improves on the best so far; what is not finite never does."""
    if best is None or not math.isfinite(metric):
        return math.isfinite(metric)
    return metric > best if higher_is_better else metric < best


def learning_rate(settings: TrainingSettings, step: int, plateau: Plateau, gone: float = 0.0) -> float:
    """The learning rate of this step, counted from 0: it rises, then follows the schedule.

    `gone` is the part of the time that is gone, which a rate falls by where no number of steps is given.
    """
    rate = (settings.warm_up_lr or settings.lr) if step < settings.warm_up else settings.lr
    if step < settings.lr_warmup:
        return rate * (step + 1) / settings.lr_warmup
    if settings.schedule == "plateau":
        return max(settings.min_lr, rate * plateau.scale)
    if not settings.falls:
        return rate
    part = gone
    if settings.steps is not None:
        part = min(1.0, (step - settings.lr_warmup) / (settings.steps - settings.lr_warmup))
    left = 1 - part if settings.schedule == "linear" else (1 + math.cos(math.pi * part)) / 2
    return settings.min_lr + (rate - settings.min_lr) * left
