"""Finished runs by the command line: evaluating, predicting, loading, repeating and resuming them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import torch
from tiny import WORDS, copy_flags, ocr_flags, pairs_flags, tiny_letters

import searnn
from searnn.cli import main
from searnn.data import letters
from searnn.data.sheets import write_sheet
from searnn.training import checkpoints


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("runs")


@pytest.fixture(scope="module")
def data(folder: Path) -> Path:
    return tiny_letters(folder / "letters.npz")


@pytest.fixture(scope="module")
def ocr_run(folder: Path, data: Path) -> Path:
    assert main(ocr_flags(data, folder / "ocr")) == 0
    return folder / "ocr"


@pytest.fixture(scope="module")
def copy_run(folder: Path) -> Path:
    assert main(copy_flags(folder / "copy")) == 0
    return folder / "copy"


@pytest.fixture(scope="module")
def pairs_run(folder: Path) -> Path:
    assert main([*pairs_flags(folder, folder / "pairs"), "--algorithm", "mle"]) == 0
    return folder / "pairs"


def typed(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """Text on the standard input, which is a pipe."""
    ours, theirs = os.pipe()
    os.write(theirs, text.encode())
    os.close(theirs)
    monkeypatch.setattr(sys, "stdin", os.fdopen(ours))


def test_train_leaves_a_run(ocr_run: Path):
    assert {path.name for path in ocr_run.iterdir()} == {
        "config.toml", "metrics.jsonl", "best", "last", "report.html"
    }  # fmt: skip
    settings = tomllib.loads((ocr_run / "config.toml").read_text())
    assert settings["loss"] == {"loss": "kl", "alpha": 3.0, "normalisation": "batch", "classifier": "network"}
    assert settings["optimisation"]["steps"] == 3
    steps = [json.loads(line)["step"] for line in (ocr_run / "metrics.jsonl").read_text().splitlines()]
    assert steps == [2, 3]


def test_eval(ocr_run: Path, capsys: pytest.CaptureFixture[str]):
    for split, run_words in (("test", 4), ("valid", 3)):
        assert main(["eval", str(ocr_run), "--split", split, "--json"]) == 0
        found = json.loads(capsys.readouterr().out)
        assert (found["split"], found["beam"]) == (split, 1)
        assert set(found["metrics"]) == {"error", "word_error"}
        words = found["metrics"]["word_error"] * run_words
        assert words == pytest.approx(round(words))
    assert main(["eval", str(ocr_run), "--split", "valid"]) == 0
    table = capsys.readouterr().out
    assert "error" in table
    assert f"{found['metrics']['error']:.4f}" in table
    best = json.loads((ocr_run / "best" / "state.json").read_text())["state"]["record"]
    assert found["metrics"]["error"] == pytest.approx(best["valid_error"])
    assert main(["eval", str(ocr_run), "--split", "valid", "--json", "--beam", "1,3"]) == 0
    greedy, beam = map(json.loads, capsys.readouterr().out.splitlines())
    assert greedy == found
    assert main(["eval", str(ocr_run), "--split", "valid", "--json", "--beam", "3"]) == 0
    assert beam == json.loads(capsys.readouterr().out)
    assert beam["beam"] == 3


def test_the_length_penalty_of_a_beam(copy_run: Path, folder: Path, capsys: pytest.CaptureFixture[str], refused):
    """As in Python, where a beam that knows none is that of the default; it is refused without a beam."""
    lines = ["0 1 2", "2", "1 1 0 2"]
    (folder / "strings.txt").write_text("".join(f"{line}\n" for line in lines))
    asked = ["predict", str(copy_run), "--input", str(folder / "strings.txt"), "--beam", "3", "--n-best", "3"]
    run, printed = searnn.load(copy_run, device="cpu"), {}
    for penalty in ("0", "1", "3"):
        assert main([*asked, "--length-penalty", penalty]) == 0
        printed[penalty] = capsys.readouterr().out
        found = run.n_best(lines, 3, length_penalty=float(penalty))
        expected = [f"{number}\t{text}" for number, outputs in enumerate(found, 1) for text, _ in outputs]
        assert printed[penalty].splitlines() == expected
    assert main(asked) == 0
    assert capsys.readouterr().out == printed["1"]
    assert printed["0"] != printed["3"]
    assert main(["eval", str(copy_run), "--json", "--beam", "1,3", "--length-penalty", "0"]) == 0
    greedy, beam = map(json.loads, capsys.readouterr().out.splitlines())
    assert "length_penalty" not in greedy
    assert beam["length_penalty"] == 0
    assert beam["metrics"] == run.evaluate(beam=3, length_penalty=0.0)
    for wrong in (["eval", str(copy_run)], ["predict", str(copy_run)]):
        assert "--length-penalty does not apply here" in refused(*wrong, "--length-penalty", "0")
        assert "must be a number of at least 0" in refused(*wrong, "--beam", "2", "--length-penalty", "-1")


def test_predict_letters(ocr_run: Path, data: Path, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch):
    import numpy as np

    read = letters.read(data)
    first = int(read.word_lengths[:6].sum())
    pixels = np.unpackbits(read.pixels_packed[:first], axis=1).astype(np.float32)
    write_sheet(np.split(pixels, read.word_lengths[:6].astype(int).cumsum()[:-1]), folder / "sheet.png")
    np.savez(folder / "words.npz", pixels=pixels, word_lengths=read.word_lengths[:6])
    outputs = []
    for name in ("sheet.png", "words.npz"):
        assert main(["predict", str(ocr_run), "--input", str(folder / name), "--beam", "2"]) == 0
        outputs.append(capsys.readouterr().out)
        with (folder / name).open() as stdin:  # searnn predict RUN < FILE
            monkeypatch.setattr(sys, "stdin", stdin)
            assert main(["predict", str(ocr_run), "--beam", "2"]) == 0
        outputs.append(capsys.readouterr().out)
    assert len(set(outputs)) == 1
    assert [len(word) for word in outputs[0].splitlines()] == [len(WORDS[n % 4]) for n in range(6)]


def test_predict_symbols(copy_run: Path, folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch):
    (folder / "strings.txt").write_text("0 1 2\n2\n")
    assert main(["predict", str(copy_run), "--input", str(folder / "strings.txt")]) == 0
    printed = capsys.readouterr().out
    assert len(printed.splitlines()) == 2
    for text in ("0 1 2\n2\n", "\ufeff0 1 2\r\n2"):  # the last line may lack its end
        typed(monkeypatch, text)
        assert main(["predict", str(copy_run)]) == 0
        assert capsys.readouterr().out == printed


def test_lines_are_answered_before_the_input_ends(copy_run: Path):
    """As from a program that waits for the answer to its first line."""
    command = [sys.executable, "-m", "searnn.cli", "predict", str(copy_run), "--device", "cpu"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as program:
        assert program.stdin is not None
        assert program.stdout is not None
        for line in (b"0 1 2\n", b"2\n"):
            program.stdin.write(line)
            program.stdin.flush()
            assert program.stdout.readline().endswith(b"\n")
        program.stdin.close()
        assert program.stdout.read() == b""
        assert program.wait() == 0


def test_a_run_on_text_needs_its_data_no_more(pairs_run: Path, folder: Path, tmp_path: Path, capsys, monkeypatch):
    (folder / "lines.txt").write_text("a b c\nc\n")
    predict = ["predict", str(pairs_run), "--input", str(folder / "lines.txt")]
    assert main(predict) == 0
    printed = capsys.readouterr().out
    assert len(printed.splitlines()) == 2
    assert {path.name for path in (pairs_run / "text").iterdir()} == {"source.json", "target.json", "room.json"}
    hidden = [path.rename(tmp_path / path.name) for path in folder.glob("*.tsv")]
    try:
        assert main(predict) == 0
        assert capsys.readouterr().out == printed
        assert main(["eval", str(pairs_run)]) == 2
        assert "test.tsv" in capsys.readouterr().err
    finally:
        for path in hidden:
            path.rename(folder / path.name)


def test_predict_the_best_of_each_line(pairs_run: Path, capsys: pytest.CaptureFixture[str], monkeypatch):
    def printed(*arguments: str) -> list[list[str]]:
        typed(monkeypatch, "a b\n \nc\n" if "--skip-bad-lines" in arguments else "a b\nc\n")
        assert main(["predict", str(pairs_run), *arguments]) == 0
        return [line.split("\t") for line in capsys.readouterr().out.splitlines()]

    lines = printed("--n-best", "3", "--scores")
    assert [number for number, _, _ in lines] == ["1"] * 3 + ["2"] * 3
    for first in (0, 3):
        scores = [float(score) for _, _, score in lines[first : first + 3]]
        assert scores == sorted(scores, reverse=True)
        assert all(score <= 0 for score in scores)
        assert len({output for _, output, _ in lines[first : first + 3]}) == 3
    assert printed("--beam", "3") == [[lines[0][1]], [lines[3][1]]]
    assert printed("--beam", "3", "--scores") == [lines[0][1:], lines[3][1:]]
    assert printed("--n-best", "2", "--beam", "3") == [line[:2] for line in (*lines[:2], *lines[3:5])]
    assert [output for output, _ in printed("--scores")] == [output for (output,) in printed()]
    skipped = printed("--n-best", "3", "--scores", "--skip-bad-lines")
    assert skipped[:3] == lines[:3]
    assert skipped[3:6] == [["2", "", "-inf"]] * 3
    assert [line[1:] for line in skipped[6:]] == [line[1:] for line in lines[3:]]
    assert [line[0] for line in skipped[6:]] == ["3"] * 3
    assert printed("--skip-bad-lines")[1] == [""]


def test_eval_of_text(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    run = tmp_path / "run"
    assert main([*pairs_flags(folder, run), "--algorithm", "mle", "--metric", "bleu"]) == 0
    capsys.readouterr()
    assert main(["eval", str(run), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert set(found["metrics"]) == {"error", "sequence_error", "bleu"}
    assert 0 <= found["metrics"]["bleu"] <= 100
    assert found["metrics"]["sequence_error"] * 4 in range(5)  # of the four lines
    assert found["signature"].startswith("nrefs:1|")
    assert main(["eval", str(run), "--split", "valid"]) == 0
    assert f"signature: {found['signature']}" in capsys.readouterr().out


def test_load_gives_the_best_model(ocr_run: Path):
    run = searnn.load(ocr_run)
    tensors, _ = checkpoints.load(ocr_run / "best")
    assert torch.equal(run.model.project.weight, tensors["model.project.weight"])
    assert run.task.name == "ocr"
    assert run.config.model.width == 8
    last, _ = checkpoints.load(ocr_run / "last")
    assert torch.equal(searnn.load(ocr_run, which="last").model.project.weight, last["model.project.weight"])
    with pytest.raises(searnn.SearnnError, match="must be best or last"):
        searnn.load(ocr_run, which="first")


def test_the_settings_of_a_run_make_the_same_run_again(ocr_run: Path, tmp_path: Path):
    again = tmp_path / "again"
    assert main(["train", "ocr", "--config", str(ocr_run / "config.toml"), "--run", str(again)]) == 0
    assert (again / "config.toml").read_text() == (ocr_run / "config.toml").read_text()
    ours, theirs = (checkpoints.load(place / "last")[0] for place in (again, ocr_run))
    assert all(torch.equal(value, theirs[name]) for name, value in ours.items() if name.startswith("model."))


def test_flags_override_the_file(ocr_run: Path, tmp_path: Path):
    other = tmp_path / "other"
    config = str(ocr_run / "config.toml")
    assert main(["train", "ocr", "--config", config, "--alpha", "2", "--steps", "1", "--run", str(other)]) == 0
    settings = tomllib.loads((other / "config.toml").read_text())
    assert settings["loss"]["alpha"] == 2
    assert settings["optimisation"]["steps"] == 1
    assert settings["model"]["width"] == 8


def test_resuming_equals_never_stopping(ocr_run: Path, data: Path, tmp_path: Path):
    run = tmp_path / "run"
    assert main([*ocr_flags(data, run), "--steps", "1"]) == 0
    assert main(["train", "ocr", "--run", str(run), "--resume", "--steps", "3"]) == 0
    ours, theirs = (checkpoints.load(place / "last")[0] for place in (run, ocr_run))
    assert all(torch.equal(value, theirs[name]) for name, value in ours.items() if name.startswith("model."))
    assert tomllib.loads((run / "config.toml").read_text())["optimisation"]["steps"] == 3


def test_the_demo_prints_what_it_measured(data: Path, tmp_path: Path, monkeypatch, capsys):
    monkeypatch.syspath_prepend(Path(__file__).parents[1] / "examples")
    import demo

    from searnn.cli.program import guarded

    monkeypatch.chdir(tmp_path)
    tiny = {"data": str(data), "width": "8", "batch_size": "4", "steps": "3", "eval_every": "1", "device": "cpu"}
    monkeypatch.setattr(demo, "SETTINGS", tiny)
    monkeypatch.setattr(demo.store, "get", lambda name, progress: data)
    for _ in range(2):  # the second run replaces the first
        assert guarded(demo.demo) == 0
        table = [line.split("│") for line in capsys.readouterr().out.splitlines() if line.startswith("│")]
        assert [row[1].strip() for row in table] == ["MLE", "SEARNN"]
        for row in table:
            for split, cell in (("valid", row[2]), ("test", row[3])):
                run = str(Path("runs", "demo", row[1].strip().lower()))
                assert main(["eval", run, "--split", split, "--json"]) == 0
                error = json.loads(capsys.readouterr().out)["metrics"]["error"]
                assert cell.strip() == f"{100 * error:.2f} %"
    assert (tmp_path / "runs" / "demo" / "curves.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="the machine has no such device")
def test_an_output_that_cannot_be_written(copy_run: Path):
    command = [sys.executable, "-m", "searnn.cli", "eval", str(copy_run), "--json"]
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == "searnn: error: No space left on device; free some space and try again\n"


def test_a_training_that_is_all_warm_up_says_so(tmp_path: Path, capsys):
    reinforce = [*copy_flags(tmp_path / "run"), "--algorithm", "reinforce", "--warm-up"]
    assert main([*reinforce, "3"]) == 0
    assert "warning: all 3 updates were the warm-up by maximum likelihood" in capsys.readouterr().err
    assert main([*reinforce, "2", "--run", str(tmp_path / "other")]) == 0
    assert "warning: all" not in capsys.readouterr().err
