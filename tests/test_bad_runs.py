"""Bad runs: in the way, missing, damaged or resumed with something else; one clear line, and nothing lost."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
import torch
from tiny import Refused, clone, copy_flags, pairs_files
from tiny_runs import finished_runs

from searnn.cli import main
from searnn.training import checkpoints


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return finished_runs(tmp_path_factory.mktemp("base"))


@pytest.mark.parametrize("inside", ["a file", "a run"])
def test_a_run_folder_that_exists(inside: str, base: Path, tmp_path: Path, refused: Refused):
    if inside == "a run":
        clone(base / "copy", tmp_path / "mine")
    else:
        (tmp_path / "mine").mkdir()
        (tmp_path / "mine" / "notes.txt").write_text("dear to me")
    message = refused(*copy_flags(tmp_path / "mine"))
    assert "exists already: give another folder with --run, or go on with --resume" in message


def test_a_run_folder_that_is_a_file(tmp_path: Path, refused: Refused):
    (tmp_path / "mine").write_text("dear to me")
    assert "exists already" in refused(*copy_flags(tmp_path / "mine"))


def test_an_empty_run_folder_is_used(tmp_path: Path):
    (tmp_path / "mine").mkdir()
    assert main([*copy_flags(tmp_path / "mine"), "--steps", "1"]) == 0


@pytest.mark.parametrize("command", ["eval", "predict"])
def test_no_run(command: str, tmp_path: Path, refused: Refused):
    assert "there is no run folder none" in refused(command, "none")
    (tmp_path / "empty").mkdir()
    assert "is not the folder of a run: it has no config.toml" in refused(command, "empty")
    (tmp_path / "file").write_text("")
    assert "there is no run folder file" in refused(command, "file")


@pytest.mark.parametrize("command", ["eval", "predict"])
def test_a_run_folder_without_a_checkpoint(command: str, base: Path, tmp_path: Path, refused: Refused):
    run = clone(base / "copy", tmp_path / "run")
    for path in (run / "best").iterdir():
        path.unlink()
    assert "no checkpoint in run/best" in refused(command, "run")
    (run / "best").rmdir()
    assert "has no checkpoint 'best'" in refused(command, "run")


def test_resuming_without_a_checkpoint(base: Path, tmp_path: Path, refused: Refused):
    assert "there is no run folder none" in refused("train", "copy", "--run", "none", "--resume")
    (tmp_path / "empty").mkdir()
    assert "is not the folder of a run" in refused("train", "copy", "--run", "empty", "--resume")
    run = clone(base / "copy", tmp_path / "run")
    for path in (run / "last").iterdir():
        path.unlink()
    assert "has no checkpoint to resume from" in refused("train", "copy", "--run", "run", "--resume")
    (run / "last").rmdir()
    assert "has no checkpoint to resume from" in refused("train", "copy", "--run", "run", "--resume")
    (run / "config.toml").unlink()
    assert "it has no config.toml" in refused("train", "copy", "--run", "run", "--resume")


def test_a_run_killed_before_its_first_save_begins_again(base: Path, tmp_path: Path):
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "config.toml").write_bytes((base / "copy" / "config.toml").read_bytes())
    assert main(["train", "copy", "--run", str(tmp_path / "run"), "--resume"]) == 0
    ours, theirs = (checkpoints.load(place / "last")[0] for place in (tmp_path / "run", base / "copy"))
    assert all(torch.equal(value, theirs[name]) for name, value in ours.items() if name.startswith("model."))


def test_resuming_with_other_settings(base: Path, tmp_path: Path, refused: Refused):
    clone(base / "copy", tmp_path / "run")
    resume = ["train", "copy", "--run", "run", "--resume"]
    assert "another --alpha: it was 30.0, now it is 2.0" in refused(*resume, "--alpha", "2")
    assert "another --algorithm: it was searnn, now it is mle" in refused(*resume, "--algorithm", "mle")
    assert "another --temperature: it was unset, now it is 2.0" in refused(*resume, "--temperature", "2")
    (tmp_path / "other.toml").write_text("[model]\nwidth = 9\n")
    assert "another --width: it was 8, now it is 9" in refused(*resume, "--config", "other.toml")
    assert "another --name: it was copy, now it is ocr" in refused("train", "ocr", "--run", "run", "--resume")


@pytest.mark.parametrize("schedule", ["constant", "plateau", "linear", "cosine"])
def test_resuming_with_another_number_of_steps(schedule: str, tmp_path: Path, refused: Refused):
    """The steps made under a learning rate that falls to the last step would have been others."""
    assert main([*copy_flags(tmp_path / "run"), "--schedule", schedule]) == 0
    resume = ["train", "copy", "--run", "run", "--resume"]
    if schedule in ("constant", "plateau"):
        assert main([*resume, "--steps", "4"]) == 0
    else:
        message = refused(*resume, "--steps", "4")
        assert f"another --steps, which --schedule {schedule} runs over: it was 3, now it is 4" in message
        assert main([*resume, "--steps", "3", "--patience", "9"]) == 0


def test_a_checkpoint_of_another_model_size(base: Path, tmp_path: Path, refused: Refused):
    run = clone(base / "copy", tmp_path / "run")
    settings = (run / "config.toml").read_text()
    (run / "config.toml").write_text(settings.replace("width = 8", "width = 9"))
    assert "run/best is of another model" in refused("eval", "run")
    assert "run/last is of another model" in refused("train", "copy", "--run", "run", "--resume", "--steps", "5")


@pytest.mark.parametrize("part", ["best", "last"])
@pytest.mark.parametrize("damage", ["cut", "empty", "flipped", "gone"])
def test_a_damaged_checkpoint(part: str, damage: str, base: Path, tmp_path: Path, refused: Refused):
    run = clone(base / "copy", tmp_path / "run")
    path = next((run / part).glob("*.safetensors"))
    content = path.read_bytes()
    if damage == "gone":
        path.unlink()
    else:
        flipped = content[:-1] + bytes([content[-1] ^ 1])
        path.write_bytes({"cut": content[:100], "empty": b"", "flipped": flipped}[damage])
    command = ["eval", "run"] if part == "best" else ["train", "copy", "--run", "run", "--resume", "--steps", "5"]
    message = refused(*command)
    assert ("is missing" if damage == "gone" else "is truncated or damaged") in message
    assert f"run/{part}" in message


@pytest.mark.parametrize("text", ["{", "{}", "[1]", ""])
def test_a_damaged_state(text: str, base: Path, tmp_path: Path, refused: Refused):
    run = clone(base / "copy", tmp_path / "run")
    (run / "best" / "state.json").write_text(text)
    assert "state.json is damaged" in refused("eval", "run")


def test_a_damaged_file_of_settings(base: Path, tmp_path: Path, refused: Refused):
    run = clone(base / "copy", tmp_path / "run")
    (run / "config.toml").write_text("[model\n")
    assert "run/config.toml is not a TOML file" in refused("eval", "run")
    (run / "config.toml").write_text('[task]\nname = "copi"\n')
    assert "no --task is called 'copi'; did you mean copy?" in refused("eval", "run")
    (run / "config.toml").write_text("")
    assert "no task is named" in refused("eval", "run")
    (run / "config.toml").write_text('[task]\nname = "copy"\n[loss]\nloss = "ll"\nalpha = 3.0\n')
    assert "run/config.toml: loss.alpha does not apply here" in refused("eval", "run")


def test_no_permission_because_a_file_is_in_the_way(tmp_path: Path, refused: Refused):
    (tmp_path / "file").write_text("")
    assert "file/run: not a directory; choose a folder" in refused(*copy_flags(tmp_path / "file" / "run"))


@pytest.mark.skipif(os.name != "posix" or os.geteuid() == 0, reason="the superuser may write everywhere")
def test_no_permission_to_write(tmp_path: Path, refused: Refused):
    (tmp_path / "mine").mkdir(mode=0o500)
    assert "Permission denied" in refused(*copy_flags(tmp_path / "mine" / "run"))


def test_a_run_on_text_without_its_lexicons(base: Path, tmp_path: Path, refused: Refused):
    run = clone(base / "pairs", tmp_path / "run")
    (tmp_path / "lines.txt").write_text("a\n")
    (run / "text" / "target.json").write_text("{")
    assert "target.json" in refused("predict", "run", "--input", "lines.txt")
    (run / "text" / "target.json").unlink()
    assert "target.json" in refused("predict", "run", "--input", "lines.txt")
    clone(base / "pairs", tmp_path / "other")
    (tmp_path / "other" / "text" / "room.json").write_text("[]")
    assert "room.json is damaged (it is no object)" in refused("predict", "other", "--input", "lines.txt")


def test_resuming_with_other_files(base: Path, tmp_path: Path, refused: Refused):
    clone(base / "pairs", tmp_path / "run")
    pairs_files(tmp_path)
    message = refused("train", "pairs", "--run", "run", "--resume", "--train", "train.tsv")
    assert "run cannot be resumed with another --train: it was ['" in message
    assert "another --model: it was gru" in refused("train", "pairs", "--run", "run", "--resume", "--model", "lstm")


def test_a_loss_that_is_not_finite_stops(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    run = tmp_path / "run"
    diverging = ["--normalisation", "sum", "--optimizer", "sgd", "--lr", "1e38", "--clip", "none"]
    assert main([*copy_flags(run), *diverging, "--steps", "50"]) == 2
    err = capsys.readouterr().err
    assert "Traceback" not in err
    assert "not finite" in err.splitlines()[-1]
    assert all(torch.isfinite(value).all() for value in checkpoints.load(run / "last")[0].values())
