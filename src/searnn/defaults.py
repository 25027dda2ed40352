"""Defaults that depend on other settings, as data: a value, or one of a few conditions that are named here.

A recipe is a mapping from settings to such defaults. `decide` takes the value out of one, given the other settings.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

Values = Mapping[str, Any]
Recipe = Mapping[str, Any]


@dataclass(frozen=True)
class When:
    """One default where the settings are those that are named, each one of several, and another elsewhere."""

    then: Any
    otherwise: Any
    settings: Mapping[str, tuple[Any, ...]]

    def __call__(self, values: Values) -> Any:
        holds = all(values[name] in wanted for name, wanted in self.settings.items())
        return decide(self.then if holds else self.otherwise, values)


@dataclass(frozen=True)
class Times:
    """A multiple of another setting."""

    name: str
    factor: int = 1

    def __call__(self, values: Values) -> Any:
        return self.factor * values[self.name]


@dataclass(frozen=True)
class ShareOfSteps:
    """A share of all updates, written into `text`; where time ends the training, of the number that stands here.

    In a short time there are fewer: ten a second are expected.
    """

    share: float
    text: str
    least: int
    untimed: int

    def __call__(self, values: Values) -> int | str:
        steps, minutes = values["steps"], values["minutes"]
        if steps == "none":
            steps = self.untimed if minutes == "none" else min(self.untimed, 600 * minutes)
        count = max(self.least, int(self.share * steps))
        return self.text.format(count) if self.text else count


@dataclass(frozen=True)
class Found:
    """What a function of no arguments finds when it is asked."""

    function: Callable[[], Any]

    def __call__(self, values: Values) -> Any:
        return self.function()


def when(then: Any, otherwise: Any, **settings: Any) -> When:
    """`then` where every setting has the given value, or one of a tuple of them; else `otherwise`."""
    wanted = {name: value if isinstance(value, tuple) else (value,) for name, value in settings.items()}
    return When(then, otherwise, wanted)


def share_of_steps(share: float, text: str = "", *, least: int = 2, untimed: int = 20_000) -> ShareOfSteps:
    """What grows or falls while training does so over a share of its updates."""
    return ShareOfSteps(share, text, least, untimed)


def unless_timed(steps: Any) -> When:
    """So many updates, where time does not end the training."""
    return when(steps, "none", minutes="none")


def unless_by_time(steps: Any) -> When:
    """So many updates, where time is not what alone ends the training."""
    return when(unless_timed(steps), steps, steps="none")


def decide(default: Any, values: Values) -> Any:
    """The value of a default, given the other settings."""
    return default(values) if callable(default) else default


# Some learn nothing, or slowly, from random weights: a quarter of the updates is by maximum likelihood first.
NEEDS_WARM_UP: Recipe = {"warm_up": when(share_of_steps(1 / 4, least=0, untimed=8_000), 0, init_from=None)}
# The cost that counts edits: those of outputs whose length is known are substitutions.
COUNTED_EDITS = when("hamming", "edit", name=("ocr", "chunking"))
