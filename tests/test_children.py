"""Processes that searnn starts: no module of the current folder runs there that nobody asked for."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from tiny import copy_flags

from searnn.cli import main
from searnn.data.fetch import Way
from searnn.jobs import pool
from searnn.types import SearnnError

CANARY = "from pathlib import Path\nPath({!r}).touch()\n"
PARTS = """
import my_helper
class Loss:
    def __init__(self, slope: float = 1.0): self.slope = slope
    def __call__(self, scores, costs, valid):
        return my_helper.ONE * self.slope * (scores.softmax(-1) * costs).sum(-1)
"""


@pytest.fixture
def perch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to stand in, with modules of the names of others; each leaves a file behind where it is imported."""
    here = tmp_path / "here"
    here.mkdir()
    for name in ("pip", "tomli_w", "torch", "searnn", "json"):
        (here / f"{name}.py").write_text(CANARY.format(str(tmp_path / f"{name} sang")))
    monkeypatch.chdir(here)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    return here


def sang(tmp_path: Path) -> list[str]:
    return [path.name for path in tmp_path.glob("* sang")]


def test_pip_is_the_installed_one(perch: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("PYTHONPATH", str(perch))
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    way = Way("pip:nothing-of-that-name==1 --no-index", "0" * 64)
    with pytest.raises(SearnnError, match=r"pip could not download nothing-of-that-name==1 \(ERROR: No matching"):
        way.bring(scratch, lambda *_: None)
    assert sang(tmp_path) == []


@pytest.mark.slow
def test_jobs_of_several_seeds_find_the_users_own_parts_alone(
    perch: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The part lies in the current folder, what it needs on PYTHONPATH; they go on with it when given again."""
    there = tmp_path / "there"
    there.mkdir()
    (there / "my_helper.py").write_text("ONE = 1\n")
    (perch / "my_parts.py").write_text(PARTS)
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(["", ".", "../there"]))
    sys.path.append(str(there))  # as it is in a process started so
    flags = [*copy_flags(tmp_path / "both"), "--loss", "my_parts:Loss", "--slope", "2", "--seeds", "2"]
    for steps in ("2", "4"):
        assert main([*flags, "--steps", steps]) == 0
    assert (tmp_path / "both" / "comparison.json").is_file()
    assert sang(tmp_path) == []
    for name in ("my_parts", "my_helper"):
        del sys.modules[name]


def test_jobs_of_a_comparison(perch: Path, tmp_path: Path):
    flags = copy_flags(tmp_path)
    del flags[(at := flags.index("--run")) : at + 2]
    assert main(["compare", *flags[1:], "--algorithms", "mle", "--seeds", "1", "--out", str(tmp_path / "out")]) == 0
    assert sang(tmp_path) == []


def test_what_of_the_environment_a_job_gets(perch: Path, monkeypatch: pytest.MonkeyPatch):
    for name in pool.RANKS:
        monkeypatch.setenv(name, "1")
    monkeypatch.setenv("SEARNN_DATA", "somewhere")
    cases = (
        ("", None),
        (os.pathsep, None),
        (".", None),
        (f"..{os.pathsep}.", str(perch.parent)),
        (str(perch), str(perch)),
    )
    for given, kept in cases:
        monkeypatch.setenv("PYTHONPATH", given)
        found = pool.inherited()
        place = found.pop("PYTHONPATH", None)
        assert (place and str(Path(place).resolve())) == kept
        others = {name: value for name, value in os.environ.items() if name not in (*pool.RANKS, "PYTHONPATH")}
        assert found == others
