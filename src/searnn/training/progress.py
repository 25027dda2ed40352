"""How training tells what it does: whoever wants to show it implements `Watcher`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from jaxtyping import Float
from torch import Tensor

Record = dict[str, Any]  # one line of `metrics.jsonl`: numbers, None where one is not finite, and a metric's signature


@dataclass(frozen=True)
class Plan:
    """Where training starts and how far it goes."""

    step: int  # steps already made, above 0 after a resume
    steps: int | None
    minutes: float | None
    seconds: float  # already spent
    metric: str


@runtime_checkable
class Watcher(Protocol):
    """Is told what happens in training; it must not change anything."""

    def start(self, plan: Plan) -> None:
        """Training begins."""
        ...

    def on_step(self, step: int, loss: Float[Tensor, ""], seconds: float) -> None:
        """So many steps are made; reading the loss waits for the device, so read it now and then only."""
        ...

    def on_evaluation(self, record: Record, best_metric: float | None, best_step: int) -> None:
        """A line was added to the records."""
        ...

    def stop(self) -> None:
        """Training has ended or failed."""
        ...


class Silent:
    """Watches and says nothing."""

    def start(self, plan: Plan) -> None: ...

    def on_step(self, step: int, loss: Float[Tensor, ""], seconds: float) -> None: ...

    def on_evaluation(self, record: Record, best_metric: float | None, best_step: int) -> None: ...

    def stop(self) -> None: ...
