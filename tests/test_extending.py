"""The page on parts of one's own and the examples: each is complete, short, and does what it says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from docs_cases import ROOT, blocks

PAGE = ROOT / "docs" / "extending.md"
AXES = ["A model", "A cost", "A policy", "A loss", "A task", "An algorithm"]
EXAMPLES = {
    "own_pairs": ["--steps", "2", "--count", "60", "--width", "8"],
    "own_model": ["--steps", "2", "--width", "8"],
    "own_cost": ["--steps", "2", "--count", "60", "--width", "8"],
    "hugging_face": ["--first", "1", "--steps", "1", "--width", "8", "--family", "bart"],
}
NUMBER = r"(\d+\.\d+)"


def section(title: str) -> tuple[int, str]:
    """The only block of a section."""
    lines = [*PAGE.read_text().splitlines(), "## the end"]
    first = lines.index(f"## {title}")
    last = next(number for number, line in enumerate(lines) if number > first and line.startswith("## "))
    (block,) = [block for block in blocks(PAGE, "python") if first < block[0] < last]
    return block


def run(title: str, capsys: pytest.CaptureFixture[str]) -> str:
    """Run a section's block alone; what it printed."""
    line, block = section(title)
    exec(compile("\n" * line + block, str(PAGE), "exec", dont_inherit=True), {"__name__": "__main__"})
    return capsys.readouterr().out


def test_every_part_has_an_example_under_sixty_lines() -> None:
    titles = re.findall(r"^## (.*)$", PAGE.read_text(), re.MULTILINE)
    assert titles == [*AXES, "What a part may offer besides"]
    assert len(blocks(PAGE, "python")) == len(AXES)
    for title in AXES:
        assert len(section(title)[1].splitlines()) < 60, title


def test_a_model_of_ones_own(capsys: pytest.CaptureFixture[str]) -> None:
    assert run("A model", capsys) == ""  # it holds itself against its own forward


def test_costs_of_ones_own(capsys: pytest.CaptureFixture[str]) -> None:
    lines = run("A cost", capsys).splitlines()
    assert [line.split()[0] for line in lines] == ["CallableCost", "TooLong"]
    assert all(float(line.split()[1]) > 0 for line in lines)


def test_a_policy_of_ones_own(capsys: pytest.CaptureFixture[str]) -> None:
    differ = int(run("A policy", capsys).split()[0])
    assert 0 < differ < 8


def test_a_loss_of_ones_own_falls(capsys: pytest.CaptureFixture[str]) -> None:
    losses = [float(line.split()[1]) for line in run("A loss", capsys).splitlines()]
    assert losses[-1] < losses[0] / 2


def test_a_task_of_ones_own(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    unsorted, stopped = run("A task", capsys).split()
    assert float(unsorted) < 1
    assert stopped == "steps"
    assert (tmp_path / "runs" / "sort" / "best").is_dir()


def test_an_algorithm_of_ones_own_learns(capsys: pytest.CaptureFixture[str]) -> None:
    cost, error = map(float, re.findall(NUMBER, run("An algorithm", capsys)))
    assert cost < 0.6
    assert error < 0.6


def test_there_are_no_other_examples_and_all_are_short() -> None:
    files = sorted((ROOT / "examples").glob("*.py"))
    assert [file.stem for file in files] == sorted([*EXAMPLES, "demo"])
    for file in files:
        text = file.read_text()
        assert len(text.splitlines()) < 120, file
        assert f"python examples/{file.name}" in text.split('"""')[1], file


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[] if name == "own_cost" else pytest.mark.slow) for name in EXAMPLES]
)
def test_every_example_runs(name: str, tmp_path: Path) -> None:
    """In a process of its own, as a user would: with a few updates of a tiny model."""
    if name == "hugging_face":
        pytest.importorskip("transformers", reason="the adapter needs transformers")
    command = [sys.executable, "-W", "error", str(ROOT / "examples" / f"{name}.py"), *EXAMPLES[name]]
    done = subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, check=False, env={**os.environ, "OMP_NUM_THREADS": "1"}
    )
    assert done.returncode == 0, done.stderr
    told = re.findall(rf"^(mle|searnn) .*(?:error|cost) {NUMBER}", done.stdout, re.MULTILINE)
    assert [name for name, _ in told] == ["mle", "searnn"]


@pytest.mark.slow
def test_a_model_of_transformers_gets_better(tmp_path: Path) -> None:
    pytest.importorskip("transformers", reason="the adapter needs transformers")
    command = [sys.executable, str(ROOT / "examples" / "hugging_face.py"), "--family", "bart"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True)
    before, after = map(float, re.findall(f"error {NUMBER}", done.stdout))
    assert after < before
