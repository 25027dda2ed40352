"""`searnn report`: the page as a file, several runs, bad input, and the end of training."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from report_cases import data_of, made_run, records, with_settings, write_run
from tiny import Refused, clone
from tiny_runs import finished_runs

import searnn
from searnn.cli import main
from searnn.reports.html import embedded
from searnn.reports.page import at_end, following, page, read_run, report
from searnn.reports.page.groups import differing, grouped, labels
from searnn.runs import load
from searnn.training import evaluate


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return finished_runs(tmp_path_factory.mktemp("base"))


@pytest.mark.parametrize("name", ["ocr", "copy", "pairs"])
def test_the_page_of_a_run(name: str, base: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It holds the records, the settings, and the outputs as `searnn eval` measures them."""
    run = clone(base / name, tmp_path / "run")
    assert main(["report", str(run), "--device", "cpu"]) == 0
    out = capsys.readouterr().out
    assert f"report: {run / 'report.html'}" in out
    found = data_of((run / "report.html").read_text(encoding="utf-8"))
    lines = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    (shown,) = found["runs"]
    assert shown["columns"]["step"] == [line["step"] for line in lines]
    assert shown["columns"]["valid_error"] == [line["valid_error"] for line in lines]
    assert dict(dict(shown["settings"])["task"])["name"] == name
    loaded = load(run)
    expected = evaluate(loaded.model, loaded.task.test(4), loaded.task)
    assert found["examples"]["metrics"] == pytest.approx(expected)
    assert found["examples"]["whole"]
    assert (found["examples"]["worst"][0]["pixels"] is not None) == (name == "ocr")
    assert (found["examples"]["worst"][0]["source"] is None) == (name == "ocr")
    for finding in shown["findings"]:
        assert f"{finding['level']}: {finding['title']}" in out


def test_a_page_is_complete_in_itself(base: Path, tmp_path: Path) -> None:
    out = tmp_path / "page.html"
    before = (base / "copy" / "report.html").read_bytes()
    assert main(["report", str(base / "copy"), "--split", "valid", "--out", str(out)]) == 0
    text = out.read_text(encoding="utf-8")
    assert data_of(text)["examples"]["split"] == "valid"
    outside = text.replace("http://www.w3.org/2000/svg", "")  # the name of a namespace, not an address
    assert not re.search(r"https?://|//cdn|@import|url\(|<link(?! rel=\"icon\" href=\"data:,\")|src=", outside)
    assert "connect-src 'none'" in text
    assert "default-src 'none'" in text
    assert (base / "copy" / "report.html").read_bytes() == before  # that of the run's end stays


def test_texts_cannot_leave_their_place(tmp_path: Path) -> None:
    """Whatever a user's data says, it stays data."""
    nasty = "</script><script>alert(1)</script> \u2028 <!-- & \ud800"
    run = made_run(tmp_path / "x")
    text = page(report([run], None, {"nasty": nasty}))
    assert text.count("<script") == 2
    assert data_of(text)["examples"]["nasty"] == nasty
    text.encode("utf-8")
    assert json.loads(embedded(["\ud800<"])) == ["\ud800<"]
    named = page(report([read_run(write_run(tmp_path / "<b>&", records()))]))
    assert "<title>&lt;b&gt;&amp;" in named


def test_without_examples_nothing_is_loaded(tmp_path: Path) -> None:
    run = write_run(tmp_path / "run", records())
    assert main(["report", str(run), "--no-examples"]) == 0
    assert data_of((run / "report.html").read_text())["examples"] is None


