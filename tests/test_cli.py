"""The command line: help made from the configuration, and training, evaluating, predicting and resuming with it."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import torch

import searnn
from searnn.cli import main
from searnn.config.registry import AXES
from searnn.config.schema import GROUP_OF, GROUPS
from searnn.tasks import letters
from searnn.tasks.sheets import write_sheet
from searnn.training import checkpoints
from tiny import WORDS, contents, copy_flags, ocr_flags, tiny_letters


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


def text_of(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """What `searnn ...` prints before it leaves by itself, as for --help."""
    with pytest.raises(SystemExit) as left:
        main(list(arguments))
    assert left.value.code == 0
    return capsys.readouterr().out


def test_version_and_help(capsys: pytest.CaptureFixture[str]):
    assert text_of(capsys, "--version") == f"searnn {searnn.__version__}\n"
    out = text_of(capsys, "--help")
    assert all(f"  {command} " in out for command in ("train", "eval", "predict", "data"))
    out = text_of(capsys, "train", "--help")
    assert all(f"  {task} " in out for task in AXES["task"])


def test_the_version_needs_no_installed_package():
    """As when the sources are run from where they lie: nothing says what is installed."""
    code = """
import importlib.metadata
real = importlib.metadata.distribution
def distribution(name):
    if name == "searnn":
        raise importlib.metadata.PackageNotFoundError(name)
    return real(name)
importlib.metadata.distribution = distribution
from searnn.cli import main
main(["--version"])
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, f"searnn {searnn.__version__}\n"), done.stderr


def test_help_has_every_setting_in_its_group_in_one_line(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("COLUMNS", "142")
    seen: set[str] = set()
    for task in AXES["task"]:
        group = ""
        for line in text_of(capsys, "train", task, "--help").splitlines():
            if line.rstrip(":") in GROUPS and line.endswith(":"):
                group = line.rstrip(":")
            elif line.startswith("  --") and group:
                name = line.split()[0].removeprefix("--").removeprefix("[no-]").replace("-", "_")
                assert GROUP_OF[name] == group
                field = GROUPS[group].model_fields[name]
                assert field.description.split(":")[0] in line  # the help stands beside the flag, not below it
                assert line.endswith("]") or name == "data"  # the default
                seen.add(name)
    assert seen == set(GROUP_OF) - {"name"}


def test_train_leaves_a_run(ocr_run: Path):
    assert {path.name for path in ocr_run.iterdir()} == {"config.toml", "metrics.jsonl", "best", "last"}
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
    monkeypatch.setattr(sys, "stdin", io.StringIO("0 1 2\n2\n"))
    assert main(["predict", str(copy_run)]) == 0
    assert capsys.readouterr().out == printed


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


def test_runs_are_numbered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.chdir(tmp_path)
    flags = copy_flags(tmp_path)
    flags = [*flags[:2], *flags[4:], "--steps", "1"]  # without --run
    for extra in ([], [], ["--algorithm", "mle"]):
        assert main([*flags, *extra]) == 0
    assert {path.name for path in (tmp_path / "runs").iterdir()} == {"copy-searnn-1", "copy-searnn-2", "copy-mle-1"}
    assert "runs/copy-mle-1" in capsys.readouterr().out


@pytest.mark.parametrize(
    "settings",
    [
        "--algorithm mle --label-smoothing 0.1",
        "--loss ll --ties model --roll-in mixed --roll-in-mix-per token --roll-in-reference-probability linear:1:0:3",
        "--loss hinge --roll-in sampled --temperature 0.5 --roll-out focused --focus-steps stepwise:0:1:2",
        "--tokens top:2+neighbours:2 --cells uncertain --n-cells 2 --roll-out learned --roll-out-beam 2 --budget 1",
        "--oracle optimal-edit --mix-per token --cost hamming --no-normalised-cost --classifier cell",
        "--cell lstm --layers 2 --bidirectional --attention additive --dropout 0.1 --embedding 5",
        "--optimizer adamw --schedule cosine --warmup 1 --min-lr 0.0001 --clip none --precision 64-true",
        "--optimizer sgd --momentum 0.5 --schedule plateau --plateau-patience 0 --patience 1 --minutes 5",
    ],
)
def test_settings_train(settings: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    assert main([*copy_flags(tmp_path / "run"), *settings.split()]) == 0
    capsys.readouterr()
    assert main(["eval", str(tmp_path / "run"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["metrics"]["error"] >= 0


def test_threads(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    asked: list[int] = []
    monkeypatch.setattr(torch, "set_num_threads", asked.append)
    assert main([*copy_flags(tmp_path / "run"), "--threads", "3", "--steps", "1"]) == 0
    assert asked == [3]


def test_interruption_saves_and_gives_130(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch):
    from searnn.reports.progress import ProgressLine

    def interrupt(self, step, loss, seconds):
        if step == 2:
            import signal

            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(ProgressLine, "on_step", interrupt)
    assert main([*copy_flags(tmp_path / "run"), "--steps", "1000"]) == 130
    assert "go on with" in " ".join(capsys.readouterr().err.split())
    assert checkpoints.load(tmp_path / "run" / "last")[1]["counters"]["step"] == 2


def test_an_interruption_outside_of_training_gives_130(monkeypatch: pytest.MonkeyPatch, capsys):
    import searnn.cli.train

    def build(config: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(searnn.cli.train, "build", build)
    assert main(["train", "copy"]) == 130
    assert capsys.readouterr().err == "searnn: interrupted\n"


def test_a_bug_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch):
    import searnn.cli.train

    monkeypatch.setattr(searnn.cli.train, "build", lambda config: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        main(["train", "copy"])


def test_data(folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    (folder / "none").mkdir()
    monkeypatch.setenv("SEARNN_DATA", str(folder / "none"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(folder / "cache"))
    assert main(["data", "list"]) == 0
    assert "searnn data get ocr" in capsys.readouterr().out
    assert main(["data", "check", "ocr"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_the_demo_prints_what_it_measured(data: Path, tmp_path: Path, monkeypatch, capsys):
    from searnn.cli import demo
    from searnn.cli.main import guarded

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


def test_as_a_program(tmp_path: Path):
    command = [sys.executable, "-m", "searnn.cli", "eval", str(tmp_path / "none")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == f"searnn: error: there is no run folder {tmp_path / 'none'}\n"
    assert contents(tmp_path) == {}
