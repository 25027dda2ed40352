"""The best model: of every evaluation, never replaced by a worse one, and not claimed where it is lost."""

from __future__ import annotations

import logging
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from training_cases import SETTINGS, Scripted, make_model, same, weights

from searnn.algorithms import Mle
from searnn.cli import main
from searnn.training import Outcome, checkpoints, fit
from searnn.training.settings import TrainingSettings
from searnn.types import SearnnError


def run(task: Scripted, settings: TrainingSettings, folder: Path, **more: Any) -> Outcome:
    return fit(make_model(), Mle(), task, settings, folder, **more)


def model_in(folder: Path) -> dict[str, Any]:
    return {name: value for name, value in weights(folder).items() if name.startswith("model.")}


@pytest.mark.parametrize(("last", "best_step"), [(3.0, 17), (6.0, 10)])
def test_a_last_evaluation_between_the_regular_ones_may_find_the_best(
    tmp_path: Path, last: float, best_step: int
) -> None:
    outcome = run(Scripted([5.0, last]), replace(SETTINGS, steps=17), tmp_path)
    assert (outcome.best_step, outcome.best_metric) == (best_step, min(5.0, last))
    record = checkpoints.load(tmp_path / "best")[1]["record"]
    assert (record["step"], record["valid_score"]) == (best_step, min(5.0, last))
    assert same(model_in(tmp_path / "best"), model_in(tmp_path / "last")) == (best_step == 17)
    counters = checkpoints.load(tmp_path / "last")[1]["counters"]
    assert (counters["best_step"], counters["best_metric"], counters["recorded"]) == (best_step, min(5.0, last), 10)


def killed_after_the_best_of_20(folder: Path, patch: pytest.MonkeyPatch) -> None:
    """A run whose evaluations at 10 and 20 give 5 and 1, cut off before what was reached at 20 is saved."""
    save = checkpoints.save

    def dying(place: Path, tensors: Any, meta: dict[str, Any]) -> None:
        if place.name == "last" and meta["counters"]["step"] == 20:
            raise SearnnError("cut off")
        save(place, tensors, meta)

    with patch.context() as inside:
        inside.setattr(checkpoints, "save", dying)
        with pytest.raises(SearnnError, match="cut off"):
            run(Scripted([5.0, 1.0]), replace(SETTINGS, steps=30), folder)
    assert checkpoints.load(folder / "last")[1]["counters"]["best_step"] == 10
    assert checkpoints.load(folder / "best")[1]["record"]["step"] == 20


def test_a_resumed_run_does_not_replace_a_better_best(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The best was kept, and the save after it was not: the last one still knows the best before."""
    killed_after_the_best_of_20(tmp_path, monkeypatch)
    before = weights(tmp_path / "best")
    outcome = run(Scripted([3.0]), replace(SETTINGS, steps=15), tmp_path, resume=True)  # better than 5, worse than 1
    assert (outcome.best_step, outcome.best_metric) == (20, 1.0)
    assert same(weights(tmp_path / "best"), before)
    assert checkpoints.load(tmp_path / "best")[1]["record"]["step"] == 20


def test_a_best_that_is_found_again_counts_as_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As in the unbroken run, for `patience`."""
    killed_after_the_best_of_20(tmp_path, monkeypatch)
    outcome = run(Scripted([1.0, 2.0]), replace(SETTINGS, steps=30), tmp_path, resume=True)
    assert (outcome.best_step, outcome.best_metric) == (20, 1.0)
    assert checkpoints.load(tmp_path / "last")[1]["counters"]["stale"] == 1


@pytest.mark.parametrize("how", ["missing", "damaged"])
def test_a_best_that_is_lost_is_told_of_and_not_claimed(
    tmp_path: Path, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    run(Scripted([1.0, 2.0]), replace(SETTINGS, steps=20), tmp_path)
    for path in (tmp_path / "best").iterdir():
        if how == "missing":
            path.unlink()
        elif path.suffix == ".safetensors":
            path.write_bytes(path.read_bytes()[:-1])
    with caplog.at_level(logging.WARNING, "searnn"):
        outcome = run(Scripted([]), replace(SETTINGS, steps=20), tmp_path, resume=True)
    assert (outcome.steps, outcome.best_step, outcome.best_metric) == (20, 0, None)
    told = f"the best model, of step 10, is lost: {tmp_path / 'best'} is {how}; restore it from a copy, or train on"
    assert [told in record.getMessage() for record in caplog.records] == [True]
    caplog.clear()
    with caplog.at_level(logging.WARNING, "searnn"):
        outcome = run(Scripted([4.0, 3.0, 5.0]), replace(SETTINGS, steps=50), tmp_path, resume=True)
    assert len(caplog.records) == 1
    assert (outcome.best_step, outcome.best_metric) == (40, 3.0)  # of those since
    assert checkpoints.load(tmp_path / "best")[1]["record"]["step"] == 40


def test_a_run_that_had_none_yet_says_nothing(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    run(Scripted([float("nan")]), replace(SETTINGS, steps=10), tmp_path)
    assert not checkpoints.exists(tmp_path / "best")
    with caplog.at_level(logging.WARNING, "searnn"):
        assert run(Scripted([2.0]), replace(SETTINGS, steps=20), tmp_path, resume=True).best_step == 20
    assert not caplog.records


def test_the_command_says_so(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    flags = ["--symbols", "3", "--length", "3", "--examples", "20", "--width", "8", "--batch-size", "4"]
    words = ["train", "copy", "--run", str(tmp_path / "run"), "--device", "cpu"]
    assert main([*words, *flags, "--algorithm", "mle", "--steps", "2", "--eval-every", "2"]) == 0
    next((tmp_path / "run" / "best").glob("*.safetensors")).unlink()
    capsys.readouterr()
    assert main([*words, "--resume"]) == 0
    out, err = capsys.readouterr()
    assert "best: no model, after 2 steps" in out
    assert "the best model, of step 2, is lost" in err
    assert "damaged" in err
