"""How well `searnn headroom` foretells what SEARNN gains: its constants fitted, and tried on other data sets.

    python benchmarks/headroom.py runs.toml --json points.json --figure headroom.svg
    python benchmarks/headroom.py points.json

The TOML file has a point for each data set or setting, with the folders of its runs, a run for each seed. Points with
the same `data` are left out of the fit together; without it a point is a data set of its own:

    [[point]]
    name = "spelling 0.3"
    data = "spelling"
    mle = ["runs/spelling-mle-0", "runs/spelling-mle-1"]
    searnn = ["runs/spelling-searnn-0", "runs/spelling-searnn-1"]

Of every MLE run the headroom is taken from its folder, or measured on validation data where there is none. Gains are
those of greedy decoding on test data, which the forecast has not seen.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import asdict, astuple, dataclass
from pathlib import Path
from statistics import fmean, variance
from typing import Any

import numpy as np
from pydantic import TypeAdapter, ValidationError
from rich.console import Console
from scipy.optimize import nnls
from scipy.stats import spearmanr

import searnn
from searnn.cli.parsers import check_place
from searnn.cli.program import guarded
from searnn.config.parser import Parser
from searnn.files import write
from searnn.reports.headroom import Forecast, Headroom, kept
from searnn.reports.headroom.forecast import CALIBRATED, FACTOR, Calibration, forecast, lacking
from searnn.reports.headroom.words import seen
from searnn.reports.rendering import for_terminal
from searnn.tasks.common.metrics import IN_PERCENT
from searnn.types import SearnnError

sys.path.append(str(Path(__file__).resolve().parents[1] / "docs" / "tools"))
from drawing import Picture

HELD = 0.9  # of the points, as many as the interval is to hold
FEWEST = 3  # data sets to fit on
DRAWS = 1000  # of gains that move with the seeds
MARKS = (-1.0, -0.25, 0.0, 0.25, 1.0, 2.0, 4.0, 6.0)  # of the figure
IN_POINTS = (*IN_PERCENT, "bleu", "chrf")  # from 0 to 100; the others are shares


@dataclass(frozen=True)
class Point:
    """A data set or a setting: what was measured of its MLE runs, and the metric of both kinds of runs on test data."""

    name: str
    data: str
    headrooms: tuple[Headroom, ...]
    mle: tuple[float, ...]
    searnn: tuple[float, ...]

    @property
    def unit(self) -> float:
        """What makes points of the metric's unit."""
        return 1.0 if self.headrooms[0].metric in IN_POINTS else 100.0

    @property
    def gain(self) -> float:
        """What SEARNN gains, in points: the mean over its runs against the mean over those by MLE."""
        sign = 1 if self.headrooms[0].higher_is_better else -1
        return self.unit * sign * (fmean(self.searnn) - fmean(self.mle))

    @property
    def noise(self) -> float:
        """The standard error of that, by the seeds; 0 where there is one seed."""
        parts = [variance(runs) / len(runs) for runs in (self.mle, self.searnn) if len(runs) > 1]
        return self.unit * math.sqrt(sum(parts))

    @property
    def lacks(self) -> float:
        """What greedy decoding by MLE lacks, in points."""
        return self.mean(lambda found: self.unit * lacking(found.greedy.value, found.perfect))

    @property
    def error(self) -> float:
        """The standard error of that."""
        return self.mean(lambda found: self.unit * found.greedy.error)

    @property
    def parts(self) -> tuple[float, float]:
        """What MBR gains, and what is lacking times the share of the mistakes that follow on another: for 1 of each."""
        return (
            self.mean(lambda found: self.unit * max(0.0, found.mbr.gain.value)),
            self.mean(lambda found: self.unit * found.judged.following * lacking(found.greedy.value, found.perfect)),
        )

    def mean(self, of: Callable[[Headroom], float]) -> float:
        """The mean over the MLE runs."""
        return fmean(map(of, self.headrooms))

    def forecast(self, calibration: Calibration) -> Forecast:
        """The mean of the forecasts that the runs make, in points."""
        each = [
            forecast(
                found.mbr.gain.value,
                found.greedy,
                lacking(found.greedy.value, found.perfect),
                found.judged.following,
                calibration,
            )
            for found in self.headrooms
        ]
        return Forecast(*(self.unit * fmean(values) for values in zip(*map(astuple, each), strict=True)))


@dataclass(frozen=True)
class Trial:
    """A point, and its forecast by a calibration that has not seen its data set."""

    point: Point
    forecast: Forecast

    @property
    def holds(self) -> bool:
        """Whether the interval holds what was gained."""
        return self.forecast.low <= self.point.gain <= self.forecast.high


