"""`searnn train TASK --seeds N`: the same training with several seeds, side by side, and one table of them."""

from __future__ import annotations

import argparse
import shlex
from pathlib import Path

from searnn.cli.compare import tell
from searnn.config import Config
from searnn.jobs.planning import Entry, checked, finished, make_jobs
from searnn.jobs.running import run_jobs, wide_console
from searnn.runs.folders import make_folder
from searnn.runs.opening import SETTINGS
from searnn.types import SearnnError


def train(arguments: argparse.Namespace, config: Config, folder: Path | None) -> int:
    """Train once for every seed from the settings' own on; the runs are folders inside `folder`."""
    if folder is not None and (folder / SETTINGS).is_file():
        raise SearnnError(f"{folder} holds a single run: give another folder with --run")
    console = wide_console()
    entries = [Entry(str(config.method.algorithm), config)]
    task = checked(entries, console)
    out = make_folder(folder, config)
    first = config.run.seed or 0
    jobs = make_jobs(entries, range(first, first + arguments.seeds), out, given_by="--run")
    again = f"give the same command with --run {shlex.quote(str(out))} to go on"
    standing = run_jobs(console, jobs, arguments.jobs, out, again=again)
    if standing.interrupted:
        return 130
    tell(console, finished(jobs, task.metric), entries, arguments, task, out, standing.reasons())
    return 1 if standing.failed else 0
