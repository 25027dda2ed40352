"""A run that is killed at any change of the disk goes on, by `--resume` or the same command, to its unbroken end.

What a kill leaves is laid out from the changes that an unbroken run made, all of which the writer knows of, which is
checked. The slow tests kill processes.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from disk_events import SAVED, WRITES, Change, Disk, after_cuts, after_kills, hooked, killed_at, laid_out, recorded
from tiny import contents, pairs_flags
from training_cases import ADAM, lines, make_model, make_task, same, weights

import searnn
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


class Case:
    """A run as it is started in a folder, as one goes on with it there, and as it is unbroken."""

    def __init__(self, folder: Path, start: Callable[[Path], object], go_on: Callable[[Path], object]) -> None:
        self.start, self.go_on = start, go_on
        self.disk, self.whole = folder / "disk", folder / "whole" / "run"
        self.run = self.disk / "run"
        self.changes = self.changes_of(start)
        self.disk.rename(self.whole.parent)

    def changes_of(self, start: Callable[[Path], object]) -> list[Change]:
        """The changes of the disk that a start makes, which are all that happens to it."""
        self.disk.mkdir()
        changes = recorded(lambda: start(self.run))
        disk = Disk(self.disk)
        for change in changes:
            disk.do(*change)
        assert {name: data for name, data in disk.contents().items() if not name.endswith("/")} == contents(self.disk)
        return changes

    def goes_on(self, left: dict[str, bytes], where: str) -> None:
        """What is left goes on and becomes the whole run."""
        laid_out(left, self.disk)
        with hooked(lambda change, path, more=None: None):
            self.go_on(self.run)
        assert_same_run(self.run, self.whole, where)
        shutil.rmtree(self.disk)


def training(folder: Path) -> Case:
    """By `fit`."""

    def train(run: Path, resume: bool = False) -> None:
        fit(make_model(), Mle(), make_task(), SETTINGS, run, resume=resume)

    return Case(folder, train, lambda run: train(run, resume=run.exists()))


def go_on_with_pairs(run: Path, again: Callable[[Path], object]) -> None:
    """By `--resume`, or `again` by what was to start it."""
    if is_taken(run):
        assert main(["train", "pairs", "--run", str(run), "--resume"]) == 0
    else:
        again(run)


def by_command(folder: Path) -> Case:
    """Pairs, whose vocabulary is kept with the run, from the first folder to the report."""

    def start(run: Path) -> None:
        assert main([*pairs_flags(folder, run), "--algorithm", "mle", "--keep-every", "2"]) == 0

    return Case(folder, start, lambda run: go_on_with_pairs(run, start))


def by_python(folder: Path) -> Case:
    """Pairs that are given as lists, which are kept with the run."""
    pairs = [("a b", "b a"), ("b c c", "c c b"), ("c", "c"), ("a a b", "b a a")]
    given: dict[str, Any] = {"algorithm": "mle", "level": "words", "width": 8, "batch_size": 2, "device": "cpu"}

    def start(run: Path) -> None:
        searnn.train("pairs", run=run, train=pairs, valid=pairs[:2], test=pairs[1:], show=False, steps=2, **given)

    return Case(folder, start, lambda run: go_on_with_pairs(run, start))


def test_a_training_goes_on_wherever_it_is_killed(tmp_path: Path) -> None:
    case = training(tmp_path)
    found = list(after_kills(case.disk, case.changes))
    assert len(found) > 40
    for _, where, left in found:
        case.goes_on(left, where)


@pytest.mark.parametrize("every", [10, pytest.param(1, marks=pytest.mark.slow)])
def test_a_run_goes_on_wherever_it_is_killed(tmp_path: Path, every: int) -> None:
    case = by_command(tmp_path)
    found = list(after_kills(case.disk, case.changes))
    assert len(found) > 60
    for _, where, left in found[::every]:
        case.goes_on(left, where)
    print(f"{len(found[::every])} of {len(found)} kills: all went on, none differs")


@pytest.mark.parametrize("every", [4, pytest.param(1, marks=pytest.mark.slow)])
def test_a_run_of_given_pairs_goes_on_wherever_its_start_is_killed(tmp_path: Path, every: int) -> None:
    """Also before its settings are written, which come after its data."""
    case = by_python(tmp_path)
    settings = next(number for number, change in enumerate(case.changes) if change[2] == case.run / "config.toml")
    found = list(after_kills(case.disk, case.changes[: settings + 2]))
    assert len(found) > 12
    for _, where, left in found[::every]:
        case.goes_on(left, where)
    print(f"{len(found[::every])} of {len(found)} kills: all went on, none differs")


@pytest.mark.parametrize("every", [4, pytest.param(1, marks=pytest.mark.slow)])
def test_a_run_goes_on_wherever_its_removal_is_killed(
    tmp_path: Path, every: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that found too little memory before its first evaluation is taken away, saved as it is."""
    case = by_command(tmp_path)

    def lack(*given: Any, **options: Any) -> Any:
        raise MemoryError

    def start(run: Path) -> None:
        with monkeypatch.context() as patch:
            patch.setattr("searnn.training.loop.evaluate", lack)
            assert main([*pairs_flags(tmp_path, run), "--algorithm", "mle", "--keep-every", "2"]) == 2

    changes = case.changes_of(start)
    assert not list(case.disk.iterdir())
    case.disk.rmdir()
    removing = next(number for number, change in enumerate(changes) if change[0] == "remove")
    found = [each for each in after_kills(case.disk, changes) if each[0] > removing]
    assert len(found) > 12
    for _, where, left in found[::every]:
        case.goes_on(left, where)
    print(f"{len(found[::every])} of {len(found)} kills: all went on, none differs")


