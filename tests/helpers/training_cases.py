"""A small run of training for the tests: the copy task, a GRU with dropout, and an algorithm that draws at random."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from searnn import rng
from searnn.algorithms import Mle, Searnn
from searnn.costs import EditDistance
from searnn.losses import KLLoss
from searnn.models import EncoderDecoder
from searnn.policies import Mixed, Sampled
from searnn.samplers import AllCells, UniformTokens
from searnn.schedules import Linear
from searnn.tasks.copying import Copy
from searnn.training import Plan, TrainingSettings, fit
from searnn.training.checkpoints import load

TIMES = ("seconds", "steps_per_second", "checksum")  # what the clock decides
SETTINGS = TrainingSettings(optimizer="sgd", lr=0.5, batch_size=8, steps=40, eval_every=10, device="cpu")
ADAM = replace(SETTINGS, optimizer="adam", lr=0.01)
QUICK = replace(SETTINGS, steps=6, eval_every=3)


def make_task() -> Copy:
    return Copy(symbols=3, length=3, examples=120, seed=1)


def make_model(width: int = 8, dropout: float = 0.2, seed: int = 0) -> EncoderDecoder:
    task = make_task()
    init = rng.generator(seed, "init")
    return EncoderDecoder(
        task.vocab, features=None, source_size=task.source_size, width=width, dropout=dropout, rng=init
    )


def random_searnn() -> Searnn:
    """SEARNN with randomness everywhere and a schedule: whatever is not a function of the step shows."""
    return Searnn(
        roll_in=Sampled(),
        roll_out=Mixed(reference_probability=Linear(1.0, 0.0, 40), per="cell"),
        cost=EditDistance(),
        loss=KLLoss(2.0),
        tokens=UniformTokens(2),
        cells=AllCells(),
    )


def weights(folder: Path) -> dict[str, Tensor]:
    return load(folder)[0]


def same(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    """Bit for bit: the same names, types and values."""
    if one.keys() != other.keys():
        return False
    return all(one[name].dtype == other[name].dtype and torch.equal(one[name], other[name]) for name in one)


def lines(folder: Path) -> list[dict[str, Any]]:
    """The records without what depends on the clock."""
    records = [json.loads(line) for line in (folder / "metrics.jsonl").read_text().splitlines()]
    return [{name: value for name, value in record.items() if name not in TIMES} for record in records]


class Scripted:
    """The copy task with a metric that follows a script, whatever the model does."""

    def __init__(self, values: Sequence[float], higher_is_better: bool = False) -> None:
        self.inner, self.values, self.calls, self.higher_is_better = make_task(), list(values), 0, higher_is_better
        self.name, self.vocab, self.metric = "scripted", self.inner.vocab, "score"
        self.features, self.source_size = None, self.inner.source_size

    def train(self, batch_size: int, seed: int) -> Any:
        return self.inner.train(batch_size, seed)

    def valid(self, batch_size: int) -> Iterable[Any]:
        return self.inner.valid(batch_size)

    def test(self, batch_size: int) -> Iterable[Any]:
        return self.inner.test(batch_size)

    def metrics(self, outputs: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> dict[str, float]:
        assert len(outputs) == len(targets) == 12
        self.calls += 1
        return {"score": float(self.values[self.calls - 1])}

    def show(self, tokens: Sequence[int]) -> str:
        return self.inner.show(tokens)


@dataclass(frozen=True)
class Spoil:
    """A schedule: 1, but `value` at one step."""

    scheduled: ClassVar[bool] = True
    step: int
    value: float

    def __call__(self, step: int) -> float:
        return self.value if step == self.step else 1.0


@dataclass(frozen=True)
class Scaled:
    """MLE times a factor that may be a schedule, which also ends up in the logs."""

    factor: Any = 1.0

    def __call__(self, model: Any, batch: Any, generator: torch.Generator) -> Any:
        update = Mle()(model, batch, generator)
        factor = torch.tensor(self.factor)
        return replace(update, loss=update.loss * factor, logs={"factor": factor})


def trained(settings: TrainingSettings, folder: Path, algorithm: Any = None, **model: Any) -> nn.Module:
    built = make_model(**model)
    fit(built, algorithm or Mle(), make_task(), settings, folder)
    return built


class Watch:
    """Keeps what it is told."""

    def __init__(self) -> None:
        self.plans: list[Plan] = []
        self.steps: list[int] = []
        self.records: list[dict[str, Any]] = []
        self.best: list[tuple[float | None, int]] = []
        self.stops = 0

    def start(self, plan: Plan) -> None:
        self.plans.append(plan)

    def on_step(self, step: int, loss: torch.Tensor, seconds: float) -> None:
        assert loss.ndim == 0
        assert not loss.requires_grad
        assert seconds > 0
        self.steps.append(step)

    def on_evaluation(self, record: dict[str, Any], best_metric: float | None, best_step: int) -> None:
        self.records.append(record)
        self.best.append((best_metric, best_step))

    def stop(self) -> None:
        self.stops += 1
