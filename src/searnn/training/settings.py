"""Everything that decides how a model is trained, apart from the model, the algorithm and the task."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from searnn.settings import Setting, check
from searnn.types import SearnnError

Optimizer = Annotated[Literal["sgd", "adam", "adamw"], Setting("the optimiser")]
Schedule = Annotated[Literal["constant", "plateau", "linear", "cosine"], Setting("schedule of the learning rate")]
FALLING = ("linear", "cosine")  # over all steps, else over all minutes
Factor = Annotated[float, Setting("factor of a plateau's reduction", gt=0, lt=1)]
Patience = Annotated[int, Setting("evaluations without improvement before a reduction", ge=0)]
Clip = Annotated[float | None, Setting("largest global norm of the gradient, or none", gt=0, none="none")]
Average = Annotated[float, Setting("decay of the weights' EMA, evaluated and kept instead; 0: none", ge=0, lt=1)]
Accumulate = Annotated[int, Setting("shards that a process cuts its batch into, to need less memory", ge=1)]
Steps = Annotated[int | None, Setting("stop after so many steps, or none", ge=1, none="none")]
Minutes = Annotated[float | None, Setting("stop after so many minutes, or none", gt=0, none="none")]
EvalEvery = Annotated[
    int | None, Setting("steps between evaluations, or none: 24 in --minutes, fewer if slow", ge=1, none="none")
]
Wait = Annotated[int | None, Setting("early stopping: evaluations without improvement, or none", ge=1, none="none")]
KeepEvery = Annotated[
    int | None, Setting("steps between models that are kept for searnn explain, or none", ge=1, none="none")
]
WarmUp = Annotated[int, Setting("updates by maximum likelihood before those of the algorithm", ge=0)]
Device = Annotated[str, Setting("auto, cpu, cuda or cuda:N", section="run", kind="device")]
Precision = Annotated[
    Literal["32-true", "16-mixed", "bf16-mixed", "64-true"], Setting("arithmetic of training", section="run")
]
Engine = Annotated[Literal["auto", "plain", "triton"], Setting("plain: no fast paths in the search", section="run")]
SearchPrecision = Annotated[Literal["float32", "tf32", "bf16"], Setting("arithmetic of the fast paths", section="run")]
Compile = Annotated[Literal["auto", "on", "off"], Setting("record steps as CUDA graphs", section="run")]


@dataclass(frozen=True)
class TrainingSettings:
    """How a model is trained: step sizes, when to evaluate, when to stop and where it runs.

    The defaults here are those of plain SGD, for who writes the settings out; the command line takes the recipes'
    optimiser and learning rate, and all its other defaults from here.
    """

    optimizer: Optimizer = "sgd"
    lr: Annotated[float, Setting("learning rate", gt=0)] = 0.5
    momentum: Annotated[float, Setting("momentum (sgd)", ge=0, lt=1)] = 0.0
    weight_decay: Annotated[float, Setting("weight decay", ge=0)] = 0.0
    schedule: Schedule = "constant"
    min_lr: Annotated[float, Setting("lowest learning rate of the schedule", ge=0)] = 0.0
    lr_warmup: Annotated[int, Setting("steps of the learning rate's warm-up", ge=0)] = 0
    warm_up: WarmUp = 0
    warm_up_lr: Annotated[float | None, Setting("learning rate of these updates", gt=0)] = None  # None: the same
    plateau_factor: Factor = 0.5
    plateau_patience: Patience = 5
    clip: Clip = 5.0
    average: Average = 0.0
    batch_size: Annotated[int, Setting("examples per step, of all processes together", ge=1)] = 64
    accumulate: Accumulate = 1  # the update is the same
    steps: Steps = 20000
    minutes: Minutes = None
    patience: Wait = None
    eval_every: EvalEvery = 250
    keep_every: KeepEvery = None  # in `kept/STEP`, the first one too
    seed: Annotated[int, Setting("seed of all randomness", ge=0, section="run")] = 0
    device: Device = "auto"
    precision: Precision = "32-true"
    engine: Engine = "auto"
    search_precision: SearchPrecision = "float32"
    compile: Compile = "auto"
    tensorboard: Annotated[bool, Setting("also write TensorBoard records", section="run")] = False
    beam: Annotated[int, Setting("beam of the decoding that is evaluated", ge=1, public=False)] = 1

    def __post_init__(self) -> None:
        check(self)
        if self.accumulate > self.batch_size:
            raise SearnnError(f"accumulate is {self.accumulate}, a batch of {self.batch_size} has not as many parts")
        if self.momentum and self.optimizer != "sgd":
            raise SearnnError(f"momentum is {self.momentum}, only sgd has one: leave it out with {self.optimizer}")
        if self.min_lr > self.lr:
            raise SearnnError(f"min_lr is {self.min_lr}, it must not be above lr, which is {self.lr}")
        if self.min_lr and self.schedule == "constant":
            raise SearnnError(f"min_lr is {self.min_lr}, a constant learning rate has none: leave it out")
        if self.falls and self.steps is None and self.minutes is None:
            raise SearnnError(f"a {self.schedule} learning rate falls to an end that is known: give steps or minutes")
        if self.falls and self.steps is not None and self.lr_warmup >= self.steps:
            raise SearnnError(f"lr_warmup is {self.lr_warmup}, it must be less than steps, which is {self.steps}")
        if self.steps is None and self.minutes is None and self.patience is None:
            raise SearnnError("training would never end: give steps, minutes or patience")
        if self.eval_every is None and self.minutes is None:
            raise SearnnError("eval_every is None, by time, and no time is given: give minutes or eval_every")

    @property
    def falls(self) -> bool:
        """Whether the learning rate falls over the whole run, so that it depends on the end."""
        return self.schedule in FALLING

    @property
    def follows_time(self) -> bool:
        """Whether anything besides the end of the run depends on the clock."""
        return self.minutes is not None and (self.eval_every is None or (self.falls and self.steps is None))