def fit(points: Sequence[Point]) -> Calibration:
    """Least squares in standard errors of the metric, no share below 0; the interval is to hold 9 points of 10."""
    surer = [point for point in points if point.error > 0]  # where nothing is wrong there is nothing to learn
    parts = np.array([point.parts for point in surer]).reshape(-1, 2)
    gains, errors = (np.array([value(point) for point in surer]) for value in (_gain, _error))
    shares, _ = nnls(parts / errors[:, None], gains / errors)
    told = parts @ shares
    place = min(len(surer), math.ceil(HELD * (len(surer) + 1)))  # of as many and the one to come
    missing = np.sort(np.maximum(0, np.maximum(told / FACTOR - gains, gains - told * FACTOR)) / errors)
    return Calibration(*map(float, shares), width=float(missing[place - 1]))


def _gain(point: Point) -> float:
    return point.gain


def _error(point: Point) -> float:
    return point.error


def leave_one_out(points: Sequence[Point]) -> list[Trial]:
    """Every point with the forecast that the other data sets make of it."""
    number = len({point.data for point in points})
    if number <= FEWEST:
        raise SearnnError(f"there are points of {number} data sets, expected more than {FEWEST} to leave one out")
    return [
        Trial(point, point.forecast(fit([other for other in points if other.data != point.data]))) for point in points
    ]


def rank_correlation(first: Sequence[float], second: Sequence[float]) -> float:
    """Spearman's; 0 where one of them is the same everywhere."""
    if len(set(first)) < 2 or len(set(second)) < 2:
        return 0.0
    return float(spearmanr(first, second).statistic)


def best_rank_correlation(trials: Sequence[Trial]) -> float:
    """What forecasts that are right would have on the mean, if the gains moved with the seeds as they do."""
    told = np.array([trial.forecast.gain for trial in trials])
    noise = np.array([trial.point.noise for trial in trials])
    draws = told + noise * np.random.default_rng(0).standard_normal((DRAWS, len(trials)))
    return fmean(rank_correlation(told, draw) for draw in draws)


def single_signals(points: Sequence[Point]) -> dict[str, list[float]]:
    """What else might foretell a gain, each by itself."""
    signals: dict[str, Callable[[Point], float]] = {
        "what is lacking": lambda point: point.lacks,
        "what MBR gains": lambda point: point.parts[0],
        "the same times the share seen": lambda point: (
            point.parts[0] * point.mean(lambda found: seen(found.judged, found.train))
        ),
        "what the model expects MBR to gain": lambda point: point.lacks * max(0.0, point.mean(lambda h: h.spared)),
        "mistakes that follow on another": lambda point: point.parts[1],
        "what a beam gains": lambda point: point.unit * point.mean(lambda found: found.beamed.gain.value),
        "what the best sample gains": lambda point: point.unit * point.mean(lambda found: found.best.gain.value),
        "mistakes not made on true prefixes": lambda point: point.lacks * point.mean(lambda h: h.judged.exposure),
        "loss on own less on true prefixes": lambda point: point.mean(
            lambda found: found.judged.loss_on_own - found.judged.loss_on_true
        ),
        "cells with a mistake in training": lambda point: point.mean(lambda found: found.train.visible),
        "entropy": lambda point: point.mean(lambda found: found.judged.entropy),
    }
    return {name: [of(point) for point in points] for name, of in signals.items()}


