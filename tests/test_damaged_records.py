"""Damaged records and tensors of a run: each is told in one line that names the file, and none is used."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny import Refused, clone
from tiny_runs import finished_runs
from torch import Tensor

from searnn import SearnnError, sealed
from searnn.cli import main
from searnn.data.room import Room
from searnn.training import checkpoints, read_records
from searnn.training.saved import Line, Meta

FILES = ["best/state.json", "last/state.json", "metrics.jsonl", "text/room.json", "config.toml"]
NESTED = "[" * 100_000 + "]" * 100_000
RESUME = ("train", "copy", "--run", "run", "--resume", "--steps", "5")
PREDICT = ("predict", "run", "--input", "lines.txt")
REPORT = ("report", "run", "--no-examples", "--out", "page.html")
EXPLAIN = ("explain", "run", "--input", "0 1", "--out", "page.html")
MISSING = object()


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return finished_runs(tmp_path_factory.mktemp("base"))


def change(path: Path, where: str, value: Any) -> None:
    """Another value in a record, or text of JSON in place of one; the checksum goes, so that the fields are judged."""
    first, *rest = path.read_text().splitlines() if path.suffix == ".jsonl" else [path.read_text()]
    record = held = json.loads(first)
    del record["checksum"]
    *above, last = where.split(".")
    for name in above:
        held = held[name]
    if value is MISSING:
        del held[last]
    else:
        held[last] = "VALUE" if isinstance(value, bytes) else value
    text = json.dumps(record).replace('"VALUE"', value.decode() if isinstance(value, bytes) else "")
    path.write_text("".join(f"{line}\n" for line in (text, *rest)))


CHANGES: list[tuple[str, str, str, list[Any], tuple[str, ...]]] = [
    ("copy", "best/state.json", "tensors", ["/dev/zero", "../last/state.json", "", 3, None, "x\0y"], ("eval", "run")),
    ("copy", "best/state.json", "sha256", [None, "", 3, "A" * 64], ("eval", "run")),
    ("copy", "best/state.json", "format", ["1", None, 1.0, True, b"9" * 400], ("eval", "run")),
    ("copy", "best/state.json", "size", [-1, "x", 1.5], ("eval", "run")),
    ("copy", "best/state.json", "state", ["x", None, [], NESTED.encode()], ("eval", "run")),
    ("copy", "best/state.json", "state.record", [[], 3, None], REPORT),
    ("copy", "best/state.json", "state.record", [None], EXPLAIN),
    ("copy", "best/state.json", "state.record.valid_error", ["x", b"NaN", b"1e999", [[]], b"9" * 400], REPORT),
    ("copy", "best/state.json", "more", [1], ("eval", "run")),
    ("pairs", "best/state.json", "state.identity", [[], 3, MISSING], ("eval", "run")),
    ("copy", "last/state.json", "state.counters", [None, [], {"step": True}, {"steps": 3}], RESUME),
    ("copy", "last/state.json", "state.counters.step", ["x", b"NaN", b"9" * 400, [], -7, 1.5], RESUME),
    ("copy", "last/state.json", "state.counters.best_metric", ["x", b"Infinity", b"9" * 400], RESUME),
    ("copy", "last/state.json", "state.counters.due", ["x", 1], RESUME),
    ("copy", "last/state.json", "state.counters.recorded", [None, -2], RESUME),
    ("copy", "last/state.json", "state.counters.seconds", [None, -1.0], RESUME),
    ("copy", "last/state.json", "state.plateau", [3, MISSING, {"scale": "x"}, {"more": 1}], RESUME),
    ("copy", "last/state.json", "state.meter", [[], MISSING, {"loss": "x"}, {"loss": 0}, {"more": 1}], RESUME),
    ("copy", "last/state.json", "state.scaler", [7, MISSING, {"scale": 1.0}], RESUME),
    ("copy", "last/state.json", "state.settings", [[], MISSING, {"lr": []}], RESUME),
    ("copy", "last/state.json", "state.data", [3], RESUME),
    ("copy", "metrics.jsonl", "step", ["x", True, -1, 1.5, b"9" * 400, MISSING], REPORT),
    ("copy", "metrics.jsonl", "valid_error", ["x", [], {"a": 1}, b"NaN", b"9" * 400, NESTED.encode()], REPORT),
    ("copy", "metrics.jsonl", "seconds", ["x"], RESUME),
    ("pairs", "text/room.json", "per_unit", ["x", b"NaN", -1, True, 1e300, b"9" * 400, MISSING], PREDICT),
    ("pairs", "text/room.json", "extra", [1.5, True, 0, b"9" * 400, None, NESTED.encode()], PREDICT),
    ("pairs", "text/target.json", "units", ["abc", [], ["a", 3], NESTED.encode()], PREDICT),
    ("pairs", "text/target.json", "unknown", [-1, True, b"9" * 400], PREDICT),
    ("pairs", "text/source.json", "ended", [1, MISSING], PREDICT),
]  # fmt: skip


@pytest.mark.parametrize("changes", CHANGES, ids=[f"{file}-{where}" for _, file, where, *_ in CHANGES])
def test_a_field_of_another_kind(changes: tuple[Any, ...], base: Path, tmp_path: Path, refused: Refused):
    run, file, where, values, command = changes
    (tmp_path / "lines.txt").write_text("a b\n")
    clone(base / run, tmp_path / "run")
    path = tmp_path / "run" / file
    whole = path.read_bytes()
    for value in values:
        path.write_bytes(whole)
        change(path, where, value)
        message = refused(*command)
        assert len(message) < 600
        assert any(words in message for words in (file, str(Path(file).parent), "vocabulary", "lr"))


SETTINGS = [  # of a run, another line among them, what opens it, and what is told
    ("copy", "length = 3", f"length = {2**63}", ("predict", "run", "--input", "lines.txt"), "not enough memory"),
    ("ocr", "embedding = 8", f"embedding = {10**400}", ("eval", "run"), "not enough memory"),
    ("copy", 'algorithm = "searnn"', "algorithm = inf", REPORT, "config.toml holds what is no setting"),
    ("copy", 'algorithm = "searnn"', "algorithm = 1979-05-27", REPORT, "config.toml holds what is no setting"),
]


@pytest.mark.parametrize(("run", "before", "after", "command", "words"), SETTINGS)
def test_settings_of_a_run(run, before, after, command, words, base: Path, tmp_path: Path, refused: Refused):
    path = clone(base / run, tmp_path / "run") / "config.toml"
    (tmp_path / "lines.txt").write_text("0 1\n")
    assert before in path.read_text()
    path.write_text(path.read_text().replace(before, after))
    assert words in refused(*command)


def put(path: Path, instead: str) -> None:
    """Something else in the place of a file."""
    content = path.read_bytes()
    path.unlink()
    if instead == "/dev/zero":
        path.symlink_to(instead)
    elif instead == "a pipe":
        os.mkfifo(path)
    elif instead == "a folder":
        path.mkdir()
    elif instead == "a terabyte":
        with path.open("wb") as stream:
            stream.truncate(1 << 40)
    else:
        path.write_bytes(b"\xff" + content)


def told(capsys: pytest.CaptureFixture[str], *command: str | Path) -> str:
    """The one line with which the command is refused; of what is there nothing is read that may have no end."""
    assert main([str(word) for word in command]) == 2
    message = capsys.readouterr().err
    assert message.startswith("searnn: error: ")
    assert message.count("\n") == 1
    return message


@pytest.mark.parametrize("file", FILES)
@pytest.mark.parametrize("instead", ["/dev/zero", "a pipe", "a terabyte", "a folder", "not UTF-8"])
def test_no_file_of_a_run(file: str, instead: str, base: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    run = clone(base / "pairs", tmp_path / "run")
    (tmp_path / "lines.txt").write_text("a b\n")
    put(run / file, instead)
    report = ("report", run, "--no-examples", "--out", tmp_path / "page.html")
    resume = ("train", "pairs", "--run", run, "--resume")
    predict = ("predict", run, "--input", tmp_path / "lines.txt")
    message = told(capsys, *{"last/state.json": resume, "metrics.jsonl": report}.get(file, predict))
    assert Path(file).name in message or "checkpoint" in message


def in_first(
    alter: Callable[[Tensor], Tensor], start: str = "model."
) -> Callable[[dict[str, Tensor]], dict[str, Tensor]]:
    def made(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
        name = next(name for name, value in tensors.items() if name.startswith(start) and value.ndim)
        return {**tensors, name: alter(tensors[name])}

    return made


def with_value(value: float) -> Callable[[Tensor], Tensor]:
    return lambda tensor: tensor.clone().index_fill_(0, torch.tensor([0]), value)


TENSORS = [
    ("int8 there and float32 in this model", in_first(lambda tensor: tensor.to(torch.int8))),
    ("float16 there and float32", in_first(lambda tensor: tensor.half())),
    ("float64 there and float32", in_first(lambda tensor: tensor.double())),
    ("bool there and float32", in_first(lambda tensor: tensor > 0)),
    ("values that are not finite", in_first(with_value(float("nan")))),
    ("values that are not finite", in_first(with_value(float("inf")))),
    ("[3] there and missing", lambda tensors: {**tensors, "model.more": torch.zeros(3)}),
]
OF_OPTIMISER = [
    ("float16 there and float32", in_first(lambda tensor: tensor.half(), "optimizer.")),
    ("values that are not finite", in_first(with_value(float("nan")), "optimizer.")),
    ("[1] there and", in_first(lambda tensor: tensor.reshape(-1)[:1].clone(), "optimizer.")),
    ("optimizer.x is [1] there and missing", lambda tensors: {**tensors, "optimizer.x": torch.zeros(1)}),
    (
        "exp_avg is missing there",
        lambda tensors: {name: t for name, t in tensors.items() if not name.endswith("exp_avg")},
    ),
    ("meter.", lambda tensors: {name: t for name, t in tensors.items() if not name.startswith("meter.")}),
]


@pytest.mark.parametrize("part", ["best", "last"])
def test_tensors_are_not_cast(part: str, base: Path, tmp_path: Path, refused: Refused):
    run = clone(base / "copy", tmp_path / "run")
    tensors, meta = checkpoints.load(run / part)
    for words, alter in TENSORS + OF_OPTIMISER * (part == "last"):
        checkpoints.save(run / part, alter(tensors), meta)
        message = refused(*(("eval", "run") if part == "best" else RESUME))
        assert f"the checkpoint run/{part} is" in message
        assert words in message


@pytest.mark.parametrize("instead", ["/dev/zero", "a pipe", "a terabyte"])
def test_a_tensors_file_that_is_none(instead: str, base: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = next((clone(base / "copy", tmp_path / "run") / "best").glob("*.safetensors"))
    put(path, instead)
    assert path.name in told(capsys, "eval", tmp_path / "run")


def test_every_bit_of_a_record_counts(base: Path, tmp_path: Path):
    """Whatever bit of it is another, a record is told to be damaged, or says the same as before."""
    path = tmp_path / "room.json"
    whole = (base / "pairs" / "text" / "room.json").read_bytes()
    room, told = Room.load(base / "pairs" / "text"), 0
    for place in range(8 * len(whole)):
        changed = bytearray(whole)
        changed[place // 8] ^= 1 << place % 8
        path.write_bytes(changed)
        try:
            assert Room.load(tmp_path) == room
        except SearnnError:
            told += 1
    assert told > 0.9 * 8 * len(whole)  # the rest is white space at the end


def test_a_number_that_is_another_is_seen(base: Path, tmp_path: Path, refused: Refused):
    """What is sound in itself is held against the checksum."""
    run = clone(base / "copy", tmp_path / "run")
    path = run / "metrics.jsonl"
    path.write_text(path.read_text().replace('"step": 2', '"step": 1'))
    assert "line 1 of run/metrics.jsonl is damaged (its checksum is that of another content)" in refused(*REPORT)
    path = run / "best" / "state.json"
    path.write_text(path.read_text().replace('"train_loss": ', '"train_loss": 1'))
    assert "best/state.json is damaged (its checksum is that of another content)" in refused("eval", "run")


def test_records_of_the_version_before_are_read(base: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    run = clone(base / "pairs", tmp_path / "run")
    for name in ("best/state.json", "last/state.json", "text/room.json", "text/source.json", "text/target.json"):
        record = json.loads((run / name).read_text())
        del record["checksum"]
        record.pop("size", None)
        (run / name).write_text(json.dumps(record))
    lines = read_records(run / "metrics.jsonl")
    (run / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    assert main(["eval", str(run), "--json"]) == 0
    assert main(["eval", str(base / "pairs"), "--json"]) == 0
    first, second = (json.loads(line)["metrics"] for line in capsys.readouterr().out.splitlines())
    assert first == second
    assert main(["train", "pairs", "--run", str(run), "--resume", "--steps", "4"]) == 0
    assert read_records(run / "metrics.jsonl")[: len(lines) - 1] == lines[:-1]


def test_what_is_sealed_is_read_as_it_was():
    record = {
        "step": 3,
        "valid": 0.1 + 0.2,
        "small": 5e-324,
        "large": -1.7976931348623157e308,
        "none": None,
        "zero": -0.0,
    }
    text = sealed.text_of(record).encode()
    assert sealed.parse(text, Line, "here").model_dump(exclude_unset=True) == record
    assert sealed.parse(text.replace(b", ", b" ,\n"), Line, "here").step == 3  # white space is no content


def test_the_state_of_a_gradient_scaler_comes_back_as_it_was() -> None:
    scaler = torch.amp.GradScaler("cpu")
    scaler.scale(torch.ones(()))
    state = scaler.state_dict()
    found = sealed.parse(sealed.text_of({"scaler": state}).encode(), Meta, "state.json").scaler
    assert found == state
    assert {name: type(value) for name, value in found.items()} == {name: type(value) for name, value in state.items()}
