"""The command line: help made from the configuration, settings that train, interruptions and mistakes."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from tiny import contents, copy_flags, pairs_flags

import searnn
from searnn.cli import main
from searnn.config.registry import AXES
from searnn.config.schema import GROUP_OF, GROUPS
from searnn.training import checkpoints

WITHOUT_DEFAULT = {
    "data",
    "train",
    "valid",
    "test",
    "target_level",
    "target_normalise",
    "language",
    "features",
    "init_from",
}


def text_of(capsys: pytest.CaptureFixture[str], *arguments: str) -> str:
    """What `searnn ...` prints before it leaves by itself, as for --help."""
    with pytest.raises(SystemExit) as left:
        main(list(arguments))
    assert left.value.code == 0
    return capsys.readouterr().out


def test_version_and_help(capsys: pytest.CaptureFixture[str]):
    assert text_of(capsys, "--version") == f"searnn {searnn.__version__}\n"
    out = text_of(capsys, "--help")
    assert all(f"  {command} " in out for command in ("train", "eval", "predict", "compare", "bench", "data"))
    out = text_of(capsys, "train", "--help")
    assert all(re.search(rf"^    {task}\s+\S", out, re.MULTILINE) for task in AXES["task"])


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
    seen: dict[str, set[str]] = {}
    for task in AXES["task"]:
        seen[task] = set()
        group = ""
        for line in text_of(capsys, "train", task, "--help").splitlines():
            if line.rstrip(":") in GROUPS and line.endswith(":"):
                group = line.rstrip(":")
            elif line.startswith("  --") and group:
                name = line.split()[0].removeprefix("--").removeprefix("[no-]").replace("-", "_")
                assert GROUP_OF[name] == group
                field = GROUPS[group].model_fields[name]
                assert field.description.split(":")[0] in line  # the help stands beside the flag, not below it
                assert line.endswith("]") or name in WITHOUT_DEFAULT
                seen[task].add(name)
    assert set().union(*seen.values()) == set(GROUP_OF) - {"name"}
    # What a task can have is shown, whatever else must be given with it; what it can never have is not.
    files = {"train", "valid", "test"}
    text = {"level", "min_count", "max_vocab", "pieces", "max_length", "skip_bad_lines", "metric"}
    own = {
        "pairs": files | text | {"target_level", "normalise", "target_normalise", "features", "source_noise"},
        "ocr": {"fold", "split", "data", "data_seed"},
        "spelling": files | {"benchmark", "noise", "windows", "skip_bad_lines", "data_seed"},
        "translation": files | text | {"corpus", "direction", "source_noise"},
        "chunking": files | {"data_seed"},
        "g2p": {"language", "normalise", "stress", "max_length", "skip_bad_lines", "metric", "source_noise"},
        "copy": {"symbols", "length", "examples", "reverse", "data_seed"},
    }
    by_task = {name for name, group in GROUP_OF.items() if group == "task"} | {"metric"}
    assert {task: names & by_task for task, names in seen.items()} == own


def test_help_says_what_every_algorithm_takes(capsys: pytest.CaptureFixture[str]):
    out = text_of(capsys, "train", "copy", "--help")
    assert re.search(r"^    mrt +--samples --sharpness --with-truth --cost$", out, re.MULTILINE)
    assert all(re.search(rf"^    {name} +--", out, re.MULTILINE) for name in AXES["algorithm"])
    assert re.search(r"^method of mrt:\n  --sharpness", out, re.MULTILINE)


def test_the_defaults_of_the_help_follow_what_stands_before_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    def default(*words: str) -> str:
        name, *before = words
        found = re.search(rf"^  --{name} .*?\[([^][]*)\]$", text_of(capsys, "train", *before, "--help"), re.M | re.S)
        assert found is not None
        return found[1]

    assert default("schedule", "ocr") == "cosine"
    assert default("schedule", "ocr", "--algorithm", "mle") == "constant"
    assert default("lr", "ocr", "--attention", "none") == "0.5"
    assert default("samples", "copy") == "1; mrt 20"
    assert default("samples", "copy", "--algorithm", "mrt") == "20"
    assert default("lr", "ocr", "--algorithm", "mle", "--tokens", "all") == "0.001"  # that does not apply
    settings = tmp_path / "settings.toml"
    settings.write_text('[method]\nalgorithm = "mle"\n')
    assert default("average", "ocr", "--config", str(settings)) == "0.999"
    assert main(["train", "ocr", "--attention", "some", "--help"]) == 2
    shown = capsys.readouterr()
    assert "--attention must be" in shown.err
    assert shown.out.startswith("usage: searnn train ocr")
    assert "100%d.tsv" in text_of(capsys, "train", "pairs", "--train", "100%d.tsv", "--help")


QUICK = ("searnn", "mle", "dagger", "actor-critic", "mixer")  # with and without state, phases and a warm-up


@pytest.mark.parametrize(
    "algorithm", [pytest.param(name, marks=[] if name in QUICK else pytest.mark.slow) for name in AXES["algorithm"]]
)
def test_every_algorithm_trains_and_goes_on(algorithm: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    run = tmp_path / "run"
    warmed = ["--warm-up", "1"] if algorithm != "mle" else []
    assert main([*copy_flags(run), "--algorithm", algorithm, *warmed]) == 0
    assert ("warm-up: the first 1 updates are by maximum likelihood" in capsys.readouterr().err) == bool(warmed)
    assert main(["train", "copy", "--run", str(run), "--resume", "--steps", "4"]) == 0
    last = json.loads((run / "metrics.jsonl").read_text().splitlines()[-1])
    assert last["step"] == 4
    assert last["train_loss"] is not None


@pytest.mark.parametrize(
    "settings",
    [
        "--cost bleu --bleu bahdanau --oracle best-suffix --measure bleu-4 --tokens top:3+neighbours:2+end",
        "--level chars --metric sequence_error --cost exact --model transformer --heads 2 --feedforward 8",
        "--target-level chars --model conv-gru --window 3 --min-count 2 --max-vocab 5 --max-length 9",
        "--level sentencepiece --pieces 8 --cost gleu --oracle optimal-edit --metric bleu --skip-bad-lines",
    ],
)
def test_settings_of_text_train(settings: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    run = tmp_path / "run"
    assert main([*pairs_flags(tmp_path, run), *settings.split(), "--steps", "1"]) == 0
    capsys.readouterr()
    assert main(["eval", str(run), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["metrics"]["error"] >= 0
    assert main(["train", "pairs", "--run", str(run), "--resume", "--steps", "2"]) == 0


def test_two_parallel_files_and_a_file_of_settings(tmp_path: Path):
    flags = pairs_flags(tmp_path, tmp_path / "one")
    lines = [line.split("\t") for line in (tmp_path / "train.tsv").read_text().splitlines()]
    for side in (0, 1):
        (tmp_path / f"side{side}.txt").write_text("".join(f"{line[side]}\n" for line in lines))
    both = ["--train", str(tmp_path / "side0.txt"), str(tmp_path / "side1.txt")]
    assert main([*flags, "--steps", "1"]) == 0
    assert main([*flags, *both, "--steps", "1", "--run", str(tmp_path / "two")]) == 0
    config = str(tmp_path / "two" / "config.toml")
    assert main(["train", "pairs", "--config", config, "--run", str(tmp_path / "three")]) == 0
    weights = [checkpoints.load(tmp_path / name / "last")[0] for name in ("one", "two", "three")]
    for other in weights[1:]:
        assert all(torch.equal(value, other[name]) for name, value in weights[0].items() if name.startswith("model."))


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
        "--model lstm --layers 2 --bidirectional --attention additive --dropout 0.1 --embedding 5",
        "--model transformer --heads 2 --feedforward 6 --layers 1 --dropout 0.1",
        "--model conv-gru --window 3 --embedding 5 --layers 2",
        "--cost bleu --bleu lin-och --oracle best-suffix --measure gleu --tokens top:2+end",
        "--cost gleu --roll-in mixed --roll-in-mix-per token --roll-out learned --oracle best-suffix --bleu bahdanau",
        "--optimizer adamw --schedule cosine --lr-warmup 1 --min-lr 0.0001 --clip none --precision 64-true",
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
    import searnn.runs.start

    def build(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(searnn.runs.start, "build", build)
    assert main(["train", "copy"]) == 130
    assert capsys.readouterr().err == "searnn: interrupted\n"


def test_a_bug_keeps_its_traceback(monkeypatch: pytest.MonkeyPatch):
    import searnn.runs.start

    monkeypatch.setattr(searnn.runs.start, "build", lambda *_: 1 // 0)
    with pytest.raises(ZeroDivisionError):
        main(["train", "copy"])


def test_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "none").mkdir()
    monkeypatch.setenv("SEARNN_DATA", str(tmp_path / "none"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert main(["data", "list"]) == 0
    assert "searnn data get ocr" in capsys.readouterr().out
    assert main(["data", "check", "ocr"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_as_a_program(tmp_path: Path):
    command = [sys.executable, "-m", "searnn.cli", "eval", str(tmp_path / "none")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert done.stderr == f"searnn: error: there is no run folder {tmp_path / 'none'}\n"
    assert contents(tmp_path) == {}
