"""The whole benchmark: settings, growth and costs one after the other, in one process, into one report."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from typing import Any

import torch

from searnn.bench.compare import Comparison
from searnn.bench.costs import CostSpeed
from searnn.bench.machine import describe
from searnn.bench.scale import AXES, Growth, Sizes
from searnn.bench.settings import Setting, random_batches, real_data
from searnn.bench.watching import Silent, Watch
from searnn.devices import keep_memory
from searnn.engine import Engine, using
from searnn.types import SearnnError

ROUNDS_ON_A_GPU = 50
DIFFERENT = 4  # batches that take turns; two where a step takes seconds
PRETRAINED = 200  # updates before real data is timed


@dataclass(frozen=True)
class Plan:
    """What is measured, where and how long."""

    settings: tuple[Setting, ...] = ()
    real: bool = False
    scale: bool = False
    costs: bool = False
    rounds: int | None = None  # timed steps of each row; None: as many as suit the setting
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    threads: int | None = None
    engine: Engine = field(default_factory=Engine)
    pretrained: int = PRETRAINED
    base: Sizes = field(default_factory=Sizes)
    rows: int = 100  # outputs for each of the targets whose cost is taken


def run(plan: Plan, watch: Watch | None = None) -> dict[str, Any]:
    """Measure all that is planned; after Ctrl-C the report has what there is, and says so."""
    watch = watch or Silent()
    keep_memory()
    before = torch.get_num_threads()
    torch.set_num_threads(plan.threads or before)
    report: dict[str, Any] = {
        "machine": describe(plan.device),
        "engine": asdict(plan.engine),
        "interrupted": False,
        "missing": {},
        "settings": {},
        "scale": [],
        "costs": [],
    }
    try:
        with using(plan.engine), _told() as report["paths"]:
            for setting in plan.settings:
                _compare(setting, plan, report, watch)
            if plan.scale:
                _scale(plan, report, watch)
            if plan.costs:
                _costs(plan, report, watch)
    except KeyboardInterrupt:
        report["interrupted"] = True
    finally:
        torch.set_num_threads(before)
    if report["missing"] and not (report["settings"] or report["scale"] or report["costs"]):
        raise SearnnError("; ".join(f"{name}: {reason}" for name, reason in report["missing"].items()))
    return report


def _compare(setting: Setting, plan: Plan, report: dict[str, Any], watch: Watch) -> None:
    on_cpu = plan.device.type == "cpu"
    rounds = plan.rounds or (setting.rounds if on_cpu else ROUNDS_ON_A_GPU)
    different = 2 if rounds < 10 else DIFFERENT
    if plan.real:
        watch.stage(f"{setting.name}: reading the data", 1)
        try:
            setting, draw = real_data(setting)
        except SearnnError as error:
            report["missing"][setting.name] = str(error)
            watch.note(f"{setting.name}: left out: {error}")
            return
        batches = [draw(plan.pretrained + number) for number in range(different)]
    else:
        batches = random_batches(setting, different)
    comparison = Comparison(setting, batches, plan.device, plan.engine.precision if not on_cpu else "float32")
    try:
        if plan.real:
            comparison.pretrain(plan.pretrained, draw, watch)
        comparison.time(rounds, 1 if on_cpu and rounds < 10 else 3, watch)  # on a GPU the second is recorded
        comparison.take_apart(max(1, rounds // (2 * different)), watch)
        comparison.weigh(watch)
    finally:
        report["settings"][setting.name] = comparison.report()
        watch.found("setting", report["settings"][setting.name])


def _scale(plan: Plan, report: dict[str, Any], watch: Watch) -> None:
    try:
        for axis, values in AXES.items():
            growth = Growth(axis, values, plan.base, plan.device)
            try:
                growth.measure(plan.rounds or 5, 2, watch)
            finally:
                report["scale"] += growth.report()
    finally:
        watch.found("scale", {"base": asdict(plan.base), "lines": report["scale"]})


def _costs(plan: Plan, report: dict[str, Any], watch: Watch) -> None:
    speed = CostSpeed(plan.device, plan.rows)
    try:
        speed.measure(plan.rounds or 5, 1, watch)
    finally:
        report["costs"] = speed.report()
        watch.found("costs", {"lines": report["costs"]})


@contextmanager
def _told() -> Iterator[list[str]]:
    """What the package logs inside: which fast paths were taken."""
    told: list[str] = []

    class Keep(logging.Handler):
        """Keeps what is logged."""

        def emit(self, record: logging.LogRecord) -> None:
            told.append(record.getMessage())

    log, handler = logging.getLogger("searnn"), Keep(logging.INFO)
    level = log.level
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    try:
        yield told
    finally:
        log.removeHandler(handler)
        log.setLevel(level)
