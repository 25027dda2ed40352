"""Every command of the documentation is run, page by page, from top to bottom; `docs_cases` has those that are not."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
import tiny
from docs_cases import DOCS, LONG, NOT_RUN, PAGES, ROOT, SLOW, has_long, lines, run_page, split
from tiny import pairs_files
from tiny_data import WORDS, own_files, tiny_data

from searnn.config.registry import AXES
from searnn.data import store
from searnn.data.sheets import read_letters, write_sheet
from searnn.jobs import pool

OWN_CODE = "def function(output, target):\n    return abs(len(output) - len(target))\n\n\nmy_function = function\n"
UNVERIFIED = (
    "import json, pathlib, sys; from searnn.cli.child import run; from searnn.data import store; "
    "store.verify = lambda *given: None; sys.exit(run(pathlib.Path(sys.argv[1]), json.loads(sys.argv[2])))"
)
AS_IT_IS = DOCS / "pairs.md"  # its sizes are small, and what it prints is told


def pages(slow: bool) -> list[object]:
    """The pages with commands to run, some of them in the slow tests only."""
    found = [page for page in PAGES if page != AS_IT_IS and any(lines(page))]
    late = {page: [pytest.mark.slow] if page in SLOW or slow else [] for page in found}
    chosen = [page for page in found if not slow or has_long(page)]
    return [pytest.param(page, id=str(page.relative_to(ROOT)), marks=late[page]) for page in chosen]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Something of every data set, letters of many words among it: `--split words` divides the words."""
    folder = tiny_data(tmp_path_factory.mktemp("data") / "sets")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tiny, "WORDS", WORDS[:60])
        tiny.tiny_letters(folder / "ocr" / "letters.npz", words=60)
    return folder


@pytest.fixture
def place(tmp_path: Path, data: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to be in, with the files that a reader has: pairs, text, pictures, a module."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SEARNN_DATA", str(data))
    monkeypatch.setattr(store, "verify", lambda *given: None)  # the tiny files are not the public ones
    monkeypatch.setattr(pool, "PROGRAM", (sys.executable, "-c", UNVERIFIED))
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "my_module", raising=False)
    own_files(tmp_path)
    pairs_files(tmp_path)
    (tmp_path / "in.txt").write_text("a b\nc\n")
    (tmp_path / "my_module.py").write_text(OWN_CODE)
    ink = (np.random.default_rng(0).random((7, 16, 8)) < 0.3).astype(np.float32)
    np.savez(tmp_path / "words.npz", pixels=ink, word_lengths=[3, 4])
    write_sheet(read_letters(str(tmp_path / "words.npz")), str(tmp_path / "words.png"))
    return tmp_path


@pytest.mark.parametrize("page", pages(slow=False))
def test_the_commands_of_a_page_run(page: Path, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    printed = run_page(page, monkeypatch)
    assert all(out for line, out in printed if "searnn" in line and "refused" not in line and " > " not in line)


@pytest.mark.parametrize("page", pages(slow=True))
def test_the_long_commands_of_a_page_run(page: Path, place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    printed = run_page(page, monkeypatch, long=True)
    assert any(LONG.match(line) for line, _ in printed)


@pytest.mark.slow
def test_the_page_on_pairs_runs_as_it_is(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    printed = run_page(AS_IT_IS, monkeypatch, shrink=False)
    predicted = [(line, out.splitlines()) for line, out in printed if "searnn predict" in line]
    assert predicted[0][1] == ["nomel", "gif"]
    best = next(out for line, out in predicted if "--n-best 3 --scores" in line)
    assert [line.split("\t")[0] for line in best] == ["1"] * 3 + ["2"] * 3
    assert all(float(line.split("\t")[2]) <= 0 for line in best)
    skipped = next(out for line, out in predicted if "--skip-bad-lines" in line)
    assert skipped == ["nomel", "", "gif"]


def test_the_page_on_tasks_has_all_of_them() -> None:
    told = [split(line) for line, _ in lines(DOCS / "tasks.md")]
    trained = {words[2] for words in told if words[:2] == ["searnn", "train"]}
    assert trained == set(AXES["task"]) - {"ocr", "pairs"}
    assert sum("predict" in words for words in told) == len(trained)


def test_every_reason_not_to_run_a_command_is_needed() -> None:
    told = [line for page in PAGES for line, _ in lines(page)]
    assert [start for start in NOT_RUN if not any(line.startswith(start) for line in told)] == []
