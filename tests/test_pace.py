"""A run that time ends: its learning rate and its evaluations follow the clock, and it goes on where it was stopped."""

from __future__ import annotations

import itertools
import math
import os
import signal
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from statistics import fmean
from typing import Any

import pytest
import torch
from training_cases import ADAM, lines, make_model, make_task, same, weights

from searnn.algorithms import Mle
from searnn.reports.comparison import joined
from searnn.training import Outcome, Silent, TrainingSettings, fit, read_records
from searnn.training import loop as training_loop
from searnn.training.checkpoints import load
from searnn.training.optimisation import Plateau, learning_rate
from searnn.types import SearnnError

TIMED = replace(ADAM, steps=None, minutes=2.0, eval_every=None, schedule="cosine", average=0.9)


class Clock(Silent):
    """In place of the module `time`; as a watcher it lets seconds pass with every update, and may do something then."""

    def __init__(self, update: float = 1.0, at: int = 0, action: Callable[[], None] = lambda: None) -> None:
        self.now, self.each, self.at, self.action = 0.0, update, at, action

    def perf_counter(self) -> float:
        return self.now

    process_time = perf_counter

    def on_step(self, step: int, loss: torch.Tensor, seconds: float) -> None:
        self.now += self.each
        if step == self.at:
            self.action()


class Judged:
    """The copy task, which takes so many seconds to judge."""

    def __init__(self, clock: Clock, seconds: float) -> None:
        self.inner, self.clock, self.seconds = make_task(), clock, seconds

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    def metrics(self, outputs: Sequence[Sequence[int]], targets: Sequence[Sequence[int]]) -> Any:
        self.clock.now += self.seconds
        return self.inner.metrics(outputs, targets)


def interrupt() -> None:
    os.kill(os.getpid(), signal.SIGINT)


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., tuple[Outcome, Path]]:
    """Trains by a clock of its own; gives the outcome and the folder."""

    def train(name: str, settings: TrainingSettings, clock: Clock, judging: float = 4.0, **more: Any) -> Any:
        monkeypatch.setattr(training_loop, "time", clock)
        task: Any = Judged(clock, judging)
        return fit(make_model(), Mle(), task, settings, tmp_path / name, watch=clock, **more), tmp_path / name

    return train


def test_a_learning_rate_falls_with_the_time() -> None:
    def rates(**changes: Any) -> list[float]:
        settings = replace(TIMED, lr=1.0, **changes)
        return [learning_rate(settings, 10**6, Plateau(), gone) for gone in (0.0, 0.25, 0.5, 1.0)]

    assert rates() == pytest.approx([1, (1 + 0.5**0.5) / 2, 0.5, 0])
    assert rates(schedule="linear", min_lr=0.2) == pytest.approx([1, 0.8, 0.6, 0.2])
    assert rates(schedule="constant", eval_every=5) == [1, 1, 1, 1]
    assert rates(steps=2 * 10**6) == pytest.approx([0.5] * 4)  # given a number of steps, it falls over these


def test_evaluations_come_by_time(run: Any) -> None:
    update = 2.0
    outcome, folder = run("run", TIMED, Clock(update), judging=0.5)
    records = read_records(folder / "metrics.jsonl")
    assert outcome.stopped == "minutes"
    assert len(records) == 24
    gaps = [late["seconds"] - early["seconds"] for early, late in itertools.pairwise(records)]
    assert all(abs(gap - 5) <= update + 0.5 for gap in gaps)  # a 24th of two minutes
    steps = [late["step"] - early["step"] for early, late in itertools.pairwise(records)]
    assert fmean(steps) == pytest.approx(4.5 / update, rel=0.1)
    for record in records:
        wanted = 0.005 * (1 + math.cos(math.pi * record["seconds"] / 120))
        assert record["learning_rate"] == pytest.approx(wanted, abs=2e-4)


def test_slow_evaluations_are_few(run: Any) -> None:
    _, folder = run("run", TIMED, Clock(2.0), judging=6.0)
    records = read_records(folder / "metrics.jsonl")
    assert len(records) in (4, 5)  # one in 30 seconds: a fifth of the time
    assert records[-1]["seconds"] <= 120 + 2 + 6


def test_an_update_at_least_is_between_evaluations(run: Any) -> None:
    outcome, folder = run("run", TIMED, Clock(update=31.0), judging=0.0)
    assert [record["step"] for record in read_records(folder / "metrics.jsonl")] == [1, 2, 3, 4]
    assert outcome.steps == 4


@pytest.mark.parametrize("every", [1, 4])
def test_a_run_that_goes_on_is_the_run_that_never_stopped(
    every: int, run: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where the host looks at the clock every few steps alone, as on a GPU."""
    monkeypatch.setattr(training_loop._Run, "_may_look", lambda self: self.counters.step % every == 0)
    _, whole = run("whole", TIMED, Clock(3.0))
    first, broken = run("broken", TIMED, Clock(3.0, at=18, action=interrupt))
    assert (first.stopped, first.steps) == ("interrupted", 18)
    last, _ = run("broken", TIMED, Clock(3.0), resume=True)
    assert last.stopped == "minutes"
    assert lines(whole) == lines(broken)
    for part in ("last", "best"):
        assert same(weights(whole / part), weights(broken / part)), part
    counters = [load(folder / "last")[1]["counters"] for folder in (whole, broken)]
    assert counters[0]["gone"] == counters[1]["gone"] > 0.9
    slower, other = run("slower", TIMED, Clock(3.3))
    assert slower.steps < last.steps
    assert not same(weights(whole / "best"), weights(other / "best"))


def test_the_time_that_a_learning_rate_falls_over_must_stay(run: Any) -> None:
    run("run", TIMED, Clock(at=3, action=interrupt))
    told = "minutes was 2.0 and is now 3.0, which the cosine learning rate runs over"
    with pytest.raises(SearnnError, match=told):
        run("run", replace(TIMED, minutes=3.0), Clock(), resume=True)
    with pytest.raises(SearnnError, match="steps was None and is now 90"):
        run("run", replace(TIMED, steps=90), Clock(), resume=True)
    constant = replace(TIMED, schedule="constant")
    run("constant", constant, Clock(10.0))
    outcome, folder = run("constant", replace(constant, minutes=3.0), Clock(10.0), resume=True)
    assert outcome.seconds >= 180
    assert 5 < len(read_records(folder / "metrics.jsonl")) < 9


def test_curves_with_other_steps_are_joined_between_their_points() -> None:
    one, other = [(10, 1.0, 0.5), (20, 2.0, 0.4), (30, 3.0, 0.3)], [(12, 2.0, 0.8), (22, 4.0, 0.6), (32, 5.0, 0.1)]
    found = joined([one, other])
    assert [step for step, *_ in found] == [12, 20, 22, 30]
    assert found[0][2] == pytest.approx([0.48, 0.8])
    assert found[1][1:] == (pytest.approx((2.0 + 3.6) / 2), pytest.approx([0.4, 0.64]))
    assert joined([one, one]) == [(step, seconds, [value, value]) for step, seconds, value in one]
