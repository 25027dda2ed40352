"""What training shows: the progress line, on a terminal and without one, what is logged, and TensorBoard."""

from __future__ import annotations

import io
import logging
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from rich.console import Console
from training_cases import SETTINGS, lines, make_model, make_task

from searnn.algorithms import Mle
from searnn.engine import log
from searnn.reports.progress import ProgressLine, telling
from searnn.training import Plan, fit
from searnn.types import SearnnError

QUICK = replace(SETTINGS, steps=6, eval_every=3)


def test_the_progress_line_without_a_terminal(tmp_path: Path) -> None:
    out = io.StringIO()
    fit(make_model(), Mle(), make_task(), QUICK, tmp_path, watch=ProgressLine(Console(file=out, width=40)))
    shown, records = out.getvalue().splitlines(), lines(tmp_path)
    assert len(shown) == 2
    assert "\x1b" not in out.getvalue()
    assert shown[0].startswith("step 3/6")
    for line, record in zip(shown, records, strict=True):
        numbers = (f"loss {record['train_loss']:.4g}", f"error {record['valid_error']:.4g}")
        for word in ("steps/s", *numbers, "best", "left"):
            assert word in line


def test_the_progress_line_on_a_terminal(tmp_path: Path) -> None:
    out = io.StringIO()
    console = Console(file=out, width=120, force_terminal=True)
    fit(make_model(), Mle(), make_task(), QUICK, tmp_path, watch=ProgressLine(console))
    assert "step 6/6" in out.getvalue()
    assert out.getvalue().rstrip().endswith("\x1b[2K"), "the live line is taken away at the end"


def test_time_left() -> None:
    line = ProgressLine(Console(file=io.StringIO()))
    line.start(Plan(100, 200, None, 50.0, "error"))
    assert line.time_left() is None
    line.on_step(120, torch.tensor(1.0), 60.0)  # 20 steps in 10 seconds: 80 more take 40
    assert line.time_left() == pytest.approx(40)
    line.plan = replace(line.plan, minutes=1.5)
    assert line.time_left() == pytest.approx(30)
    assert "0:30 left" in line.text()


def test_tensorboard_has_the_same_numbers(tmp_path: Path) -> None:
    events = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator")
    fit(make_model(), Mle(), make_task(), replace(QUICK, tensorboard=True), tmp_path)
    board = events.EventAccumulator(str(tmp_path / "tensorboard"))
    board.Reload()
    for name in ("valid_error", "train_loss", "entropy"):
        shown = [(event.step, event.value) for event in board.Scalars(name)]
        assert shown == [(line["step"], pytest.approx(line[name])) for line in lines(tmp_path)]


def test_tensorboard_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    with pytest.raises(SearnnError, match=r"pip install \"searnn\[tensorboard\]\""):
        fit(make_model(), Mle(), make_task(), replace(QUICK, tensorboard=True), tmp_path)
    assert not list(tmp_path.iterdir())


def test_what_is_logged_inside_is_shown() -> None:
    shown = io.StringIO()
    before = (list(log.handlers), log.level)
    with telling(Console(file=shown)):
        log.info("engine: %s", "a [bold]path")
        log.debug("nothing")
    log.info("after")
    assert shown.getvalue() == "engine: a [bold]path\n"
    assert (list(log.handlers), log.level) == before
    assert logging.getLogger("searnn") is log
