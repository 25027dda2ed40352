"""The text tasks by the command line: training on files, evaluating, predicting line by line, resuming."""

from __future__ import annotations

import gzip
import json
import lzma
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import torch
from tiny import Refused, clone
from tiny_data import conll_files, data_folder, sentences, spelling_files, write_lines
from training_cases import lines as records
from training_cases import same, weights

import searnn
from searnn.cli import main

SIZES = ["--width", "8", "--batch-size", "4", "--steps", "3", "--eval-every", "3", "--device", "cpu"]
OWN = """
def shorter(output, target):
    assert all(isinstance(unit, str) for unit in [*output, *target])
    assert set(target) <= {*"abcdefghijklmnopqrstuvwxyz .", *"the dog cat house white boat men runs".split()}
    return abs(len(output) - len(target))
def broken(output, target):
    raise ValueError("no luck")
def endless(output, target):
    return float("inf")
"""
LINES = ["der hund", "m\u00e4nner", "ein haus \u4e16 die katze", "das wei\u00dfe boot l\u00e4uft ."]


@pytest.fixture(scope="session")
def files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pairs as one file with tabs, as two parallel files, and packed."""
    folder = tmp_path_factory.mktemp("pairs")
    for name, count in (("train", 24), ("valid", 6), ("test", 5)):
        pairs = sentences(count, count)
        content = write_lines(folder / f"{name}.tsv", map("\t".join, pairs)).read_bytes()
        (folder / f"{name}.tsv.gz").write_bytes(gzip.compress(content))
        (folder / f"{name}.xz").write_bytes(lzma.compress(content))
        for side, texts in zip(("de", "en"), zip(*pairs, strict=True), strict=True):
            write_lines(folder / f"{name}.{side}", texts)
    return folder


def flags(files: Path, run: Path, form: str = ".tsv") -> list[str]:
    parts = [(name, [str(files / f"{name}{end}") for end in form.split("+")]) for name in ("train", "valid", "test")]
    given = [word for name, paths in parts for word in (f"--{name}", *paths)]
    return ["train", "pairs", *given, "--run", str(run), *SIZES]


@pytest.fixture(scope="session")
def trained(files: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run whose data is gone."""
    folder = tmp_path_factory.mktemp("run")
    for name in ("train", "valid", "test"):
        (folder / f"{name}.tsv").write_bytes((files / f"{name}.tsv").read_bytes())
    assert main([*flags(folder, folder / "run"), "--level", "words"]) == 0
    for path in folder.glob("*.tsv"):
        path.unlink()
    return folder / "run"


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "my_measures.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "my_measures", raising=False)


def evaluated(run: Path, capsys: pytest.CaptureFixture[str], *more: str) -> dict:
    capsys.readouterr()
    assert main(["eval", str(run), "--json", *more]) == 0
    found: dict = json.loads(capsys.readouterr().out)
    return found


def predicted(run: Path, capsys: pytest.CaptureFixture[str], content: bytes, *more: str) -> list[str]:
    path = run.parent / "input.txt"
    path.write_bytes(content)
    capsys.readouterr()
    assert main(["predict", str(run), "--input", str(path), "--device", "cpu", *more]) == 0
    path.unlink()
    return capsys.readouterr().out.splitlines()


def test_files_of_every_form_train_the_same_run(files: Path, tmp_path: Path) -> None:
    for form in (".tsv", ".de+.en", ".tsv.gz", ".xz"):
        assert main([*flags(files, tmp_path / form, form), "--algorithm", "mle", "--steps", "1"]) == 0
        assert same(weights(tmp_path / form / "last"), weights(tmp_path / ".tsv" / "last"))


