"""`--init-from RUN`: training begins with the weights of another run's best model, or is refused in one line."""

from __future__ import annotations

import shutil
import tomllib
from pathlib import Path

import pytest
import torch
from tiny import Refused, copy_flags, ocr_flags, pairs_files, pairs_flags, tiny_letters

from searnn.cli import main
from searnn.training import checkpoints


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("source")
    assert main([*copy_flags(folder / "mle"), "--algorithm", "mle", "--lr", "0.05", "--dropout", "0.1"]) == 0
    assert main([*pairs_flags(folder, folder / "pairs"), "--algorithm", "mle"]) == 0
    ocr = ocr_flags(tiny_letters(folder / "letters.npz"), folder / "ocr")
    assert main([*ocr, "--attention", "none"]) == 0
    return folder


def weights(folder: Path) -> dict[str, torch.Tensor]:
    return {name: value for name, value in checkpoints.load(folder)[0].items() if name.startswith("model.")}


@pytest.mark.parametrize("algorithm", ["mle", "searnn", "reinforce", "actor-critic"])
def test_training_begins_with_the_best_model_of_the_run(
    algorithm: str, source: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    """A learning rate that moves nothing leaves the weights as they were at the beginning."""
    run, still = tmp_path / "run", ["--optimizer", "sgd", "--lr", "1e-30", "--algorithm", algorithm]
    assert main([*copy_flags(run), *still, "--init-from", str(source / "mle")]) == 0
    begun, best = weights(run / "last"), weights(source / "mle" / "best")
    assert begun.keys() == best.keys()
    assert all(torch.equal(begun[name], value) for name, value in best.items())
    settings = tomllib.loads((run / "config.toml").read_text())["optimisation"]
    assert settings["init_from"] == str(source / "mle")
    assert settings.get("warm_up", 0) == 0, "the run is warm already"
    told = capsys.readouterr().err
    assert f"begins with the best model of {source / 'mle'}" in told
    assert "warm-up" not in told


def test_resuming_does_not_begin_again(source: Path, tmp_path: Path):
    shutil.copytree(source / "mle", tmp_path / "mle")
    for name in ("run", "whole"):
        flags = [*copy_flags(tmp_path / name), "--init-from", str(tmp_path / "mle")]
        assert main([*flags, "--steps", "5" if name == "whole" else "3"]) == 0
    shutil.rmtree(tmp_path / "mle")
    assert main(["train", "copy", "--run", str(tmp_path / "run"), "--resume", "--steps", "5"]) == 0
    found, expected = weights(tmp_path / "run" / "last"), weights(tmp_path / "whole" / "last")
    assert all(torch.equal(found[name], value) for name, value in expected.items())


def test_the_same_vocabulary_is_taken(source: Path, tmp_path: Path):
    flags = [*pairs_flags(source, tmp_path / "run"), "--algorithm", "mrt", "--init-from", str(source / "pairs")]
    assert main(flags) == 0


def test_what_does_not_fit_is_refused(source: Path, tmp_path: Path, refused: Refused):
    copy, run = copy_flags(Path("run")), str(source / "mle")
    told = refused(*copy, "--width", "9", "--init-from", run)
    assert told == f"--init-from {run}: --width is 8 there and 9 here; give the same settings of the model"
    assert "--model is gru there and lstm here" in refused(*copy, "--model", "lstm", "--init-from", run)
    told = refused(*copy, "--symbols", "4", "--init-from", run)
    assert f"the checkpoint {source / 'mle' / 'best'} is of another model: model." in told
    told = refused(*copy, "--init-from", str(source / "ocr"))
    assert f"--init-from {source / 'ocr'}: its vocabulary, of the task ocr, is not that of this training" in told
    assert refused(*copy, "--init-from", "nowhere") == f"there is no run folder {tmp_path / 'nowhere'}"
    assert "is not the folder of a run" in refused(*copy, "--init-from", str(source))
    begun = tmp_path / "begun"
    begun.mkdir()
    shutil.copy(source / "mle" / "config.toml", begun)
    assert "it has no best model yet; train it first" in refused(*copy, "--init-from", str(begun))


def test_another_vocabulary_is_refused(source: Path, tmp_path: Path, refused: Refused):
    pairs_files(tmp_path)
    text = (tmp_path / "train.tsv").read_text()
    (tmp_path / "train.tsv").write_text(text.translate(str.maketrans("abc", "xyz")))
    files = [part for name in ("train", "valid") for part in (f"--{name}", str(tmp_path / "train.tsv"))]
    flags = ["train", "pairs", *files, "--level", "words", "--width", "8", "--device", "cpu", "--run", "run"]
    told = refused(*flags, "--algorithm", "mle", "--init-from", str(source / "pairs"))
    assert "its vocabulary, of the task pairs, is not that of this training; begin from a run on the same data" in told
