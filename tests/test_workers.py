"""The runs of a table by processes that live long: the same as those of `searnn reproduce`, which finds them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import workers
from reproduce_cases import PLAN

from searnn.cli import main
from searnn.jobs import experiments

ROWS = {name: replace(row, settings=row.settings.replace("--steps 20", "--steps 4")) for name, row in PLAN.rows.items()}
SMALL = replace(PLAN, rows=ROWS, beam=2, mbr=4, ensemble=2, seeds=2, metrics=["error"], columns={"MLE": "mle"})


@pytest.mark.slow
def test_reproduce_finds_what_workers_have_made(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(experiments, "read", lambda name: SMALL)
    words = ["table1", "--out", str(tmp_path / "there"), "--only", "copy"]
    # One worker, in this process, so that it has the small table.
    assert workers.main([*words, "--until", "1e12"]) == 0
    assert "copy, MLE, ensemble of 2" in capsys.readouterr().out
    made = {path: path.stat().st_mtime_ns for path in tmp_path.glob("there/copy/*/test.json")}
    assert sorted(path.parent.name for path in made) == ["mle-0", "mle-1", "mle-ensemble-of-2"]
    assert main(["reproduce", *words]) == 0
    shown = capsys.readouterr().out
    assert "2 of 2 were finished before" in shown
    assert "1 of 1 were finished before" in shown
    assert made == {path: path.stat().st_mtime_ns for path in made}
    assert main(["reproduce", "table1", "--out", str(tmp_path / "here"), "--only", "copy"]) == 0
    ours, theirs = (json.loads((tmp_path / place / "table1.json").read_text())["cells"] for place in ("there", "here"))
    for each in (*ours, *theirs):
        for run in each["runs"]:
            assert run.pop("folder").endswith(f"copy/mle-{run['seed']}")
    for name in ("test", "valid", "ways"):
        assert ours[0][name] == theirs[0][name]
    assert ours[0]["ensemble"]["test"] == theirs[0]["ensemble"]["test"]


def test_what_another_does_is_not_done_and_time_ends(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(experiments, "read", lambda name: SMALL)
    words = ["table1", "--out", str(tmp_path), "--only", "copy"]
    (tmp_path / "copy").mkdir()
    (tmp_path / "copy" / "mle-0.claim").touch()
    monkeypatch.setattr(workers.time, "sleep", lambda seconds: (tmp_path / "copy" / "mle-0.failed").write_text("no"))
    assert workers.main([*words, "--until", "1e12"]) == 0
    assert [path.parent.name for path in tmp_path.glob("copy/*/test.json")] == ["mle-1"]
    assert workers.main([*words, "--until", "0"]) == 0
    assert capsys.readouterr().out.count("MLE, seed") == 1


@pytest.mark.slow
def test_processes_share_the_runs(tmp_path: Path) -> None:
    settings = "--settings=--steps 2 --eval-every 2 --width 8 --batch-size 8 --device cpu"
    words = ["sigmorphon2021", "--quick", "--seeds", "2", "--only", "low, Adyghe", "--out", str(tmp_path / "out")]
    from tiny_data import tiny_data

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SEARNN_DATA", str(tiny_data(tmp_path / "data")))
        assert workers.main([*words, settings, "--processes", "2", "--seconds", "300"]) == 0
    folders = sorted(path.parent.name for path in tmp_path.glob("out/*/*/test.json"))
    assert folders == ["mle-0", "mle-1", "searnn-0", "searnn-1"]