@pytest.mark.parametrize(
    ("settings", "metric", "more"),
    [
        ("--algorithm mle --label-smoothing 0.1", "error", []),
        ("--level chars --cost edit --normalised-cost --max-length 100", "error", []),
        ("--level chars --target-level words --cost hamming", "error", ["bleu"]),
        ("--level words --min-count 2 --max-vocab 9 --cost exact", "sequence_error", ["bleu"]),
        ("--level sentencepiece --pieces 28 --cost bleu", "bleu", ["bleu"]),
        ("--level words --cost gleu --model transformer --heads 2", "bleu", ["bleu"]),
        ("--level words --cost my_measures:shorter --model conv-gru", "my_measures:shorter", ["bleu", "cost"]),
        ("--metric my_measures:shorter --model lstm", "my_measures:shorter", ["cost"]),
        ("--metric sequence_error", "sequence_error", []),
    ],
)
def test_settings_train(
    settings: str, metric: str, more: list[str], files: Path, own: None, tmp_path: Path, capsys
) -> None:
    """The metric that decides is that of the cost unless it is given."""
    run = tmp_path / "run"
    assert main([*flags(files, run), *settings.split()]) == 0
    trust = ["--trust-code"] if "my_measures" in settings else []
    found = evaluated(run, capsys, "--split", "valid", *trust)
    assert set(found["metrics"]) == {"error", "sequence_error", *more}
    assert tomllib.loads((run / "config.toml").read_text())["optimisation"]["metric"] == metric
    best = json.loads((run / "best" / "state.json").read_text())["state"]["record"]
    assert {f"valid_{name}": value for name, value in found["metrics"].items()}.items() <= best.items()
    assert ("signature" in found) == ("bleu" in more) == ("signature" in best)
    assert len(predicted(run, capsys, "\n".join(LINES).encode())) == len(LINES)


