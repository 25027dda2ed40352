"""`searnn bench`: its tables, its file, real data, growth, costs, interruptions and mistakes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from bench_cases import tiny
from rapidfuzz.distance import Levenshtein
from tiny import Refused
from tiny_data import tiny_data

from searnn.bench import SETTINGS, machine, running, tables
from searnn.bench.costs import LETTERS, CostSpeed, as_lists, near_pairs
from searnn.bench.phases import PHASES
from searnn.cli import main
from searnn.costs import EditDistance
from searnn.data import store
from searnn.types import SearnnError

ONE = ["--device", "cpu", "--threads", "1"]


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiny settings under the names of the real ones, and growth over few small sizes."""
    for name in SETTINGS:
        monkeypatch.setitem(SETTINGS, name, replace(tiny(name), rounds=2))
    monkeypatch.setitem(machine.MATRIX, "cpu", 64)
    monkeypatch.setitem(machine.COPIED, "cpu", 2**16)
    monkeypatch.setattr(running, "AXES", {"T": (2, 4), "V": (32, 64), "C": (1, 2)})


def printed(text: str) -> list[dict[str, list[str]]]:
    """Every printed table: its lines by their first cell."""
    found: list[dict[str, list[str]]] = []
    for line in text.splitlines():
        if line[:1] == "|":
            first, *rest = [cell.strip() for cell in line.strip("|").split("|")]
            if first == "":
                found.append({})
            found[-1][first] = rest
    return found


def test_all_settings_in_tables_and_in_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = tmp_path / "out.json"
    assert main(["bench", "--json", str(path), *ONE]) == 0
    out, err = capsys.readouterr()
    report = json.loads(path.read_text())
    assert report["command"].startswith(f"searnn bench --json {path} ")
    assert set(report["settings"]) == set(SETTINGS)
    assert not report["scale"]
    assert not report["costs"]
    assert {"processor", "cores", "torch", "python", "threads", "device", "load"} <= set(report["machine"])
    for (name, part), table in zip(report["settings"].items(), printed(out), strict=True):
        assert table[""] == [row["name"] for row in part["rows"]]
        assert set(table) >= {f"{phase}, ms" for phase in PHASES}
        assert table["median, ms"] == [tables.number(row["ms"]["median"]) for row in part["rows"]]
        assert table["of the floor, %"] == [tables.number(row["of_floor"], 100) for row in part["rows"]]
        assert tables.NONE not in {cell for line in table.values() for cell in line}
        assert f"{name}: timing" in err


