"""Pages about runs on the disk: made once or when a run has ended, written anew while they train, or served."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from torch import nn

from searnn.interfaces import Task
from searnn.reports.doctor import Finding, examine
from searnn.reports.html import write_page
from searnn.reports.outputs import collect
from searnn.reports.page.examples import describe
from searnn.reports.page.report import page, report
from searnn.reports.page.serving import Follower
from searnn.reports.recorded import read_run
from searnn.training import load_model

NAME = "report.html"  # in the folder of a run
MOST, SECONDS = 1000, 10.0  # examples and time that the end of a run may cost
EVERY = 5.0  # seconds between looks at a run that is watched


def data_of(folders: Sequence[Path], *outputs: Any, missing: str | None = None, follow: str | None = None) -> Any:
    """The data of a page about these runs; the other arguments are those of `report`."""
    names = [folder.resolve().name for folder in folders]
    unique = [name if names.count(name) == 1 else str(folder) for name, folder in zip(names, folders, strict=True)]
    runs = [read_run(folder, name) for folder, name in zip(folders, unique, strict=True)]
    return report(runs, *outputs, missing=missing, follow=follow)


def watch(folders: Sequence[Path], out: Path) -> None:
    """Write the page whenever something was recorded, until Ctrl-C."""
    before = None
    try:
        while True:
            data = data_of(folders, follow="watch")
            if data != before:
                write_page(out, page(data))
                if before is None:
                    print(f"report: {out}, written anew as the run goes on; Ctrl-C ends this", flush=True)
                before = data
            time.sleep(EVERY)
    except KeyboardInterrupt:
        write_page(out, page(data_of(folders)))  # one that no longer reads itself again


def serve(folders: Sequence[Path], port: int) -> None:
    """Serve a page that follows the runs, until Ctrl-C."""
    data_of(folders)  # what is wrong with the runs is said now
    with Follower(lambda: data_of(folders, follow="serve"), port) as server:
        print(f"report: {server.address} (on this machine only; Ctrl-C ends it)", flush=True)
        try:
            server.serve_forever()
        except KeyboardInterrupt:
            return


def told(data: Mapping[str, Any]) -> list[str]:
    """The doctor's words for the terminal."""
    lines = []
    for each in data["runs"]:
        best = each["best"]
        value = "nothing recorded yet" if best is None else f"best {each['metric']} {best['value']:.4g}"
        lines.append(f"{each['name']}: {value}" + (f" at step {best['step']}" if best else ""))
        lines += [f"  {line}" for line in _words(each["findings"])]
    return lines + _words(data.get("findings", ()))


def _words(findings: Iterable[Mapping[str, Any]]) -> list[str]:
    found = [Finding(**each) for each in findings]
    return [f"{each.level}: {each.title}. {each.reason} {each.remedy}" for each in found]


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