def test_bleu_is_signed(trained: Path, files: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = clone(trained, tmp_path / "run")
    settings = run / "config.toml"
    settings.write_text(settings.read_text().replace(str(trained.parent), str(files)))
    found = evaluated(run, capsys)
    assert found["split"] == "test"
    assert "tok:none" in found["signature"]
    assert all(record["signature"] == found["signature"] for record in records(run))
    assert main(["eval", str(run), "--beam", "2"]) == 0
    assert found["signature"] in capsys.readouterr().out


def test_predict_keeps_order_and_count(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    many = [LINES[number % 3] + " ." * (number % 5) for number in range(11)]  # more than a batch
    whole = predicted(trained, capsys, "\n".join(many).encode())
    assert len(whole) == 11
    assert len(set(whole)) > 2
    assert [predicted(trained, capsys, line.encode())[0] for line in many[:4]] == whole[:4]
    assert predicted(trained, capsys, ("\ufeff" + "\r\n".join(many) + "\r\n").encode()) == whole
    beams = predicted(trained, capsys, "\n".join(many).encode(), "--beam", "3")
    best = predicted(trained, capsys, "\n".join(many).encode(), "--n-best", "3")
    assert [line.split("\t")[0] for line in best] == [str(number) for number in range(1, 12) for _ in range(3)]
    assert [line.split("\t")[1] for line in best[::3]] == beams
    assert all(len(set(best[start : start + 3])) == 3 for start in range(0, 33, 3))


def mean_log_probability(run: searnn.Run, line: str, output: str) -> float:
    """Of the tokens of an output and its EOS where the room holds it, by the model's teacher-forced pass."""
    vocab = run.task.vocab
    batch = run.batch([run.task.read(line)])
    tokens = [run.task.target.ids[word] for word in output.split()]
    tokens += [vocab.eos] * (len(tokens) < batch.limits()[0])
    with torch.no_grad():
        scores, _ = run.model.trace(run.model.encode(batch.inputs), torch.tensor([tokens]))
    scores[..., [token for token in (vocab.pad, vocab.bos) if token < scores.shape[-1]]] = -torch.inf
    picked = scores.log_softmax(-1)[0, torch.arange(len(tokens)), torch.tensor(tokens)]
    return float(picked.sum() / len(tokens))


@pytest.mark.parametrize("more", [["--n-best", "3"], ["--n-best", "1"], ["--n-best", "2", "--beam", "4"]])
def test_scores_are_those_of_the_model(trained: Path, more: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    run = searnn.load(trained)
    found = predicted(trained, capsys, "\n".join(LINES).encode(), "--scores", *more)
    assert len(found) == len(LINES) * int(more[1])
    for row in found:
        number, output, score = row.split("\t")
        assert float(score) == pytest.approx(mean_log_probability(run, LINES[int(number) - 1], output), abs=1e-3)
    plain = predicted(trained, capsys, "\n".join(LINES).encode(), "--scores", "--beam", more[-1])
    assert plain == [row.split("\t", 1)[1] for row in found[:: int(more[1])]]


@pytest.mark.parametrize(
    ("bad", "reason"), [(b"", "it is empty"), (b" \t", "it is empty"), (b"a\xff", "it is not UTF-8"), (b"a\0", "NUL")]
)
def test_bad_lines(bad: bytes, reason: str, trained: Path, capsys: pytest.CaptureFixture[str], refused: Refused):
    content = b"der hund\n" + bad + b"\nein haus\n"
    Path("input.txt").write_bytes(content)
    told = refused("predict", trained, "--input", "input.txt", answered=1)
    assert told.startswith("input.txt, line 2 is bad: ")
    assert told.endswith(f"{reason}; mend it, or leave it out with --skip-bad-lines")
    found = predicted(trained, capsys, content, "--skip-bad-lines")
    good = predicted(trained, capsys, b"der hund\nein haus\n")
    assert found == [good[0], "", good[1]]
    found = predicted(trained, capsys, content, "--skip-bad-lines", "--n-best", "2")
    assert [row.split("\t")[0] for row in found] == ["1", "1", "2", "2", "3", "3"]


def test_what_predict_refuses(trained: Path, refused: Refused, monkeypatch: pytest.MonkeyPatch) -> None:
    assert "a beam of 2 finds no more" in refused("predict", trained, "--n-best", "3", "--beam", "2")
    Path("empty.txt").touch()
    assert refused("predict", trained, "--input", "empty.txt").startswith("empty.txt is empty")
    assert "none.txt: No such file" in refused("predict", trained, "--input", "none.txt")
    Path("long.txt").write_text("der hund " * 101)
    assert "line 1 is bad: it has 202 units, more than the 200" in refused("predict", trained, "--input", "long.txt")
    Path("gap.txt").write_text("der hund\n\n")
    with Path("gap.txt").open() as stdin:
        monkeypatch.setattr(sys, "stdin", stdin)
        assert refused("predict", trained, answered=1).startswith("the standard input, line 2 is bad: it is empty")


def test_a_pipe_that_stays_open(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    expected = predicted(trained, capsys, "\n".join(LINES).encode())
    command = [sys.executable, "-m", "searnn.cli", "predict", str(trained), "--device", "cpu"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONIOENCODING": "utf-8"}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment) as process:
        assert process.stdin is not None is not process.stdout
        for line, answer in zip(LINES, expected, strict=True):
            process.stdin.write(f"{line}\n".encode())
            process.stdin.flush()
            assert process.stdout.readline().decode().rstrip("\n") == answer
        process.stdin.write(LINES[0].encode())  # a last line may lack its end
        process.stdin.close()
        assert process.stdout.read().decode() == f"{expected[0]}\n"
    assert process.returncode == 0


@pytest.mark.parametrize("settings", ["--level words", "--algorithm mle --level sentencepiece --pieces 28"])
def test_resuming_equals_never_stopping(settings: str, files: Path, tmp_path: Path) -> None:
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    assert main([*flags(files, whole), *settings.split()]) == 0
    assert main([*flags(files, broken), *settings.split(), "--steps", "1"]) == 0
    assert main(["train", "pairs", "--run", str(broken), "--resume", "--steps", "3"]) == 0
    assert same(weights(whole / "last"), weights(broken / "last"))
    assert records(whole) == records(broken)


def test_resuming_needs_the_data(files: Path, tmp_path: Path, refused: Refused) -> None:
    data = clone(files, tmp_path / "data")
    run = tmp_path / "run"
    assert main([*flags(data, run, ".tsv.gz"), "--steps", "1"]) == 0
    again = ("train", "pairs", "--run", run, "--resume", "--steps", "2")
    content = (data / "train.tsv.gz").read_bytes()
    (data / "train.tsv.gz").write_bytes(content[:-9])
    assert "train.tsv.gz is damaged or cut short" in refused(*again)
    (data / "train.tsv.gz").unlink()
    assert "train.tsv.gz cannot be read: No such file" in refused(*again)
    (data / "train.tsv.gz").write_bytes(gzip.compress(gzip.decompress(content) + b"der hund\tthe dog\n"))
    assert "the training data is not what it was" in refused(*again)
    (data / "train.tsv.gz").write_bytes(content)
    (run / "text" / "room.json").write_text("{")
    assert "room.json is damaged" in refused(*again)
    assert "room.json is damaged" in refused("predict", run, "--input", data / "test.de")


def test_the_vocabulary_belongs_to_the_model(trained: Path, files: Path, tmp_path: Path, refused: Refused) -> None:
    run = clone(trained, tmp_path / "run")
    target = run / "text" / "target.json"
    record = json.loads(target.read_text())
    record["units"][1:] = record["units"][:0:-1]
    del record["checksum"]  # as if it had been made so
    target.write_text(json.dumps(record))
    predict = ("predict", run, "--input", files / "test.de")
    assert "is not the vocabulary that the model was trained with" in refused(*predict)
    for path in (run / "text").iterdir():
        path.unlink()
    (run / "text").rmdir()
    assert "which holds the run's vocabulary" in refused(*predict)


def test_a_line_too_long_to_be_held_is_a_bad_line(trained: Path, capsys: pytest.CaptureFixture[str]) -> None:
    content = b"der hund\n" + b"a " * 2**19 + b"a\nein haus\n"
    good = predicted(trained, capsys, b"der hund\nein haus\n")
    assert predicted(trained, capsys, content, "--skip-bad-lines") == [good[0], "", good[1]]
    packed = predicted(trained, capsys, gzip.compress(b"der hund\nein haus\n"))
    assert packed == good


def test_training_refuses_in_one_line(files: Path, own: None, refused: Refused) -> None:
    assert "the task pairs needs --valid" in refused("train", "pairs", "--train", files / "train.tsv")
    run = flags(files, Path("run"))
    three = [files / f"train.{end}" for end in ("de", "en", "tsv")]
    assert "3 files were given for pairs of lines: expected one with tabs, or two" in refused(*run, "--train", *three)
    assert "train.de has 24 lines and" in refused(*run, "--train", files / "train.de", files / "test.en")
    Path("bad.tsv").write_bytes(b"a\tb\nno tab\n")
    assert "bad.tsv has 1 bad line: 1 no tab (line 2)" in refused(*run, "--valid", "bad.tsv")
    alone = refused("train", "translation", "--train", files / "train.tsv", *SIZES)
    assert "files of your own need --train and --valid" in alone


def test_a_metric_that_fails_is_told_in_one_line(files: Path, own: None, capsys: pytest.CaptureFixture[str]) -> None:
    for name, told in (("broken", "failed on output [.*ValueError: no luck"), ("endless", "gave inf on output [")):
        assert main([*flags(files, Path(name)), "--metric", f"my_measures:{name}", "--steps", "1"]) == 2
        last = capsys.readouterr().err.splitlines()[-1]
        assert last.startswith(f"searnn: error: the metric {name} ")
        assert all(part in last for part in told.split(".*"))


@pytest.mark.parametrize("algorithm", ["searnn", "mle"])
@pytest.mark.parametrize(
    ("task", "line", "metrics"),
    [
        ("spelling", "the qwick; fox", {"error", "sequence_error"}),
        ("translation", "der hund l\u00e4uft .", {"error", "sequence_error", "bleu"}),
        ("chunking", "The/D cats/N ran/V", {"f1", "precision", "recall", "accuracy"}),
        ("g2p", "Abba", {"per", "wer"}),
    ],
)
def test_public_tasks(
    task: str, line: str, metrics: set[str], algorithm: str,
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    spelling_files(conll_files(data_folder(tmp_path / "data", monkeypatch)))
    assert main(["train", task, "--run", str(tmp_path / "run"), "--algorithm", algorithm, *SIZES]) == 0
    assert set(evaluated(tmp_path / "run", capsys)["metrics"]) == metrics
    found = predicted(tmp_path / "run", capsys, f"{line}\n{line}\n".encode(), "--beam", "2")
    assert len(found) == 2
    assert found[0] == found[1]
    if task == "chunking":
        assert len(found[0].split()) == 3
        scored = predicted(tmp_path / "run", capsys, b"The/D", "--n-best", "6", "--scores")
        assert sorted(row.split("\t")[1] for row in scored) == ["", "B-NP", "B-VP", "I-NP", "I-VP", "O"]
        assert scored[-1] == "1\t\t-inf"  # a word has no more tags
