"""`searnn train TASK`: train a model with the flags, a file of settings, or the task's recipe."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.markup import escape

from searnn.config import Built, Config, build, files, flags, from_flags, merge, resolve
from searnn.config.parser import count
from searnn.config.registry import AXES, flag
from searnn.config.resolving import given_settings
from searnn.data.store import Progress
from searnn.jobs import seeds
from searnn.jobs.memory import shortage
from searnn.reports.logs import telling
from searnn.reports.page import at_end
from searnn.reports.progress import ProgressLine
from searnn.runs.folders import is_taken, make_folder, remove_folder
from searnn.runs.opening import SETTINGS, TEXT, begin_from, is_fixed, settings_of
from searnn.training import AgreedError, Plan, World, find_device, fit, joined
from searnn.types import SearnnError

BRACKETS = "In brackets stand the defaults, beside the options that come before --help."
NOTES = (
    f"{BRACKETS} An option that does not apply to the others is refused. --tokens joins samplers as in "
    "top:15+neighbours:10. A probability may be a schedule such as linear:1:0:10000. Model, algorithm, policies, "
    "oracle, cost, samplers, loss and metric may be your own: package.module:Name."
)


def add(commands: Any) -> None:
    """Add the command's parser: one for each task, since the defaults are the task's."""
    parser = commands.add_parser("train", help="train a model", description="Train a model on a task.")
    tasks = parser.add_subparsers(title="tasks", metavar="TASK", required=True)
    for name, task in AXES["task"].items():
        about = (task.__doc__ or "").split(";")[0].split("\n")[0].rstrip(".")
        usage = f"searnn train {name} [settings]"
        one = tasks.add_parser(name, help=about, usage=usage, description=f"{about}.", epilog=NOTES)
        run_box = one.add_argument_group("files")
        run_box.add_argument("--run", metavar="FOLDER", type=Path, help=f"folder of the run [runs/{name}-ALGORITHM-N]")
        run_box.add_argument("--resume", action="store_true", help="go on with the run in that folder")
        told = "a TOML or YAML file of settings; flags override it"
        run_box.add_argument("--config", metavar="FILE", type=Path, help=told)
        told = "train with so many seeds, from --seed on, side by side [1]"
        run_box.add_argument("--seeds", metavar="N", type=count, default=1, help=told)
        run_box.add_argument("--jobs", metavar="N", type=count, help="of these so many at a time [the CPU's cores]")
        one.fill = partial(flags.add_settings, one, name)
        one.set_defaults(command=run, parser=one, task=name)


def run(arguments: argparse.Namespace) -> int:
    """Train, alone or as one of the processes that torchrun has started, and say what came out."""
    with joined() as world:
        try:
            return _run(arguments, world)
        except SearnnError as error:
            if world.size == 1:
                raise
            return _complain(error, world)


def _complain(error: SearnnError, world: World) -> int:
    """Say what is wrong, once where all know it; nobody leaves before, since torchrun would then end the others."""
    agreed = isinstance(error, AgreedError)
    if world.first or not agreed:
        who = "" if agreed else f"rank {world.rank} of {world.size}: "
        print(f"searnn: error: {who}{' '.join(str(error).split())}", file=sys.stderr, flush=True)
    if not agreed:
        raise SystemExit(2)  # at once: the others may wait elsewhere, and learn of it when this process is gone
    world.gather(None)
    return 2


def _run(arguments: argparse.Namespace, world: World) -> int:
    with world.together():
        config, folder = _settings(arguments)
        _check_seeds(arguments, world)
    if arguments.seeds > 1:
        return seeds.train(arguments, config, folder)
    with world.together():
        if isinstance(config.run.threads, int):
            torch.set_num_threads(config.run.threads)
        find_device(config.run.device or "auto", world)  # before anything is read or written
    with world.together(), world.in_turn():
        text = folder / TEXT if arguments.resume and folder is not None else None
        built = read_data(lambda progress: build(config, text, progress), quiet=not world.first)
    if arguments.resume and folder is not None:
        return _train(built, folder, world, resume=config)
    if config.optimisation.init_from is not None:
        with world.together():
            begin_from(config.optimisation.init_from, config, built.task, built.model)
    with _claimed(folder, config, world) as place:
        return _train(built, place, world, began=beginning(config))


def _settings(arguments: argparse.Namespace) -> tuple[Config, Path | None]:
    """The complete settings, and the folder that was given for the run."""
    flagged = {**flags.given(arguments), "name": arguments.task}
    saved = settings_of(arguments.run).flat() if arguments.resume and arguments.run is not None else {}
    in_file = files.read(arguments.config, beside={**saved, **flagged}) if arguments.config else Config()
    given = from_flags(flagged, beside={**saved, **given_settings(in_file)})
    if in_file.task.name not in (None, arguments.task):
        raise SearnnError(f"{arguments.config} is for the task {in_file.task.name}, the command says {arguments.task}")
    if arguments.resume and arguments.seeds > 1:
        raise SearnnError("--seeds goes on with what is not finished by itself: leave out --resume")
    if arguments.resume:
        return _resumed(arguments.run, merge(in_file, given))
    if arguments.seeds == 1:
        _check_free(arguments.run)
    return resolve(merge(in_file, given), say=_sayer(given, arguments.config)), arguments.run


def read_data(make: Callable[[Progress], Built], quiet: bool = False) -> Built:
    """Build all, with the data read to its end; says what is being read, and what was left out."""
    console = Console(stderr=True, quiet=quiet)
    with console.status("reading the data") as status:
        built = make(lambda line: status.update(escape(line)))
        if (load := getattr(built.task, "load", None)) is not None:
            load()
    for note in getattr(built.task, "notes", ()):
        console.print(note, highlight=False, markup=False, soft_wrap=True)
    return built


class Announced(ProgressLine):
    """The progress line under the run's name; changed settings are written once nothing can be refused any more."""

    def __init__(self, console: Console, folder: Path, changed: Config | None, began: list[str]) -> None:
        super().__init__(console)
        self.folder, self.changed, self.began = folder, changed, began

    def start(self, plan: Plan) -> None:
        """Training begins."""
        if self.changed is not None:
            files.write(self.changed, self.folder / SETTINGS)
        for line in (f"run {self.folder}", *self.began):
            self.console.print(line, highlight=False, markup=False, soft_wrap=True)
        super().start(plan)


