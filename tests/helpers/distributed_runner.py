"""What two ranks do for `test_distributed.py`: torchrun starts this once and each rank goes through all of it.

Usage: distributed_runner.py FOLDER. Each rank writes what it saw to FOLDER/rank-N.json.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch
from distributed_cases import ADAM, CASES, WHOLE, searnn, train, uneven_task
from training_cases import Scripted, make_model

from searnn.algorithms import Mle
from searnn.training import AgreedError, Silent, World, checkpoints, evaluate, fit, joined
from searnn.training import loop as training_loop
from searnn.types import SearnnError

WRITING = ("os.mkdir", "os.rename", "os.remove", "os.rmdir", "os.truncate")


class Acting:
    """MLE that does something at one of its calls; what the action returns is added to the loss."""

    def __init__(self, call: int, action: Any) -> None:
        self.call, self.action, self.calls = call, action, 0

    def __call__(self, model: Any, batch: Any, generator: torch.Generator) -> Any:
        self.calls += 1
        update = Mle()(model, batch, generator)
        more = self.action() if self.calls == self.call else None
        return replace(update, loss=update.loss + (more or 0.0))


class Telling(Silent):
    """Counts the steps that it is told of."""

    steps = 0

    def on_step(self, step: int, loss: torch.Tensor, seconds: float) -> None:
        self.steps += 1


def watch_writes(folder: Path) -> list[str]:
    """The files under the folder that this process writes from now on."""
    found: list[str] = []

    def hook(event: str, arguments: Any) -> None:
        writes = event in WRITING
        if event == "open":
            writes = bool(arguments[2] & (os.O_WRONLY | os.O_RDWR | os.O_CREAT))
        if writes and isinstance(arguments[0], (str, os.PathLike)) and os.fspath(arguments[0]).startswith(str(folder)):
            found.append(f"{event} {os.fspath(arguments[0])}")

    sys.addaudithook(hook)
    return found


def mistake(work: Any) -> list[Any]:
    """What it refuses to do, and whether all ranks are said to know it."""
    try:
        work()
    except SearnnError as error:
        return [str(error), isinstance(error, AgreedError)]
    return []


def outcome(folder: Path, algorithm: Any, task: Any = None, **changes: Any) -> list[Any]:
    ended = fit(make_model(dropout=0.0), algorithm, task or uneven_task(), replace(WHOLE, **changes), folder)
    return [ended.stopped, ended.steps, ended.best_step, ended.best_metric]


def on_rank_1(world: World, action: Any) -> Any:
    return action if world.rank == 1 else lambda: None


def endings(folder: Path, world: World) -> dict[str, list[Any]]:
    """How runs end that one rank alone has a reason to end."""
    found = {}
    interrupt = on_rank_1(world, lambda: os.kill(os.getpid(), signal.SIGINT))
    found["interrupted"] = outcome(folder / "interrupted", Acting(5, interrupt), eval_every=50, steps=50)
    clock = {"now": 0.0}
    real = training_loop.time
    training_loop.time = SimpleNamespace(perf_counter=lambda: clock["now"], process_time=real.process_time)
    late = on_rank_1(world, lambda: clock.update(now=100.0))
    found["minutes"] = outcome(folder / "minutes", Acting(5, late), minutes=1.0, steps=50, eval_every=50)

    def passing(model: Any, batch: Any, generator: torch.Generator) -> Any:
        clock["now"] += 2.0 if world.first else 0.01
        return Mle()(model, batch, generator)

    clock["now"], timed = 0.0, {"minutes": 1.0, "steps": None, "eval_every": None, "schedule": "cosine"}
    found["by time"] = outcome(folder / "by time", passing, **timed)
    training_loop.time = real
    task = Scripted([5.0, 4.0, 4.0, 4.0])  # rank 0 alone asks it
    found["patience"] = outcome(folder / "patience", Mle(), task, patience=2, steps=50, eval_every=2)
    return found


def mistakes(folder: Path, world: World) -> dict[str, list[Any]]:
    """What goes wrong on one rank must be known to both."""
    found = {}
    bad = Acting(5, on_rank_1(world, lambda: float("nan")))
    found["not finite"] = mistake(lambda: outcome(folder / "bad", bad, eval_every=2))
    found["small batch"] = mistake(lambda: outcome(folder / "small", Mle(), batch_size=3, accumulate=2))
    other = uneven_task(seed=1 + world.rank)
    found["other data"] = mistake(lambda: outcome(folder / "other", Mle(), other))
    found["in use"] = mistake(lambda: outcome(folder / "patience", Mle()))
    real, saves = checkpoints.save, []

    def full(place: Path, tensors: Any, meta: Any) -> None:
        saves.append(place)
        if len(saves) > 2:
            raise SearnnError("cannot save the checkpoint: no space left")
        real(place, tensors, meta)

    checkpoints.save = full
    found["full disk"] = mistake(lambda: outcome(folder / "full", Mle()))
    checkpoints.save = real
    return found


def metrics(world: World) -> dict[str, dict[str, float]]:
    """Evaluations of shares that are not even, in batches of which the last is smaller than there are ranks."""
    task, model = uneven_task(), make_model(dropout=0.0)
    return {str(beam): evaluate(model, task.valid(4), task, beam=beam, world=world) for beam in (1, 3)}


def main() -> None:
    torch.set_num_threads(1)
    folder = Path(sys.argv[1])
    report: dict[str, Any] = {}
    with joined() as world:
        report["world"] = [world.rank, world.size, world.local_rank, world.local_size]
        written = watch_writes(folder)
        for name in CASES:
            train(name, folder / "two" / name)
        train("mixed, cells", folder / "accumulated", accumulate=2)
        train("mixed", folder / "from one", steps=6, resume=True)
        train("mixed", folder / "from two")
        train("mle", folder / "dropout", dropout=0.5)
        watch = Telling()
        fit(make_model(), searnn(), uneven_task(), replace(ADAM, steps=2), folder / "watched", watch=watch)
        report["told"] = watch.steps
        report["metrics"] = metrics(world)
        report["endings"] = endings(folder, world)
        report["mistakes"] = mistakes(folder, world)
        report["written"] = list(written)
        (folder / f"rank-{world.rank}.json").write_text(json.dumps(report))


if __name__ == "__main__":
    main()