@pytest.mark.slow
def test_a_process_is_killed_at_every_change(tmp_path: Path) -> None:
    """The same with processes that are killed."""
    case, kills = by_command(tmp_path), 0
    for number, change in enumerate(case.changes):
        for half in (False, True) if change[0] in WRITES else (False,):
            case.disk.mkdir()
            assert killed_at(number, partial(case.start, case.run), half)
            case.go_on(case.run)
            assert_same_run(case.run, case.whole, (number, change[:2], half))
            shutil.rmtree(case.disk)
            kills += 1
    print(f"{kills} kills at {len(case.changes)} changes: all went on, none differs")


@pytest.fixture
def saves_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """The changes say, too, when a save has returned, and of which step."""
    save = checkpoints.save

    def told(folder: Path, tensors: Any, meta: dict[str, Any]) -> None:
        save(folder, tensors, meta)
        files.about_to(SAVED, folder, str(checkpoints.step_of(meta)).encode())

    monkeypatch.setattr(checkpoints, "save", told)


def check_cuts(case: Case, reached: Sequence[float]) -> int:
    """After a power cut anywhere what was saved is there, and the run goes on; how many were tried."""
    tried = set[frozenset[tuple[str, bytes]]]()
    for number, where, left in after_cuts(case.disk, case.changes, reached):
        for place, step in {place: step for change, place, step in case.changes[:number] if change == SAVED}.items():
            state = json.loads(left[f"{place.relative_to(case.disk)}/state.json"])
            assert checkpoints.step_of(state["state"]) >= int(step), (where, place)
        if frozenset(left.items()) not in tried:
            case.goes_on(left, where)
            tried.add(frozenset(left.items()))
    return len(tried)


@pytest.mark.usefixtures("saves_told")
def test_a_training_goes_on_after_a_power_cut(tmp_path: Path) -> None:
    assert check_cuts(training(tmp_path), (0.0, 1.0, 1.0)) > 50


@pytest.mark.slow
@pytest.mark.usefixtures("saves_told")
def test_a_run_goes_on_after_a_power_cut(tmp_path: Path) -> None:
    tried = check_cuts(by_command(tmp_path), (0.0, 0.3, 0.5, 0.7, 1.0))
    print(f"{tried} power cuts: all went on, none differs, nothing saved was lost")
