"""`searnn train TASK`: train a model with the flags, a file of settings, or the task's recipe."""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from searnn.cli.parsers import add_tasks, add_trust
from searnn.config import Config, files, flags, from_flags, merge, resolve, trust
from searnn.config.parser import count
from searnn.config.registry import flag
from searnn.config.resolving import given_settings
from searnn.jobs.comparison import compare
from searnn.jobs.methods import Method
from searnn.runs.folders import is_taken, resumed, settings_of
from searnn.runs.start import Trained, start
from searnn.training import AgreedError, World, joined
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
    for name, one in add_tasks(parser, "train", "[settings]", NOTES, run):
        box = one.add_argument_group("files")
        box.add_argument("--run", metavar="FOLDER", type=Path, help=f"folder of the run [runs/{name}-ALGORITHM-N]")
        box.add_argument("--resume", action="store_true", help="go on with the run in that folder")
        box.add_argument(
            "--config", metavar="FILE", type=Path, help="a TOML or YAML file of settings; flags override it"
        )
        add_trust(box, "import the code that the run of --resume names, or the config.toml of --config")
        told = "train with so many seeds, from --seed on, side by side [1]"
        box.add_argument("--seeds", metavar="N", type=count, default=1, help=told)
        box.add_argument("--jobs", metavar="N", type=count, help="of these so many at a time [the CPU's cores]")


def run(arguments: argparse.Namespace) -> int:
    """Train, alone or as one of the processes that torchrun has started, and say what came out."""
    with joined() as world:
        try:
            with world.together():
                config = _settings(arguments, world)
            if arguments.seeds > 1:
                return _several(arguments, config)
            trained = start(config, arguments.run, resume=arguments.resume, tell=_tell)
            return 130 if trained.interrupted else 0
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


def _settings(arguments: argparse.Namespace, world: World) -> Config:
    """The complete settings; what does not go together is refused before any work is done."""
    if arguments.seeds > 1 and arguments.resume:
        raise SearnnError("--seeds goes on with what is not finished by itself: leave out --resume")
    flagged = {**flags.given(arguments), "name": arguments.task}
    trusted = _trusted(arguments, flagged)
    saved = settings_of(arguments.run, trusted).flat() if arguments.resume and arguments.run is not None else {}
    in_file = trust.given_file(arguments.config, trusted, {**saved, **flagged}) if arguments.config else Config()
    given = from_flags(flagged, beside={**saved, **given_settings(in_file)})
    if in_file.task.name not in (None, arguments.task):
        raise SearnnError(f"{arguments.config} is for the task {in_file.task.name}, the command says {arguments.task}")
    if arguments.resume and arguments.run is None:
        raise SearnnError("--resume needs the folder of the run: give it with --run")
    if arguments.seeds == 1 and not arguments.resume and arguments.run is not None and is_taken(arguments.run):
        raise SearnnError(f"{arguments.run} exists already: give another folder with --run, or go on with --resume")
    by_flag = given_settings(given)

    def say(name: str) -> str:
        """A setting by its flag, or by its key in the file it came from."""
        return flag(name) if name in by_flag or not arguments.config else f"{arguments.config}: {files.key(name)}"

    chosen = merge(in_file, given)
    config = resumed(arguments.run, chosen, trusted) if arguments.resume else resolve(chosen, say=say)
    if arguments.jobs is not None and arguments.seeds == 1:
        raise SearnnError("--jobs says how many seeds are trained at a time: give --seeds")
    if arguments.seeds > 1 and world.size > 1:
        raise SearnnError("--seeds trains processes of its own: start it without torchrun")
    return config


def _trusted(arguments: argparse.Namespace, flagged: Mapping[str, Any]) -> trust.Trusted:
    """Which code a run's folder may name: all of it, or that which the flags or a file of the user's own name too."""
    path: Path | None = arguments.config
    of_run = path is not None and trust.is_of_run(path)
    if arguments.trust_code and not (arguments.resume or of_run):
        belongs = f"it belongs to --resume, or to --config with the {files.SETTINGS} of a run"
        raise SearnnError(f"--trust-code does not apply here: {belongs}")
    if path is None or of_run:
        return arguments.trust_code or trust.names(flagged)
    return arguments.trust_code or trust.names(flagged) | trust.names(files.read(path, may=files.no_part).flat())


def _several(arguments: argparse.Namespace, config: Config) -> int:
    """Train once for every seed from the settings' own on; the runs are folders inside that which was given."""
    first, command = config.run.seed or 0, shlex.join(["searnn", *arguments.words])
    methods, seeds = [Method(str(config.method.algorithm), config)], range(first, first + arguments.seeds)
    return compare(methods, seeds, arguments.run, command, at_once=arguments.jobs, given_by="--run")


def _tell(trained: Trained) -> None:
    """What came of the training."""
    outcome, folder = trained.outcome, trained.folder
    if trained.interrupted:
        trained.say(f"interrupted after {outcome.steps} steps; go on with --run {folder} --resume")
        return
    metric, value = trained.built.task.metric, outcome.best_metric
    if value is None:
        print(f"best: no model, after {outcome.steps} steps")
    else:
        print(f"best: validation {metric} {value:.4g} at step {outcome.best_step} of {outcome.steps}")
    if 0 < outcome.steps <= trained.built.settings.warm_up:
        told = f"all {outcome.steps} updates were the warm-up by maximum likelihood"
        trained.say(f"warning: {told}; give fewer with --warm-up, or train longer")
    print(f"time: {outcome.seconds:.0f} s, {1000 * outcome.seconds_per_step:.1f} ms per step")
    print(f"run:  {folder} (searnn eval {folder})")
