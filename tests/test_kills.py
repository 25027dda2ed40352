"""A run that is killed at any change of the disk goes on, by `--resume` or the same command, to its unbroken end.

What a kill leaves is laid out from the changes that an unbroken run made, all of which the writer knows of, which is
checked. The slow tests kill processes.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from disk_events import SAVED, WRITES, Change, Disk, after_cuts, after_kills, hooked, killed_at, laid_out, recorded
from tiny import pairs_flags
from training_cases import ADAM, lines, make_model, make_task, same, weights

from searnn import files
from searnn.algorithms import Mle
from searnn.cli import main
from searnn.runs.folders import is_taken
from searnn.training import checkpoints, fit

# Newer Pythons warn of forking beside threads; the children here only train and end by os._exit.
pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")

SETTINGS = replace(ADAM, steps=3, eval_every=2, keep_every=2, schedule="plateau", plateau_patience=0)


def said(folder: Path) -> dict[str, Any]:
    """What a checkpoint says besides tensors, but for times."""
    found = checkpoints.load(folder)[1]
    for part in (found.get("counters", {}), found.get("record", {})):
        for name in [name for name in part if "second" in name]:
            del part[name]
    return found


def files_of(run: Path) -> set[Path]:
    return {path.relative_to(run) for path in run.rglob("*") if path.is_file()}


def assert_same_run(run: Path, whole: Path, where: object) -> None:
    """The same files, of which none is half, with the same in them but for times."""
    assert files_of(run) == files_of(whole), where
    for path in files_of(run):
        if path.name == "state.json":
            assert same(weights((run / path).parent), weights((whole / path).parent)), (where, path)
            assert said((run / path).parent) == said((whole / path).parent), (where, path)
        elif path.suffix not in (".jsonl", ".html"):
            assert (run / path).read_bytes() == (whole / path).read_bytes(), (where, path)
    assert lines(run) == lines(whole), where


@dataclass
class Case:
    """A run as it is started, and as one goes on with it."""

    start: Callable[[Path], object]
    go_on: Callable[[Path], object]

    def changes(self, whole: Path) -> list[Change]:
        """Those of an unbroken run, which are all that happens to its folder."""
        whole.parent.mkdir()
        changes = recorded(lambda: self.start(whole))
        disk = Disk(whole.parent)
        for change in changes:
            disk.do(*change)
        real = {
            str(path.relative_to(whole.parent)): path.read_bytes() for path in whole.parent.rglob("*") if path.is_file()
        }
        assert {name: data for name, data in disk.contents().items() if not name.endswith("/")} == real
        return changes

    def goes_on(self, left: dict[str, bytes], whole: Path, where: str) -> None:
        """What is left goes on and becomes the whole run."""
        run = whole.parents[1] / "left" / "run"
        laid_out(left, run.parent)
        with hooked(lambda change, path, more=None: None):
            self.go_on(run)
        assert_same_run(run, whole, where)
        shutil.rmtree(run.parent)


def train(folder: Path, resume: bool = False) -> None:
    fit(make_model(), Mle(), make_task(), SETTINGS, folder, resume=resume)


FIT = Case(train, lambda run: train(run, resume=run.exists()))


def by_command(folder: Path) -> Case:
    """Pairs, whose vocabulary is kept with the run, from the first folder to the report."""

    def flags(run: Path) -> list[str]:
        return [*pairs_flags(folder, run), "--algorithm", "mle", "--keep-every", "2"]

    def start(run: Path) -> None:
        assert main(flags(run)) == 0

    def go_on(run: Path) -> None:
        again = ["train", "pairs", "--run", str(run), "--resume"]
        assert main(again if is_taken(run) else flags(run)) == 0

    return Case(start, go_on)


def test_a_training_goes_on_wherever_it_is_killed(tmp_path: Path) -> None:
    whole = tmp_path / "whole" / "run"
    found = list(after_kills(whole.parent, FIT.changes(whole)))
    assert len(found) > 40
    for where, left in found:
        FIT.goes_on(left, whole, where)


@pytest.mark.parametrize("every", [10, pytest.param(1, marks=pytest.mark.slow)])
def test_a_run_goes_on_wherever_it_is_killed(tmp_path: Path, every: int) -> None:
    case, whole = by_command(tmp_path), tmp_path / "whole" / "run"
    found = list(after_kills(whole.parent, case.changes(whole)))
    assert len(found) > 60
    for where, left in found[::every]:
        case.goes_on(left, whole, where)
    print(f"{len(found[::every])} of {len(found)} kills: all went on, none differs")


@pytest.mark.slow
def test_a_process_is_killed_at_every_change(tmp_path: Path) -> None:
    """The same with processes that are killed."""
    case, whole = by_command(tmp_path), tmp_path / "whole" / "run"
    changes, kills = case.changes(whole), 0
    for number, change in enumerate(changes):
        for half in (False, True) if change[0] in WRITES else (False,):
            run = tmp_path / "killed" / "run"
            run.parent.mkdir()
            assert killed_at(number, partial(case.start, run), half)
            case.go_on(run)
            assert_same_run(run, whole, (number, change[:2], half))
            shutil.rmtree(run.parent)
            kills += 1
    print(f"{kills} kills at {len(changes)} changes: all went on, none differs")


def step_in(meta: dict[str, Any]) -> int:
    """That of a checkpoint: the last, a best or a kept one."""
    return int((meta.get("counters") or meta.get("record") or meta)["step"])


@pytest.fixture
def saves_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """The changes say, too, when a save has returned, and of which step."""
    save = checkpoints.save

    def told(folder: Path, tensors: Any, meta: dict[str, Any]) -> None:
        save(folder, tensors, meta)
        files.about_to(SAVED, folder, str(step_in(meta)).encode())

    monkeypatch.setattr(checkpoints, "save", told)


def check_cuts(case: Case, folder: Path, reached: Sequence[float]) -> int:
    """After a power cut anywhere what was saved is there, and the run goes on; how many were tried."""
    whole = folder / "whole" / "run"
    changes, tried = case.changes(whole), 0
    for number, where, left in after_cuts(whole.parent, changes, reached):
        for place, step in {place: step for change, place, step in changes[:number] if change == SAVED}.items():
            state = json.loads(left[f"{place.relative_to(whole.parent)}/state.json"])
            assert step_in(state["state"]) >= int(step), (where, place)
        case.goes_on(left, whole, where)
        tried += 1
    return tried


@pytest.mark.usefixtures("saves_told")
def test_a_training_goes_on_after_a_power_cut(tmp_path: Path) -> None:
    assert check_cuts(FIT, tmp_path, (0.0, 1.0, 1.0)) > 50


@pytest.mark.slow
@pytest.mark.usefixtures("saves_told")
def test_a_run_goes_on_after_a_power_cut(tmp_path: Path) -> None:
    tried = check_cuts(by_command(tmp_path), tmp_path, (0.0, 0.3, 0.5, 0.7, 1.0))
    print(f"{tried} power cuts: all went on, none differs, nothing saved was lost")
