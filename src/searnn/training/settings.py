"""Everything that decides how a model is trained, apart from the model, the algorithm and the task."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from searnn import engine
from searnn.types import SearnnError

OPTIMIZERS = ("sgd", "adam", "adamw")
SCHEDULES = ("constant", "plateau", "linear", "cosine")
PRECISIONS = ("32-true", "16-mixed", "bf16-mixed", "64-true")
CHOICES: dict[str, tuple[str, ...]] = {
    "optimizer": OPTIMIZERS,
    "schedule": SCHEDULES,
    "precision": PRECISIONS,
    "engine": engine.KINDS,
    "search_precision": engine.PRECISIONS,
    "compile": ("auto", "on", "off"),
}


@dataclass(frozen=True)
class TrainingSettings:
    """How a model is trained: step sizes, when to evaluate, when to stop and where it runs."""

    optimizer: str = "sgd"
    lr: float = 0.5
    momentum: float = 0.0  # sgd only
    weight_decay: float = 0.0
    schedule: str = "constant"
    min_lr: float = 0.0
    lr_warmup: int = 0  # steps in which the rate rises
    warm_up: int = 0  # updates that may have a learning rate of their own, as those by MLE before an algorithm's
    warm_up_lr: float | None = None  # None: the same
    plateau_factor: float = 0.5
    plateau_patience: int = 5  # evaluations without improvement that are borne before the rate is cut
    clip: float | None = 5.0  # largest global norm of the gradient
    average: float = 0.0  # decay of a running average of the weights, which is evaluated and kept; 0: none
    batch_size: int = 64  # of all ranks together
    accumulate: int = 1  # parts that a rank cuts its share of a batch into, to save memory: the update is the same
    steps: int | None = 20000
    minutes: float | None = None
    patience: int | None = None  # evaluations without improvement before the end; None: never ends so
    eval_every: int = 250
    keep_every: int | None = None  # steps between models that are kept in `kept/STEP`, the first one too; None: none
    seed: int = 0
    device: str = "auto"
    precision: str = "32-true"
    engine: str = "auto"  # how the search runs: with fast paths where they apply, or "plain"
    search_precision: str = "float32"  # of the fast paths' products
    compile: str = "auto"  # whether a step is recorded as a CUDA graph: auto, on or off
    tensorboard: bool = False
    beam: int = 1  # of the decoding that is evaluated

    def __post_init__(self) -> None:
        for name, known in CHOICES.items():
            if getattr(self, name) not in known:
                raise SearnnError(f"{name} is {getattr(self, name)!r}, it must be one of {', '.join(known)}")
        self._between("lr", above=0.0)
        self._between("warm_up_lr", above=0.0)
        self._between("momentum", least=0.0, below=1.0)
        self._between("weight_decay", least=0.0)
        self._between("average", least=0.0, below=1.0)
        self._between("min_lr", least=0.0)
        self._between("plateau_factor", above=0.0, below=1.0)
        self._between("clip", above=0.0)
        self._between("minutes", above=0.0)
        for name in ("steps", "batch_size", "accumulate", "eval_every", "keep_every", "patience", "beam"):
            self._between(name, least=1.0)
        for name in ("lr_warmup", "warm_up", "plateau_patience"):
            self._between(name, least=0.0)
        if self.accumulate > self.batch_size:
            raise SearnnError(f"accumulate is {self.accumulate}, a batch of {self.batch_size} has not as many parts")
        if self.momentum and self.optimizer != "sgd":
            raise SearnnError(f"momentum is {self.momentum}, only sgd has one: leave it out with {self.optimizer}")
        if self.min_lr > self.lr:
            raise SearnnError(f"min_lr is {self.min_lr}, it must not be above lr, which is {self.lr}")
        if self.min_lr and self.schedule == "constant":
            raise SearnnError(f"min_lr is {self.min_lr}, a constant learning rate has none: leave it out")
        if self.schedule in ("linear", "cosine") and self.steps is None:
            raise SearnnError(f"a {self.schedule} learning rate runs over a number of steps: give steps, which is None")
        if self.schedule in ("linear", "cosine") and self.steps is not None and self.lr_warmup >= self.steps:
            raise SearnnError(f"lr_warmup is {self.lr_warmup}, it must be less than steps, which is {self.steps}")
        if self.steps is None and self.minutes is None and self.patience is None:
            raise SearnnError("training would never end: give steps, minutes or patience")

    def _between(
        self, name: str, *, least: float = -math.inf, above: float = -math.inf, below: float = math.inf
    ) -> None:
        """Refuse a number outside its range; NaN is outside every range, and None stands for "not set"."""
        value: Any = getattr(self, name)
        if value is None or (least <= value and above < value < below):
            return
        bounds = [f"at least {least:g}"] if least > -math.inf else [f"above {above:g}"]
        bounds += [f"below {below:g}"] if below < math.inf else ["finite"]
        raise SearnnError(f"{name} is {value}, it must be {' and '.join(bounds)}")
