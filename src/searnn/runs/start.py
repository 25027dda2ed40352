"""How a run is started, the same from the command line and from Python: from complete settings to a trained model."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import torch
from rich.console import Console
from rich.markup import escape
from torch import nn

from searnn.config import Built, Config, build, files, recipes, trust
from searnn.config.registry import flag
from searnn.interfaces import KeepsVocabulary, Loads, Task
from searnn.reports.notebook import NotebookLine, in_notebook
from searnn.reports.page import at_end
from searnn.reports.progress import ProgressLine, telling
from searnn.runs.folders import SETTINGS, TEXT, opened, settings_of
from searnn.tasks.common.splits import SplitTask
from searnn.training import Outcome, Plan, Watcher, World, checkpoints, find_device, fit, joined
from searnn.types import SearnnError


@dataclass(frozen=True)
class Trained:
    """A training that has ended: what was built for it, its folder, how it ended, and how one tells of it."""

    built: Built
    folder: Path
    outcome: Outcome
    say: Callable[[str], None]

    @property
    def interrupted(self) -> bool:
        """Whether Ctrl-C ended it, or the system did."""
        return self.outcome.stopped == "interrupted"


def start(
    config: Config,
    folder: Path | None = None,
    *,
    resume: bool = False,
    keep: Callable[[Config, Path], Config] | None = None,
    show: bool = True,
    tell: Callable[[Trained], None] | None = None,
) -> Trained:
    """Train by complete settings in a folder of its own, or go on with the run there, and write the report.

    `keep` puts into a new folder what else belongs there, and gives the settings that name it. `tell` is called when
    the training has ended, before the report is made. Under torchrun every process calls this; rank 0 writes and tells.
    """
    with joined() as world:
        with world.together():  # before anything is read or written
            if isinstance(config.run.threads, int):
                torch.set_num_threads(config.run.threads)
            find_device(config.run.device or "auto", world)
        notebook = show and in_notebook()
        console = Console(stderr=True, quiet=notebook or not show or not world.first)
        say = print if notebook else partial(console.print, highlight=False, markup=False, soft_wrap=True)
        with opened(folder, config, world, resume=resume) as place:
            fresh = not checkpoints.exists(place / "last")  # also where a run was killed before its first save
            if not resume:
                config = world.by_first(lambda: _write(config if keep is None else keep(config, place), place))
            built = _built(config, place, fresh, world, console)
            for note in built.task.notes if isinstance(built.task, Loads) and world.first else ():
                say(note)

            def begin() -> None:
                if resume:  # changed settings are written once nothing can be refused any more
                    files.write(config, place / SETTINGS)
                for line in (f"run {place}", *(beginning(config) if fresh else ()), *idle_critic(config)):
                    say(line)

            watch = Announced(NotebookLine() if notebook else ProgressLine(console), begin)
            with telling(console):
                outcome = fit(
                    built.model, built.algorithm, built.task, built.settings, place,
                    cost=built.cost, resume=resume, is_held=True, watch=watch,
                )  # fmt: skip
        trained = Trained(built, place, outcome, say)
        if world.first:
            if tell is not None:
                tell(trained)
            if not trained.interrupted:
                at_end(place, built.task, built.model, say)
        return trained


def _write(config: Config, place: Path) -> Config:
    files.write(config, place / SETTINGS)
    return config


def _built(config: Config, place: Path, fresh: bool, world: World, console: Console) -> Built:
    """Everything that the settings name, the data read to their end, the first weights there."""
    with world.together(), world.in_turn(), console.status("reading the data") as status:
        built = build(config, None if fresh else place / TEXT, lambda line: status.update(escape(line)))
        if isinstance(built.task, Loads):
            built.task.load()
        built = _with_full_batches(built, config)
    if fresh and config.optimisation.init_from is not None:
        with world.together():
            begin_from(config.optimisation.init_from, config, built.task, built.model)
    return built


def _with_full_batches(built: Built, config: Config) -> Built:
    """A batch by default is no larger than the training data; one of the user's own is refused later."""
    task, size = built.task, built.settings.batch_size
    usual = recipes.default("batch_size", config.flat())
    if not isinstance(task, SplitTask) or size != usual or size <= (count := len(task.examples("train"))):
        return built
    task.notes.append(f"a batch has {count} examples in place of {size}: the training data has no more")
    return replace(built, settings=replace(built.settings, batch_size=count))


class Announced:
    """Does something when training begins, and passes on all that a watcher is told."""

    def __init__(self, watch: Watcher, begin: Callable[[], None]) -> None:
        self.watch, self.begin = watch, begin
        self.on_step, self.on_evaluation, self.stop = watch.on_step, watch.on_evaluation, watch.stop

    def start(self, plan: Plan) -> None:
        """Training begins."""
        self.begin()
        self.watch.start(plan)


def beginning(config: Config) -> list[str]:
    """What is said of how training begins, where it is not with the algorithm and random weights."""
    start, told = config.optimisation, []
    if start.init_from is not None:
        told.append(f"begins with the best model of {start.init_from}")
    if start.warm_up:
        first = f"the first {start.warm_up} updates are by maximum likelihood"
        told.append(f"warm-up: {first}, those after them by {config.method.algorithm}")
    return told


def idle_critic(config: Config) -> list[str]:
    """A warning where the critic alone learns to the end, and the model nothing from it."""
    critic, steps, first = config.method.critic_steps, config.optimisation.steps, config.optimisation.warm_up or 0
    if critic is None or not isinstance(steps, int) or critic < steps - first:
        return []
    told = f"warning: --critic-steps {critic} lasts to the end of the {steps} updates, {first} of them a warm-up"
    return [f"{told}: the model learns nothing from the critic; give fewer, or train longer"]


def begin_from(run: str | Path, config: Config, task: Task, model: nn.Module) -> None:
    """Fill the model with the weights of a run's best; refused where its model or its vocabulary is another."""
    folder = Path(run)
    known = settings_of(folder, trust.names(config.flat()), trust.MODEL, refuse=False)
    if not (folder / "best").is_dir():
        raise SearnnError(f"--init-from {folder}: it has no best model yet; train it first")
    ours, theirs = ({**one.model.model_dump(), "dropout": None} for one in (config, known))
    for name, value in theirs.items():
        if value != ours[name]:
            told = f"{flag(name)} is {value} there and {ours[name]} here"
            raise SearnnError(f"--init-from {folder}: {told}; give the same settings of the model")
    identity = task.identity if isinstance(task, KeepsVocabulary) else None
    tensors, meta = checkpoints.load(folder / "best")
    another = identity is None and known.task.name != config.task.name  # without a vocabulary learned from data
    if another or meta.get("identity") != identity:
        told = f"its vocabulary, of the task {known.task.name}, is not that of this training"
        raise SearnnError(f"--init-from {folder}: {told}; begin from a run on the same data")
    doubled = known.run.precision == "64-true"
    checkpoints.restore(model.double() if doubled else model, tensors, folder / "best", "model.")
    if doubled:
        model.float()  # as all begin
