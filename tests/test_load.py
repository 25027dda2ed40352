"""Many inputs: windows of bounded size in the order of the input, and outputs that do not depend on what is batched."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

import searnn
from searnn.cli import main
from searnn.costs import Hamming
from searnn.decoding.parts import example_bytes, parts
from searnn.runs import arriving
from searnn.samplers import AllCells, UniformCells
from searnn.training.diagnosis import FEW, with_learned_rolls
from searnn.types import SearnnError

PAIRS = [("ab", "ba"), ("abc", "cba"), ("ca", "ac"), ("bb", "bb"), ("cab", "bac"), ("a", "a")]
SIZES = {"width": 16, "batch_size": 6, "steps": 60, "eval_every": 60, "device": "cpu", "algorithm": "mle"}
LEARNING = {"optimizer": "adam", "lr": 0.02}  # enough for outputs that differ


@pytest.fixture(scope="module", params=["gru", "transformer"])
def trained(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> searnn.Run:
    folder = tmp_path_factory.mktemp("load") / request.param
    data = {"train": PAIRS, "valid": PAIRS, "test": PAIRS}
    return searnn.train("pairs", run=folder, show=False, model=request.param, **data, **SIZES, **LEARNING)


def some_lines(count: int) -> list[str]:
    draw = random.Random(0)
    return ["".join(draw.choices("abc", k=draw.randint(1, 30))) for _ in range(count)]


@pytest.mark.parametrize("beam", [1, 3])
def test_outputs_are_those_of_each_line_alone(trained: searnn.Run, beam: int) -> None:
    lines = some_lines(60)
    assert len(set(trained.predict(lines, beam=beam))) > 2  # else nothing could be told apart
    assert trained.predict(lines, beam=beam) == [trained.predict([line], beam=beam)[0] for line in lines]
    many = trained.n_best(lines, 2, beam=max(beam, 2))
    for found, line in zip(many, lines, strict=True):
        alone = trained.n_best([line], 2, beam=max(beam, 2))[0]
        assert [text for text, _ in found] == [text for text, _ in alone]
        assert [score for _, score in found] == pytest.approx([score for _, score in alone], abs=1e-5)


def test_the_command_prints_what_each_line_gives_alone(trained: searnn.Run, tmp_path: Path, capsys) -> None:
    lines = some_lines(100)  # more than the first window
    lines[20] = ""
    (tmp_path / "in.txt").write_text("\n".join(lines) + "\n")
    asked = ["predict", str(trained.folder), "--device", "cpu", "--skip-bad-lines", "--beam", "2"]
    capsys.readouterr()
    assert main([*asked, "--input", str(tmp_path / "in.txt")]) == 0
    printed = capsys.readouterr().out.splitlines()
    assert printed == ["" if not line else trained.predict([line], beam=2)[0] for line in lines]


@pytest.mark.parametrize("width", [1, 3])
def test_parts_fit_the_budget_and_are_the_batch(trained: searnn.Run, width: int) -> None:
    batch = trained.batch([trained.task.read(line) for line in some_lines(40)])
    one = next(iter(parts(trained.model, batch, width=width, budget=1)))
    each = example_bytes(trained.model, one, width)
    for budget, most in ((1, 1), (each - 1, 1), (7 * each, 7), (40 * each, 40)):
        found = list(parts(trained.model, batch, width=width, budget=budget))
        assert [len(part.targets) for part in found[:-1]] == [most] * (len(found) - 1)
        assert torch.equal(torch.cat([part.inputs.values for part in found]), batch.inputs.values)
        assert [limit for part in found for limit in part.limits()] == list(batch.limits())
    assert example_bytes(trained.model, one, 8) > 3 * example_bytes(trained.model, one, 1) / 2


def test_evaluation_does_not_depend_on_the_memory(trained: searnn.Run, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = [trained.evaluate("test", beam=beam) for beam in (1, 3)]
    monkeypatch.setattr("searnn.decoding.parts.DECODING_BYTES", 1)
    assert [trained.evaluate("test", beam=beam) for beam in (1, 3)] == whole


@pytest.fixture
def pipe(monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """The end that is written of a pipe whose other end is the standard input."""
    ours, theirs = os.pipe()
    with os.fdopen(ours) as stream:
        monkeypatch.setattr(sys, "stdin", stream)
        yield theirs


def test_no_more_than_a_window_is_read_ahead(pipe: int) -> None:
    count, line = 100_000, b"x" * 99 + b"\n"
    written = 0

    def write() -> None:
        nonlocal written
        with os.fdopen(pipe, "wb", buffering=0) as stream:
            for _ in range(count):
                stream.write(line)
                written += 1

    writer = threading.Thread(target=write)
    writer.start()
    numbers, sizes, ahead = [], [], 0
    for window in arriving.lines(len, None, skip=False):
        ahead = max(ahead, written - len(numbers))  # before the window is answered
        sizes.append(len(window))
        numbers += [number for number, _ in window]
    writer.join()
    assert numbers == list(range(1, count + 1))
    assert sizes[0] <= arriving.FIRST
    assert max(sizes) <= arriving.MOST
    in_pipes = 2 * (1 << 16) // len(line)  # what was read at once, and what the system holds
    assert ahead <= arriving.MOST + in_pipes + 2


def test_windows_grow_while_the_input_streams(tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_text("abc\n" * 20_000)
    sizes = [len(window) for window in arriving.lines(len, tmp_path / "in.txt", skip=False)]
    assert sizes[:5] == [16, 64, 256, 1024, 4096]
    assert max(sizes) == 4096
    assert sum(sizes) == 20_000
    (tmp_path / "in.txt").write_text(("x" * 500_000 + "\n") * 40)  # few long lines are a full window too
    sizes = [len(window) for window in arriving.lines(len, tmp_path / "in.txt", skip=False)]
    assert max(sizes) == arriving.HELD // 500_000 + 1


def test_a_window_ends_where_the_input_pauses(pipe: int) -> None:
    windows = arriving.lines(len, None, skip=False)
    os.write(pipe, b"a\nb\nc")
    assert next(windows) == [(1, 1), (2, 1)]
    os.write(pipe, b"c\n")
    assert next(windows) == [(3, 2)]
    os.write(pipe, b"bb\n\xff\n")
    os.close(pipe)
    assert next(windows) == [(4, 2)]  # what stands before a bad line
    with pytest.raises(SearnnError, match="line 5 is bad"):
        next(windows)


def test_the_first_lines_are_out_before_the_last_are_in(trained: searnn.Run) -> None:
    """A program that writes more than pipes hold would wait for ever if all were read first, or none answered."""
    lines = some_lines(3000)
    given = ("\n".join(" " * 300 + line for line in lines) + "\n").encode()
    command = [sys.executable, "-m", "searnn.cli", "predict", str(trained.folder), "--device", "cpu"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment) as program:
        assert program.stdin is not None
        assert program.stdout is not None
        state = SimpleNamespace(written=0)

        def write() -> None:
            for start in range(0, len(given), 1000):
                state.written += program.stdin.write(given[start : start + 1000])
            program.stdin.flush()

        writer = threading.Thread(target=write)
        writer.start()
        first = program.stdout.readline()
        assert state.written < len(given)
        printed = [first, *(program.stdout.readline() for _ in lines[1:])]  # all of them, while the pipe is open
        writer.join()
        program.stdin.close()
        assert program.stdout.read() == b""
        assert program.wait() == 0
    assert [line.decode().rstrip("\n") for line in printed] == trained.predict(lines)


def test_long_outputs_are_diagnosed_at_few_cells() -> None:
    assert with_learned_rolls(Hamming(), 12, 64).cells == AllCells()
    assert with_learned_rolls(Hamming(), 12, 65).cells == UniformCells(n=FEW)
    assert with_learned_rolls(Hamming(), 65, 12).cells == UniformCells(n=FEW)
