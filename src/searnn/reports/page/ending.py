"""The report that every run gets when its training has ended, from the command line and from Python alike."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from torch import nn

from searnn.interfaces import Task
from searnn.reports.doctor import examine
from searnn.reports.html import write_page
from searnn.reports.outputs import collect
from searnn.reports.page.examples import describe
from searnn.reports.page.report import page, report
from searnn.reports.recorded import read_run
from searnn.training import load_model

NAME = "report.html"
MOST, SECONDS = 1000, 10.0  # examples and time: it must cost little


def at_end(folder: Path, task: Task, model: nn.Module, say: Callable[[str], None]) -> None:
    """Write the report of a run that has just ended; whatever goes wrong is said and nothing more.

    The model is left with the weights of the best checkpoint. Decodes for a few seconds at most.
    """
    try:
        load_model(folder / "best", model)
        model.eval()
        outputs = described = missing = None
        try:
            outputs = collect(model, task, most=MOST, seconds=SECONDS)
            described = describe(outputs, task)
        except Exception as error:  # without examples it still shows how the run went
            missing = _told(error)
        recorded = read_run(folder)
        write_page(folder / NAME, page(report([recorded], [outputs], described, missing=missing)))
        for finding in examine(recorded, outputs):
            if finding.level == "warning":
                say(f"warning: {finding.title}")
        say(f"report: {folder / NAME}")
    except (Exception, KeyboardInterrupt) as error:  # a trained model is worth more than a page about it
        say(f"no report was written: {_told(error)}")


def _told(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__
