"""The whole benchmark: the settings one after the other, in one process, into one report."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from logging.handlers import BufferingHandler
from typing import Any

import torch

from searnn.bench.comparison import Comparison
from searnn.bench.machine import describe
from searnn.bench.settings import Setting, random_batches, real_data
from searnn.bench.timing import Watch
from searnn.devices import keep_memory
from searnn.engine import Engine, using
from searnn.types import SearnnError

ROUNDS_ON_A_GPU = 50
DIFFERENT = 4  # batches that take turns; two where a step takes seconds
PRETRAINED = 200  # updates before real data is timed
MANY = 10_000  # lines of the log, more than there are


@dataclass(frozen=True)
class Benchmark:
    """What is measured, where and how long."""

    settings: tuple[Setting, ...] = ()
    real: bool = False
    rounds: int | None = None  # timed steps of each method; None: as many as suit the setting
    device: torch.device = field(default_factory=lambda: torch.device("cpu"))
    threads: int | None = None
    engine: Engine = field(default_factory=Engine)
    pretrained: int = PRETRAINED


def run(benchmark: Benchmark, watch: Watch | None = None) -> dict[str, Any]:
    """Measure all that is asked for; after Ctrl-C the report has what there is, and says so."""
    with measuring(benchmark.device, benchmark.threads, benchmark.engine) as report:
        report.update(missing={}, settings={})
        for setting in benchmark.settings:
            _compare(setting, benchmark, report, watch or Watch())
    if report["missing"] and not report["settings"]:
        raise SearnnError("; ".join(f"{name}: {reason}" for name, reason in report["missing"].items()))
    return report


@contextmanager
def measuring(device: torch.device, threads: int | None, engine: Engine) -> Iterator[dict[str, Any]]:
    """A report to be filled inside; it says on what machine, by which fast paths, and whether Ctrl-C ended it."""
    keep_memory()
    before = torch.get_num_threads()
    torch.set_num_threads(threads or before)
    report: dict[str, Any] = {"machine": describe(device), "engine": asdict(engine), "interrupted": False, "paths": []}
    log, told = logging.getLogger("searnn"), BufferingHandler(MANY)
    level = log.level
    log.addHandler(told)
    log.setLevel(logging.INFO)
    try:
        with using(engine):
            yield report
    except KeyboardInterrupt:
        report["interrupted"] = True
    finally:
        torch.set_num_threads(before)
        log.removeHandler(told)
        log.setLevel(level)
        report["paths"] = [record.getMessage() for record in told.buffer]


def prepare(setting: Setting, benchmark: Benchmark, watch: Watch) -> Comparison:
    """What measures a setting; on real data after some training."""
    rounds = benchmark.rounds or (setting.rounds if benchmark.device.type == "cpu" else ROUNDS_ON_A_GPU)
    different = 2 if rounds < 10 else DIFFERENT
    if not benchmark.real:
        return Comparison(setting, random_batches(setting, different), benchmark.device, rounds)
    watch.stage(f"{setting.name}: reading the data", 1)
    setting, draw = real_data(setting)
    batches = [draw(benchmark.pretrained + number) for number in range(different)]
    comparison = Comparison(setting, batches, benchmark.device, rounds)
    comparison.pretrain(benchmark.pretrained, draw, watch)
    return comparison


def _compare(setting: Setting, benchmark: Benchmark, report: dict[str, Any], watch: Watch) -> None:
    try:
        comparison = prepare(setting, benchmark, watch)
    except SearnnError as error:
        report["missing"][setting.name] = str(error)
        watch.note(f"{setting.name}: left out: {error}")
        return
    try:
        comparison.time(watch)
        comparison.take_apart(watch)
        comparison.weigh(watch)
    finally:
        report["settings"][setting.name] = comparison.report()
        watch.found(report["settings"][setting.name])