def test_examples_that_cannot_be_made_are_said(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A run without a model still gets its page; with --split the reader has asked for examples."""
    run = write_run(tmp_path / "run", records(), {"task": {"name": "copy"}})
    assert main(["report", str(run)]) == 0
    assert "no checkpoint 'best'" in capsys.readouterr().err
    assert "no checkpoint" in data_of((run / "report.html").read_text())["missing"]
    assert main(["report", str(run), "--split", "test"]) == 2


def test_no_test_data(base: Path, tmp_path: Path) -> None:
    """The validation data stands in, and the page says so."""
    run = clone(base / "pairs", tmp_path / "run")
    text = (run / "config.toml").read_text()
    (run / "config.toml").write_text(re.sub(r"test = \[.*?\]\n", "", text, flags=re.DOTALL))
    assert main(["report", str(run)]) == 0
    assert data_of((run / "report.html").read_text(encoding="utf-8"))["examples"]["split"] == "valid"


def seeds(folder: Path) -> list[Path]:
    """Three runs of one setting, two of another, apart in their seed and their height."""
    made = []
    for loss, count, height in (("kl", 3, 0.0), ("ll", 2, 0.2)):
        for seed in range(count):
            lines = [line | {"valid_error": line["valid_error"] + height + 0.01 * seed} for line in records()]
            made.append(write_run(folder / f"{loss}-{seed}", lines, with_settings(loss=loss, seed=seed)))
    return made


def test_several_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    folders = seeds(tmp_path / "runs")
    assert main(["report", *map(str, folders), "--no-examples"]) == 0
    found = data_of((tmp_path / "report.html").read_text())
    assert [group["name"] for group in found["groups"]] == ["kl", "ll"]
    assert [group["runs"] for group in found["groups"]] == [[0, 1, 2], [3, 4]]
    lowest = min(line["valid_error"] for line in records())
    assert found["groups"][0]["best"] == pytest.approx([lowest, lowest + 0.01, lowest + 0.02])
    assert found["differing"] == {"groups": ["kl", "ll"], "rows": [["loss", ["kl", "ll"]]]}
    curve = found["groups"][1]["curves"]
    plain = [line["valid_error"] for line in records()]
    assert curve["mean"] == pytest.approx([value + 0.205 for value in plain])
    assert curve["low"] == pytest.approx([value + 0.2 for value in plain])
    assert curve["high"] == pytest.approx([value + 0.21 for value in plain])
    assert curve["minutes"] == pytest.approx([line["seconds"] / 60 for line in records()])
    assert [finding["kind"] for finding in found["findings"]] == ["few-seeds"]


def test_a_folder_of_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    seeds(tmp_path / "runs")
    assert main(["report", "runs", "--no-examples", "--out", "all.html"]) == 0
    assert len(data_of((tmp_path / "all.html").read_text())["runs"]) == 5


def test_groups_are_named_by_what_tells_them_apart(tmp_path: Path) -> None:
    changes: list[dict[str, Any]] = [
        {"alpha": 1.0}, {"alpha": 1.0, "seed": 1}, {"alpha": 10.0}, {"roll_in": "reference"}, {"roll_in": None},
    ]  # fmt: skip
    runs = [made_run(tmp_path / str(at), settings=change) for at, change in enumerate(changes)]
    groups = grouped(runs)
    assert groups == [[0, 1], [2], [3], [4]]
    assert differing(runs) == ["roll_in", "alpha"]
    assert labels(runs, groups) == ["roll-in learned alpha 1", "roll-in learned alpha 10", "roll-in reference alpha 30",
                                    "alpha 30"]  # fmt: skip
    assert differing(runs[:2]) == []
    assert labels(runs[:2], [[0, 1]]) == ["0"]


def test_very_many_evaluations_are_thinned(tmp_path: Path) -> None:
    run = made_run(tmp_path / "long", 5000, valid_error=lambda n: 0.01 if n == 3333 else 0.5)
    (shown,) = report([run])["runs"]
    steps = shown["columns"]["step"]
    assert len(steps) < 1100
    assert steps == sorted(steps)
    assert {100, 333400, 500000} <= set(steps)  # the first, the best and the last
    assert {len(column) for column in shown["columns"].values()} == {len(steps)}


BAD: list[tuple[list[str], str]] = [
    (["nowhere"], "there is no run folder nowhere"),
    (["empty"], "empty is not the folder of a run: it has no config.toml"),
    (["broken"], "config.toml is not a TOML file"),
    (["damaged"], "line 2 of damaged/metrics.jsonl is damaged"),
    (["fine", "fine"], "the run fine was given twice"),
    (["fine", "--out", "empty"], "--out empty: it must be a file in a folder that is there"),
    (["fine", "--out", "none/page.html"], "--out none/page.html: it must be a file in a folder that is there"),
    (["fine", "--watch", "--out", "file/page.html"], "--out file/page.html: it must be a file in a folder"),
    (["fine", "--out", "file/page.html", "--no-examples"], "--out file/page.html: it must be a file in a folder"),
    (["fine", "--split", "train"], "NAME must be one of valid, test"),
    (["fine", "--no-examples", "--split", "test"], "--split does not apply here"),
    (["fine", "--serve", "--most", "3"], "--most does not apply here: --serve shows no examples"),
    (["fine", "--serve", "--watch"], "--watch does not apply here"),
    (["fine", "--serve", "--out", "x.html"], "--out does not apply here"),
    (["fine", "--port", "80"], "--port does not apply here: it belongs to --serve"),
    (["fine", "--serve", "--port", "99999"], "must be a port from 0 to 65535"),
    (["fine", "--most", "0"], "must be a whole number of at least 1"),
    ([], "RUN"),
]


@pytest.mark.parametrize(("arguments", "expected"), BAD, ids=lambda value: " ".join(value)[:30])
def test_bad_input_is_one_line(arguments: list[str], expected: str, tmp_path: Path, refused: Refused) -> None:
    write_run(tmp_path / "fine", records(2))
    (tmp_path / "empty").mkdir()
    write_run(tmp_path / "broken", records(2))
    (tmp_path / "broken" / "config.toml").write_text("= 3")
    write_run(tmp_path / "damaged", records(2))
    lines = (tmp_path / "damaged" / "metrics.jsonl").read_text().splitlines()
    (tmp_path / "damaged" / "metrics.jsonl").write_text(f"{lines[0]}\nnonsense\n{lines[1]}\n")
    (tmp_path / "file").write_text("dear to me")
    assert expected in refused("report", *arguments)


@pytest.mark.parametrize("words", [("report", "--no-examples"), ("explain", "--input", "0")])
def test_a_folder_that_may_not_be_written_to_is_said_at_once(
    words: tuple[str, ...], tmp_path: Path, refused: Refused, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = write_run(tmp_path / "run", records(2), {"task": {"name": "copy"}})
    monkeypatch.setattr("searnn.cli.parsers.os.access", lambda path, mode: False)
    assert "--out page.html cannot be written" in refused(words[0], run, *words[1:], "--out", "page.html")


def test_the_report_at_the_end_of_training(base: Path, tmp_path: Path) -> None:
    run = clone(base / "copy", tmp_path / "run")
    loaded, said = load(run), list[str]()
    at_end(run, loaded.task, loaded.model, said.append)
    assert said[-1] == f"report: {run / 'report.html'}"
    assert data_of((run / "report.html").read_text())["examples"]["count"] == 2


@pytest.mark.parametrize("damage", ["no best", "no outputs", "no room"])
def test_a_report_that_fails_does_not_fail_the_run(
    damage: str, base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = clone(base / "copy", tmp_path / "run")
    loaded, said = load(run), list[str]()
    if damage == "no best":
        (run / "best" / "state.json").unlink()
    elif damage == "no outputs":
        monkeypatch.setattr(following, "collect", lambda *a, **k: 1 // 0)
    else:
        (run / "report.html").unlink()
        (run / "report.html").mkdir()
    at_end(run, loaded.task, loaded.model, said.append)
    if damage == "no outputs":  # the page is there without them
        assert "division" in data_of((run / "report.html").read_text())["missing"]
    else:
        assert said[-1].startswith("no report was written: ")


TOY: dict[str, Any] = {
    "symbols": 3, "length": 3, "examples": 20, "width": 8, "batch_size": 4, "steps": 3, "eval_every": 2, "device": "cpu"
}  # fmt: skip


def test_training_in_python_ends_with_the_report_of_the_command(tmp_path: Path) -> None:
    run = searnn.train("copy", run=tmp_path / "run", show=False, **TOY)
    assert main(["report", str(run.folder), "--out", str(tmp_path / "page.html"), "--device", "cpu"]) == 0
    pages = ((folder / name).read_text() for folder, name in ((run.folder, "report.html"), (tmp_path, "page.html")))
    ours, theirs = map(data_of, pages)
    assert ours["examples"]["count"] == 2
    assert ours == theirs


def test_an_interrupted_training_in_python_has_no_report_and_one_that_fails_does_no_harm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("searnn.reports.page.following.read_run", lambda folder: 1 // 0)
    run = searnn.train("copy", run=tmp_path / "failed", **TOY)
    assert "no report was written: " in capsys.readouterr().err
    assert run.predict(["0 1"])
    assert not (run.folder / "report.html").exists()
    monkeypatch.undo()
    fit = searnn.runs.start.fit
    monkeypatch.setattr("searnn.runs.start.fit", lambda *a, **k: replace(fit(*a, **k), stopped="interrupted"))
    run = searnn.train("copy", run=tmp_path / "stopped", show=False, **TOY)
    assert run.predict(["0 1"])
    assert not (run.folder / "report.html").exists()