def measured(path: Path, trust: bool, device: str) -> list[Point]:
    """The points of a file of runs."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
        cases = [
            (each["name"], each.get("data", each["name"]), each["mle"], each["searnn"]) for each in content["point"]
        ]
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, KeyError, TypeError) as error:
        raise SearnnError(f"{path} is no file of runs: {error}; it needs [[point]] with name, mle and searnn") from None
    points = []
    for name, data, *folders in cases:
        print(f"measuring {name}", file=sys.stderr, flush=True)
        runs = [[searnn.load(folder, device=device, trust_code=trust) for folder in each] for each in folders]
        if not all(runs):
            raise SearnnError(f"the point {name!r} of {path} has no runs by MLE or none by SEARNN")
        task = runs[0][0].task
        by_mle, by_searnn = (tuple(run.evaluate("test")[task.metric] for run in each) for each in runs)
        points.append(Point(name, data, tuple(map(_headroom, runs[0])), by_mle, by_searnn))
    return points


def _headroom(run: searnn.runs.Run) -> Headroom:
    """What the folder has, unless the run has gone on since or it is of other data."""
    found, best = kept(run.folder), run.metrics.best
    if found is not None and found.split == "valid" and best is not None and found.step == best["step"]:
        return found
    return run.headroom()


def read_points(path: Path) -> list[Point]:
    """The points that an earlier call has written."""
    try:
        return TypeAdapter(list[Point]).validate_json(path.read_bytes(), strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        raise SearnnError(f"{path} is no file of points: {first['loc']}: {first['msg']}") from None


def lines(trials: Sequence[Trial]) -> list[dict[str, str]]:
    """A line for each point, in points of the metric."""
    return [
        {
            "point": trial.point.name,
            "MLE lacks": f"{trial.point.lacks:.2f}",
            "MBR gains": f"{trial.point.parts[0]:.2f}",
            "following": f"{trial.point.parts[1]:.2f}",
            "forecast": f"{trial.forecast.gain:.2f}",
            "interval": f"{trial.forecast.low:z.2f} to {trial.forecast.high:z.2f}",
            "gained": f"{trial.point.gain:z.2f}",
            "seeds": f"± {trial.point.noise:.2f}",
            "": "" if trial.holds else "outside",
        }
        for trial in sorted(trials, key=lambda trial: -trial.point.gain)
    ]


def draw(trials: Sequence[Trial], path: Path) -> None:
    """Forecast against gain with the interval of each point, on scales of square roots."""
    picture = Picture("What SEARNN was forecast to gain against what it gained, in points of the metric", 660, 470)
    across, up = Scale(60, 640), Scale(420, 20)
    for mark in MARKS:
        picture.line((across(mark), 20), (across(mark), 420), "empty")
        picture.line((60, up(mark)), (640, up(mark)), "empty")
        picture.text(across(mark), 440, f"{mark:g}", "small", "middle")
        picture.text(52, up(mark) + 4, f"{mark:g}", "small", "end")
    picture.line((across(-1), up(-1)), (across(6), up(6)), "arrow")
    for trial in trials:
        told, gain, kind = trial.forecast, trial.point.gain, "own" if trial.holds else "bad"
        picture.line((across(told.low), up(gain)), (across(told.high), up(gain)), kind)
    for trial in trials:
        kind = "own" if trial.holds else "bad"
        x, y = across(trial.forecast.gain), up(trial.point.gain)
        picture.dot(x, y, kind, trial.point.name)
        if not trial.holds:
            picture.text(x + 8, y - 5, trial.point.name, "small")
    picture.text(350, 464, "forecast, by a fit without the data set", "small", "middle")
    picture.text(66, 14, "gained", "small")
    write(path, picture.svg().encode())


@dataclass(frozen=True)
class Scale:
    """Where a number of points stands between two ends, by its square root: most are small."""

    start: float
    end: float

    def __call__(self, value: float) -> float:
        low, high, here = (math.copysign(math.sqrt(abs(each)), each) for each in (MARKS[0], MARKS[-1], value))
        share = min(1.0, max(0.0, (here - low) / (high - low)))
        return self.start + share * (self.end - self.start)


def evaluate(points: Sequence[Point], arguments: argparse.Namespace) -> dict[str, Any]:
    """Print how well the forecast does, and give the numbers."""
    trials = leave_one_out(points)
    gains = [point.gain for point in points]
    fitted = fit(points)
    ranks = {"the forecast": rank_correlation([trial.forecast.gain for trial in trials], gains)}
    ranks |= {name: rank_correlation(values, gains) for name, values in single_signals(points).items()}
    held = sum(trial.holds for trial in trials)
    console = Console()
    console.print(for_terminal(lines(trials)))
    console.print(for_terminal([{"by": name, "rank correlation": f"{value:.2f}"} for name, value in ranks.items()]))
    print(f"forecasts that were right would have {best_rank_correlation(trials):.2f}, by the spread of the seeds")
    print(f"the interval holds {held} of {len(trials)} points, the data set of each left out of the fit")
    for name, found in (("fitted on all", fitted), ("in use", CALIBRATED)):
        print(f"{name}: ambiguity {found.ambiguity:.3f}, following {found.following:.3f}, width {found.width:.2f}")
    if arguments.figure is not None:
        draw(trials, arguments.figure)
    return {"ranks": ranks, "held": held, "fitted": asdict(fitted)}


def main(words: Sequence[str] | None = None) -> int:
    """The command; returns the exit status."""
    parser = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("points", type=Path, metavar="FILE", help="runs (.toml), or points that were measured (.json)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the points here")
    parser.add_argument("--figure", type=Path, metavar="FILE", help="draw forecast against gain here (.svg)")
    parser.add_argument("--device", default="auto", help="auto, cpu, cuda or cuda:N [auto]")
    parser.add_argument("--trust-code", action="store_true", help="import the code that the runs name")

    def command() -> int:
        arguments = parser.parse(words)
        for flag in ("json", "figure"):
            if (path := vars(arguments)[flag]) is not None:
                check_place(flag, path)
        source = arguments.points
        if not source.is_file():
            raise SearnnError(f"there is no file {source}")
        given = source.suffix == ".json"
        points = read_points(source) if given else measured(source, arguments.trust_code, arguments.device)
        if arguments.json is not None:  # before anything is judged: to measure takes long
            write(arguments.json, json.dumps([asdict(point) for point in points], indent=1, allow_nan=False).encode())
        evaluate(points, arguments)
        return 0

    return guarded(command)


if __name__ == "__main__":
    sys.exit(main())