def beginning(config: Config) -> list[str]:
    """What is said of how training begins, where it is not with the algorithm and random weights."""
    start, told = config.optimisation, []
    if start.init_from is not None:
        told.append(f"begins with the best model of {start.init_from}")
    if start.warm_up:
        first = f"the first {start.warm_up} updates are by maximum likelihood"
        told.append(f"warm-up: {first}, those after them by {config.method.algorithm}")
    return told


def _train(built: Built, folder: Path, world: World, resume: Config | None = None, began: Sequence[str] = ()) -> int:
    console = Console(stderr=True, quiet=not world.first)
    with telling(console):
        outcome = fit(
            built.model, built.algorithm, built.task, built.settings, folder,
            cost=built.cost, resume=resume is not None, watch=Announced(console, folder, resume, list(began)),
        )  # fmt: skip
    if outcome.stopped == "interrupted":
        console.print(f"interrupted after {outcome.steps} steps; go on with --run {folder} --resume", soft_wrap=True)
        return 130
    if not world.first:
        return 0
    best = "nothing" if outcome.best_metric is None else f"{built.task.metric} {outcome.best_metric:.4g}"
    print(f"best: validation {best} at step {outcome.best_step} of {outcome.steps}")
    if 0 < outcome.steps <= built.settings.warm_up:
        told = f"all {outcome.steps} updates were the warm-up by maximum likelihood"
        console.print(f"warning: {told}; give fewer with --warm-up, or train longer", highlight=False, soft_wrap=True)
    print(f"time: {outcome.seconds:.0f} s, {1000 * outcome.seconds_per_step:.1f} ms per step")
    print(f"run:  {folder} (searnn eval {folder})")
    say = partial(console.print, highlight=False, markup=False, soft_wrap=True)
    at_end(folder, built.task, built.model, say)
    return 0


def _check_seeds(arguments: argparse.Namespace, world: World) -> None:
    """Refuse what several seeds cannot have: they are runs of their own."""
    if arguments.jobs is not None and arguments.seeds == 1:
        raise SearnnError("--jobs says how many seeds are trained at a time: give --seeds")
    if arguments.seeds > 1 and world.size > 1:
        raise SearnnError("--seeds trains processes of its own: start it without torchrun")


def _check_free(folder: Path | None) -> None:
    """Refuse a folder that holds something, before any work is done."""
    if folder is not None and is_taken(folder):
        raise SearnnError(f"{folder} exists already: give another folder with --run, or go on with --resume")


def _sayer(given: Config, path: Path | None) -> Any:
    """How a setting is named in a message: by its flag, or by its key in the file it came from."""
    by_flag = given_settings(given)
    return lambda name: flag(name) if name in by_flag or path is None else f"{path}: {files.key(name)}"


def _resumed(folder: Path | None, given: Config) -> tuple[Config, Path]:
    """The settings of the run, with those that may change as they are given now."""
    if folder is None:
        raise SearnnError("--resume needs the folder of the run: give it with --run")
    saved = settings_of(folder)
    before = saved.flat()
    for name, value in given_settings(given).items():
        if before[name] != value and is_fixed(name, before):
            was = "unset" if before[name] is None else before[name]
            why = f", which --schedule {before['schedule']} runs over" if name == "steps" else ""
            change = f"it was {was}, now it is {value}"
            raise SearnnError(f"{folder} cannot be resumed with another {flag(name)}{why}: {change}")
    return resolve(merge(saved, given)), folder


@contextmanager
def _claimed(folder: Path | None, config: Config, world: World) -> Iterator[Path]:
    """The run's folder with its settings written; it is taken away where training fails before its first checkpoint.

    The same where memory runs out before the first evaluation: it cannot be resumed with what would need less.
    """
    existed = folder is not None and folder.is_dir()
    place = world.by_first(lambda: make_folder(folder, config))
    try:
        world.by_first(lambda: files.write(config, place / SETTINGS))
        yield place
    except BaseException as error:
        needed = "best" if shortage(error) else "last"
        if world.first and not any((place / needed).glob("*.json")):
            remove_folder(place, keep=existed)
        raise