def test_growth_and_costs_alone(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = tmp_path / "out.json"
    assert main(["bench", "--scale", "--costs", "--steps", "1", "--json", str(path), *ONE]) == 0
    out = capsys.readouterr().out
    report = json.loads(path.read_text())
    assert not report["settings"]
    lines = [(line["axis"], line["roll_out"]) for line in report["scale"]]
    assert lines == [("T", "learned"), ("T", "focused"), ("V", "learned"), ("C", "learned")]
    for line in report["scale"]:
        assert all(point["ms"]["median"] > 0 for point in line["points"])
        assert tables.power(line["axis"], line["time_exponent"]) in out
    libraries = {(line["cost"].split(",")[0], line["library"]) for line in report["costs"]}
    ours = {(cost, "searnn") for cost in ("BLEU", "GLEU", "edit distance", "Hamming")}
    assert libraries >= ours | {("BLEU", "sacrebleu"), ("edit distance", "rapidfuzz"), ("Hamming", "rapidfuzz")}
    for line in report["costs"]:
        speed = line["pairs_per_second"]
        assert speed["median"] == pytest.approx(1e3 * line["pairs"] / line["ms"]["median"])


def test_the_libraries_judge_the_same_pairs():
    """What is timed beside ours gives the same costs, so that the work is the same."""
    speed = CostSpeed(torch.device("cpu"), rows=2)
    assert {key.split("/")[0] for key in speed.works} == {cost for cost, _, _ in speed.lines.values()}
    outputs, targets = near_pairs(LETTERS, 10, 2)
    ours = EditDistance(LETTERS, normalised=False)(outputs, targets)
    theirs = sum(Levenshtein.distance(output, target) for output, target in as_lists(outputs, targets))
    assert ours.sum() == theirs


def test_real_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.setenv("SEARNN_DATA", str(tiny_data(tmp_path / "data")))
    monkeypatch.setattr(store, "_verify", lambda file, path: None)  # the tiny files are not the public ones

    def lost() -> None:
        raise SearnnError("the data is lost")

    monkeypatch.setitem(SETTINGS, "nmt", replace(SETTINGS["nmt"], real=lost))
    path = tmp_path / "out.json"
    assert main(["bench", "--real", "--quick", "--pretrain", "2", "--batch-size", "2", "--json", str(path), *ONE]) == 0
    report = json.loads(path.read_text())
    assert {name: part["data"] for name, part in report["settings"].items()} == {"ocr": "ocr", "spelling": "spelling"}
    assert [part["sizes"]["vocabulary"] for part in report["settings"].values()] == [26, 43]
    assert [part["sizes"]["batch_size"] for part in report["settings"].values()] == [2, 2]
    assert len(report["settings"]["ocr"]["rows"][0]["ms"]["all"]) == 3
    assert report["missing"] == {"nmt": "the data is lost"}
    assert "nmt: left out: the data is lost" in capsys.readouterr().err


def test_an_interruption(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    def impatient(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(running.Comparison, "take_apart", impatient)
    path = tmp_path / "out.json"
    assert main(["bench", "ocr", "nmt", "--json", str(path), *ONE]) == 130
    out, err = capsys.readouterr()
    report = json.loads(path.read_text())
    assert report["interrupted"]
    assert list(report["settings"]) == ["ocr"]
    assert all(len(row["ms"]["all"]) == 2 for row in report["settings"]["ocr"]["rows"])
    assert printed(out)[0]["total, ms"] == [tables.NONE] * 8
    assert err.splitlines()[-1].startswith("searnn: interrupted")


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ("ocl", "did you mean ocr"),
        ("ocr --steps 0", "whole number of at least 1"),
        ("ocr --steps 3 --quick", "--quick"),
        ("ocr --device cqu", "device"),
        ("ocr --precision bf16 --device cpu", "GPU"),
        ("ocr --precision bf16 --engine plain --device cpu", "only fast paths have"),
        ("ocr --precision half", "float32"),
        ("ocr --engine warp", "auto"),
        ("ocr --json no/such/folder/f.json", "folder that is there"),
        ("ocr --json .", "folder that is there"),
        ("--costs --real", "--real"),
        ("ocr --pretrain 3", "--real"),
        ("--scale --batch-size 3", "--batch-size"),
        ("ocr --stesp 3", "did you mean --steps"),
    ],
)
def test_mistakes(refused: Refused, arguments: str, told: str):
    assert told in refused("bench", *arguments.split())


def test_no_data_at_all_is_a_mistake(refused: Refused, monkeypatch: pytest.MonkeyPatch, capsys):
    def lost() -> None:
        raise SearnnError("the data is lost")

    monkeypatch.setitem(SETTINGS, "ocr", replace(SETTINGS["ocr"], real=lost))
    assert main(["bench", "ocr", "--real", *ONE]) == 2
    assert capsys.readouterr().err.splitlines()[-1] == "searnn: error: ocr: the data is lost"


@pytest.mark.parametrize(
    ("value", "shown"),
    [(None, "-"), (0.0, "0"), (0.01234, "0.0123"), (12.34, "12.3"), (1234.5, "1,234"), (2_340_000, "2.34M")],
)
def test_numbers_have_three_digits_that_count(value: float | None, shown: str):
    assert tables.number(value) == shown
