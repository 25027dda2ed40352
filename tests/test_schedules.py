"""Schedules against their formulas, how they are written, and how they are replaced by numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, ClassVar

import pytest
import torch

from searnn import schedules
from searnn.schedules import Constant, Exponential, InverseSigmoid, Linear, Schedule, Stepwise, at, parse
from searnn.types import SearnnError


@pytest.mark.parametrize(
    ("schedule", "values"),
    [
        (Constant(0.3), {0: 0.3, 7: 0.3}),
        (Linear(1.0, 0.0, 100), {0: 1.0, 25: 0.75, 50: 0.5, 100: 0.0, 101: 0.0, 10**9: 0.0}),
        (Linear(0.2, 0.8, 3), {0: 0.2, 1: 0.4, 2: 0.6, 3: 0.8}),
        (Exponential(1.0, 0.5), {0: 1.0, 1: 0.5, 3: 0.125, 10**6: 0.0}),
        (Exponential(1.0, 0.5, 0.2), {0: 1.0, 2: 0.25, 3: 0.2, 10**6: 0.2}),
        (Exponential(1.0, 0.9 ** (1 / 10**5)), {0: 1.0, 10**5: 0.9}),
        (Exponential(0.0, 0.5, 1.0), {0: 0.0, 1: 0.5, 2: 0.75, 10**6: 1.0}),  # 1 - k^i of scheduled sampling
        (Exponential(0.2, 0.5, 0.6), {0: 0.2, 1: 0.4, 2: 0.5, 10**6: 0.6}),
        (Stepwise(1.0, 2.0, 100), {0: 1.0, 50: 2.0, 99: 2.98, 100: 3.0, 250: 6.0}),
    ],
    ids=str,
)
def test_values(schedule: Schedule, values: dict[int, float]) -> None:
    for step, value in values.items():
        assert schedule(step) == pytest.approx(value, abs=1e-10)
        assert isinstance(schedule(step), float)


def test_inverse_sigmoid_is_the_formula_of_scheduled_sampling() -> None:
    schedule = InverseSigmoid(1001)
    for step in (0, 1, 250, 500, 777, 1000, 1500):
        assert schedule(step) == pytest.approx(1 / (1 + math.exp(12 * step / 1000 - 6)), rel=1e-9)
    assert schedule(500) == 0.5
    assert schedule(10**9) == 0.0
    assert InverseSigmoid(1001, 0.8, 0.2)(500) == pytest.approx(0.5)
    assert InverseSigmoid(1001, 0.8, 0.2)(0) == pytest.approx(0.2 + 0.6 / (1 + math.exp(-6)))


def test_a_line_never_leaves_its_ends() -> None:
    for start, end in [(1.0, 1.0), (0.1, 1.0), (1.0, 0.3), (0.1, 0.1), (0.3, 0.3), (0.7, 0.7)]:
        line = Linear(start, end, 997)
        assert all(min(start, end) <= line(step) <= max(start, end) for step in range(1000))
        assert line(0) == start
        assert line(997) == end


@pytest.mark.parametrize(
    ("make", "word"),
    [
        (lambda: Constant(math.nan), "value"),
        (lambda: Linear(math.inf, 0.0, 10), "start"),
        (lambda: Linear(0.0, math.nan, 10), "end"),
        (lambda: Linear(0.0, 1.0, 0), "steps"),
        (lambda: Exponential(1.0, 0.0), "decay"),
        (lambda: Exponential(1.0, 1.01), "decay"),
        (lambda: Exponential(1.0, math.nan), "decay"),
        (lambda: Exponential(0.1, 0.9, math.inf), "floor"),
        (lambda: InverseSigmoid(1), "steps"),
        (lambda: InverseSigmoid(10, math.nan), "start"),
        (lambda: Stepwise(0.0, 1.0, 0), "every"),
        (lambda: Stepwise(0.0, math.inf, 10), "increment"),
    ],
)
def test_bad_values_are_refused(make: Any, word: str) -> None:
    with pytest.raises(SearnnError, match=word):
        make()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0.5", 0.5),
        (" 1 ", 1.0),
        ("1e-3", 0.001),
        ("constant:0.3", Constant(0.3)),
        ("linear:1:0:10000", Linear(1.0, 0.0, 10000)),
        ("exponential:1:0.999", Exponential(1.0, 0.999)),
        ("exponential:1:0.999:0.1", Exponential(1.0, 0.999, 0.1)),
        ("inverse-sigmoid:10000", InverseSigmoid(10000)),
        ("inverse-sigmoid:10000:0.9:0.1", InverseSigmoid(10000, 0.9, 0.1)),
        ("stepwise:0:1:100", Stepwise(0.0, 1.0, 100)),
    ],
)
def test_parse(text: str, expected: Any) -> None:
    parsed = parse(text)
    assert parsed == expected
    assert type(parsed) is type(expected)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no number and no schedule"),
        ("half", "linear:START:END:STEPS"),
        ("cosine:1:0:10", r"exponential:START:DECAY\[:FLOOR\]"),
        ("nan", "finite"),
        ("inf", "finite"),
        ("linear", "linear:START:END:STEPS"),
        ("linear:1:0", "linear:START:END:STEPS"),
        ("linear:1:0:10:3", "linear:START:END:STEPS"),
        ("linear:1:0:ten", "linear:START:END:STEPS"),
        ("linear:1:0:0.5", "linear:START:END:STEPS"),
        ("linear:1::10", "linear:START:END:STEPS"),
        ("linear:1:0:0", "steps"),
        ("constant:nan", "value"),
        ("exponential:1:2", "decay"),
        ("inverse-sigmoid:10:1:0:5", r"inverse-sigmoid:STEPS\[:START\]\[:END\]"),
    ],
)
def test_parse_errors_are_one_clear_line(text: str, message: str) -> None:
    with pytest.raises(SearnnError, match=message) as error:
        parse(text)
    assert "\n" not in str(error.value)


def test_every_schedule_can_be_written() -> None:
    kinds = {thing for thing in vars(schedules).values() if isinstance(thing, type) and "scheduled" in vars(thing)}
    written = ["constant:1", "linear:1:0:5", "exponential:1:1", "inverse-sigmoid:5", "stepwise:1:1:5"]
    assert {type(parse(text)) for text in written} == kinds


@dataclass(frozen=True)
class Inner:
    probability: float | Schedule
    label: str = "inner"
    made: int = field(default=0, init=False)


@dataclass(frozen=True)
class Outer:
    policy: Any
    others: tuple[Any, ...] = ()
    weight: float | Schedule = 1.0

    def __call__(self, step: int) -> float:
        raise AssertionError("can be called, yet is no schedule")


class Algorithm(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.rate = Linear(1.0, 0.0, 10)


def test_at_replaces_every_schedule_however_deep() -> None:
    outer = Outer(Outer(Inner(Linear(1.0, 0.0, 10))), (Inner(0.5), Inner(Constant(0.7))), Stepwise(0.0, 1.0, 2))
    now = at(outer, 5)
    assert now == Outer(Outer(Inner(0.5)), (Inner(0.5), Inner(0.7)), 2.5)
    assert now.others[0] is outer.others[0]
    assert outer.policy.policy.probability == Linear(1.0, 0.0, 10)
    assert at(outer, 10).policy.policy.probability == 0.0
    assert at(Linear(1.0, 0.0, 10), 5) == 0.5


def test_at_returns_what_holds_no_schedule_as_it_is() -> None:
    module = Algorithm()
    for node in (Outer(Inner(0.5), (Inner(0.1),)), module, Outer(module), Outer(Linear), Linear, "text", None, 0.5):
        assert at(node, 3) is node


def test_at_takes_a_schedule_of_the_users_own() -> None:
    class Alternating:
        scheduled: ClassVar[bool] = True

        def __call__(self, step: int) -> float:
            return float(step % 2)

    assert at(Inner(Alternating()), 3) == Inner(1.0)


def test_at_checks_the_value_as_the_constructor_does() -> None:
    @dataclass(frozen=True)
    class Checked:
        probability: float | Schedule

        def __post_init__(self) -> None:
            if isinstance(self.probability, float) and self.probability > 1:
                raise SearnnError("probability")

    with pytest.raises(SearnnError, match="probability"):
        at(Checked(Stepwise(0.0, 1.0, 1)), 2)


@dataclass(frozen=True)
class Phase:
    owner: Any
    number: float | Schedule


class Phased(torch.nn.Module):
    """Knows its phases; counts how often it is asked."""

    def __init__(self, steps: int = 10) -> None:
        super().__init__()
        self.steps, self.asked = steps, 0

    def at(self, step: int) -> Phase:
        self.asked += 1
        return Phase(self, Linear(0.0, 1.0, 4) if step < self.steps else 2.0)


def test_at_asks_what_has_phases_of_its_own() -> None:
    module = Phased()
    now = at(module, 2)
    assert now == Phase(module, 0.5)
    assert module.asked == 1, "the phase holds the module, which has been asked"
    assert at(module, 10) == at(module, 11) == Phase(module, 2.0)
    assert hash(at(module, 10)) == hash(at(module, 11))
    assert at(Outer(module, (module,)), 12) == Outer(Phase(module, 2.0), (Phase(module, 2.0),))
    assert at(Phased, 3) is Phased


@pytest.mark.parametrize(
    "text",
    ["constant:0.25", "linear:1:0:10000", "linear:0.1:0.3:7", "exponential:1:0.9999:0.01", "exponential:1:0.5:0",
     "inverse-sigmoid:1000000:1:0", "stepwise:2:1:2000"],
)  # fmt: skip
def test_a_schedule_is_written_as_it_is_read(text: str) -> None:
    assert schedules.written(parse(text)) == text
