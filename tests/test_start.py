"""How a run is started: the same from the command line and from Python, and what is left where it comes to nothing."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny import Refused, contents, copy_flags, pairs_files, pairs_flags

import searnn
from searnn.cli import main
from searnn.runs import start as starting
from searnn.training import checkpoints

TOY: dict[str, Any] = {"symbols": 3, "length": 3, "examples": 20, "width": 8, "batch_size": 4, "device": "cpu"}


def weights(run: Path) -> dict[str, torch.Tensor]:
    return {name: value for name, value in checkpoints.load(run / "last")[0].items() if name.startswith("model.")}


@pytest.mark.parametrize("existed", [False, True])
@pytest.mark.parametrize("by", ["command", "python"])
def test_nothing_is_left_of_a_run_that_never_began(
    by: str, existed: bool, tmp_path: Path, refused: Refused, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even the folders above it that were made for it."""
    monkeypatch.chdir(tmp_path)
    run = tmp_path / "new" / "run"
    if existed:
        run.mkdir(parents=True)
    if by == "command":
        assert "batch size is 500" in refused(*copy_flags(run), "--batch-size", "500")
    else:
        with pytest.raises(searnn.SearnnError, match="batch size is 500"):
            searnn.train("copy", run=run, show=False, **{**TOY, "batch_size": 500})
    assert run.exists() == run.parent.exists() == existed
    assert contents(tmp_path) == {}
    assert "batch size is 500" in refused("train", "copy", "--examples", "20", "--batch-size", "500", "--device", "cpu")
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize("by", ["command", "python"])
def test_what_was_saved_stays_where_training_fails(by: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run, fit = tmp_path / "run", starting.fit

    def failing(*given: Any, **options: Any) -> Any:
        fit(*given, **options)
        raise ZeroDivisionError

    monkeypatch.setattr(starting, "fit", failing)
    with pytest.raises(ZeroDivisionError):
        main(copy_flags(run)) if by == "command" else searnn.train("copy", run=run, show=False, steps=2, **TOY)
    assert {path.name for path in run.iterdir()} >= {"config.toml", "last"}


@pytest.mark.parametrize("left", [("config.toml",), ("config.toml", "text")])
def test_a_run_that_was_killed_before_its_first_save_begins_again(left: tuple[str, ...], tmp_path: Path) -> None:
    """Also where the data had not been read, and with the weights of another run."""
    assert main(pairs_flags(tmp_path, tmp_path / "first")) == 0
    begun = [*pairs_flags(tmp_path, tmp_path / "whole"), "--init-from", str(tmp_path / "first")]
    assert main(begun) == 0
    killed = tmp_path / "killed"
    killed.mkdir()
    for name in left:
        place = tmp_path / "whole" / name
        (shutil.copytree if place.is_dir() else shutil.copy)(place, killed / name)
    assert main(["train", "pairs", "--run", str(killed), "--resume"]) == 0
    whole, again = weights(tmp_path / "whole"), weights(killed)
    assert all(torch.equal(value, again[name]) for name, value in whole.items())


def test_python_tells_what_the_command_tells(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = pairs_files(tmp_path)
    bad = tmp_path / "bad.tsv"
    bad.write_text(Path(data[1]).read_text() + "no tab\n")
    given = {"train": bad, "valid": data[3], "skip_bad_lines": True, "steps": 2, "batch_size": 4, "device": "cpu"}
    run = searnn.train("pairs", run=tmp_path / "run", **given)
    told = capsys.readouterr().err
    assert f"run {run.folder}\n" in told
    assert "bad.tsv" in told
    searnn.train("pairs", run=tmp_path / "silent", show=False, **given)
    assert capsys.readouterr().err == ""


def test_a_batch_by_default_is_no_larger_than_the_data(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """As many pairs as there are, told in one line; what the user asks for is not changed."""
    rows = [f"{number:02d}\t{number:02d}" for number in range(60)]
    (tmp_path / "train.tsv").write_text("".join(f"{row}\n" for row in rows))
    flags = ["train", "pairs", "--train", str(tmp_path / "train.tsv"), "--valid", str(tmp_path / "train.tsv")]
    flags += ["--run", str(tmp_path / "run"), "--width", "8", "--device", "cpu", "--eval-every", "2"]
    assert main([*flags, "--steps", "2"]) == 0
    told = "a batch has 60 examples in place of 64: the training data has no more"
    assert capsys.readouterr().err.splitlines().count(told) == 1
    assert main(["train", "pairs", "--run", str(tmp_path / "run"), "--resume", "--steps", "4"]) == 0
    flags[flags.index("--run") + 1] = str(tmp_path / "other")
    assert main([*flags, "--steps", "4"]) == 0
    assert all(torch.equal(weights(tmp_path / "run")[name], one) for name, one in weights(tmp_path / "other").items())
    capsys.readouterr()
    flags[flags.index("--run") + 1] = str(tmp_path / "third")
    assert main([*flags, "--batch-size", "70"]) == 2
    assert "the batch size is 70, expected 1 to 60" in capsys.readouterr().err
