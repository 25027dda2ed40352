"""`searnn bench`: its tables, its file, real data, interruptions and mistakes."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from bench_cases import printed, tiny
from tiny import Refused
from tiny_data import tiny_data

from searnn.bench import SETTINGS, rendering, running
from searnn.bench.spans import PHASES
from searnn.cli import main
from searnn.data import store
from searnn.types import SearnnError

ONE = ["--device", "cpu", "--threads", "1"]


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiny settings under the names of the real ones."""
    for name in SETTINGS:
        monkeypatch.setitem(SETTINGS, name, replace(tiny(name), rounds=2))


def test_all_settings_in_tables_and_in_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = tmp_path / "out.json"
    assert main(["bench", "--json", str(path), *ONE]) == 0
    out, err = capsys.readouterr()
    report = json.loads(path.read_text())
    assert report["command"].startswith(f"searnn bench --json {path} ")
    assert set(report["settings"]) == set(SETTINGS)
    assert {"processor", "cores", "torch", "python", "threads", "device", "load"} <= set(report["machine"])
    for (name, part), table in zip(report["settings"].items(), printed(out), strict=True):
        assert table[""] == [row["name"] for row in part["rows"]]
        assert set(table) >= {f"{phase}, ms" for phase in PHASES}
        assert table["median, ms"] == [rendering.number(row["ms"]["median"]) for row in part["rows"]]
        assert table["x MLE"] == [rendering.number(row["x_mle"]) for row in part["rows"]]
        assert rendering.NONE not in {cell for line in table.values() for cell in line}
        assert f"{name}: timing" in err


@pytest.mark.slow
def test_real_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]):
    monkeypatch.setenv("SEARNN_DATA", str(tiny_data(tmp_path / "data")))
    monkeypatch.setattr(store, "verify", lambda *given: None)  # the tiny files are not the public ones

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
    assert printed(out)[0]["total, ms"] == [rendering.NONE] * 8
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
        ("--scale", "python benchmarks/growth.py"),
        ("ocr --costs", "python benchmarks/costs.py"),
        ("ocr --pretrain 3", "--real"),
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
    assert rendering.number(value) == shown
