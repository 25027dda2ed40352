"""How well `searnn headroom` foretells what SEARNN gains: its constants fitted, and tried on other points.

    python benchmarks/headroom.py runs.toml --json points.json --figure headroom.svg
    python benchmarks/headroom.py points.json

The TOML file has a point for each data set or setting, with the folders of its runs, a run for each seed:

    [[point]]
    name = "spelling 0.3"
    mle = ["runs/spelling-mle-0", "runs/spelling-mle-1"]
    searnn = ["runs/spelling-searnn-0", "runs/spelling-searnn-1"]

Of every MLE run the headroom is taken from its folder, or measured where there is none; gains are those of greedy
decoding on the whole split. Gains and forecasts are shown as shares of what greedy decoding by MLE lacks, so that
metrics can stand side by side.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import tomllib
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import fmean
from typing import Any

from pydantic import TypeAdapter, ValidationError
from rich.console import Console
from scipy.stats import spearmanr

import searnn
from searnn.cli.parsers import check_place
from searnn.cli.program import guarded
from searnn.config.parser import Parser
from searnn.files import write
from searnn.reports.bootstrap import Estimate
from searnn.reports.curves import canvas
from searnn.reports.headroom import Forecast, Headroom, kept
from searnn.reports.headroom.forecast import CALIBRATED, Calibration, forecast, lacking, seen, signal
from searnn.reports.numbers import percent
from searnn.reports.rendering import for_terminal
from searnn.types import SearnnError

HELD = 0.9  # of the points, as many as the interval is to hold
FEWEST = 3  # points to fit on


@dataclass(frozen=True)
class Point:
    """A data set or a setting: what was measured of its MLE runs, and what each SEARNN run gained over their mean."""

    name: str
    headrooms: tuple[Headroom, ...]
    gains: tuple[float, ...]

    @property
    def lacks(self) -> float:
        """What greedy decoding by MLE lacks."""
        return fmean(lacking(each.greedy.value, each.perfect) for each in self.headrooms)

    @property
    def sees(self) -> float:
        """How much of the mistakes a search sees."""
        return fmean(seen(each.judged, each.train) for each in self.headrooms)

    @property
    def mbr(self) -> Estimate:
        """What MBR gains."""
        found = [each.mbr.gain for each in self.headrooms]
        return Estimate(*(fmean(values) for values in zip(*((e.value, e.low, e.high) for e in found), strict=True)))

    @property
    def gain(self) -> float:
        """What SEARNN gains, as a share of what is lacking."""
        return fmean(self.gains) / self.lacks

    @property
    def signal(self) -> float:
        """What the forecast is proportional to."""
        return signal(self.mbr.value, self.lacks, self.sees)

    def forecast(self, calibration: Calibration) -> Forecast:
        """The forecast, as a share of what is lacking."""
        found = forecast(self.mbr, self.lacks, self.sees, calibration)
        return Forecast(found.gain / self.lacks, found.low / self.lacks, found.high / self.lacks)


@dataclass(frozen=True)
class Trial:
    """A point, and its forecast by a calibration that has not seen it."""

    point: Point
    forecast: Forecast

    @property
    def holds(self) -> bool:
        """Whether the interval holds what was gained."""
        return self.forecast.low <= self.point.gain <= self.forecast.high


def fit(points: Sequence[Point]) -> Calibration:
    """Least squares through the origin; the interval is as wide as it must be to hold 9 points of 10."""
    power = sum(point.signal**2 for point in points)
    slope = max(0.0, sum(point.signal * point.gain for point in points) / power) if power else 0.0
    bare = Calibration(slope, 0.0)
    found = [(point.gain, point.forecast(bare)) for point in points]
    missing = sorted(max(0.0, told.low - gain, gain - told.high) for gain, told in found)
    return Calibration(slope, missing[math.ceil(HELD * len(missing)) - 1])


def leave_one_out(points: Sequence[Point]) -> list[Trial]:
    """Every point with the forecast that the others make of it."""
    if len(points) <= FEWEST:
        raise SearnnError(f"there are {len(points)} points, expected more than {FEWEST} to leave one out")
    return [Trial(point, point.forecast(fit([other for other in points if other is not point]))) for point in points]


def rank_correlation(first: Sequence[float], second: Sequence[float]) -> float:
    """Spearman's; 0 where one of them is the same everywhere."""
    if len(set(first)) < 2 or len(set(second)) < 2:
        return 0.0
    return float(spearmanr(first, second).statistic)


def single_signals(points: Sequence[Point]) -> dict[str, list[float]]:
    """What else might foretell a gain, each by itself."""

    def of(name: str) -> list[float]:
        return [fmean(float(getattr(each.judged, name)) for each in point.headrooms) for point in points]

    shares = {"entropy", "exposure", "loss_on_true", "later"}
    return {
        "MBR gain alone": [point.mbr.value / point.lacks for point in points],
        "MBR gain as the model expects it": [fmean(each.spared for each in point.headrooms) for point in points],
        "the same times share seen": [fmean(each.spared for each in point.headrooms) * point.sees for point in points],
        "share seen alone": [point.sees for point in points],
        "not in any sample": [-fmean(each.unknown for each in point.headrooms) for point in points],
        **{name.replace("_", " "): of(name) for name in sorted(shares)},
    }


def measured(path: Path, trust: bool, device: str, split: str) -> list[Point]:
    """The points of a file of runs."""
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
        cases = [(each["name"], each["mle"], each["searnn"]) for each in content["point"]]
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, KeyError, TypeError) as error:
        raise SearnnError(f"{path} is no file of runs: {error}; it needs [[point]] with name, mle and searnn") from None
    points = []
    for name, *folders in cases:
        print(f"measuring {name}", file=sys.stderr, flush=True)
        runs = [[searnn.load(folder, device=device, trust_code=trust) for folder in each] for each in folders]
        if not all(runs):
            raise SearnnError(f"the point {name!r} of {path} has no runs by MLE or none by SEARNN")
        task = runs[0][0].task
        sign = 1 if task.higher_is_better else -1
        by_mle, by_searnn = ([run.evaluate(split)[task.metric] for run in each] for each in runs)
        found = tuple(_headroom(run, split) for run in runs[0])
        points.append(Point(name, found, tuple(sign * (value - fmean(by_mle)) for value in by_searnn)))
    return points


def _headroom(run: searnn.runs.Run, split: str) -> Headroom:
    """What the folder has, unless the run has gone on since or it is of other data."""
    found, best = kept(run.folder), run.metrics.best
    if found is not None and found.split == split and best is not None and found.step == best["step"]:
        return found
    return run.headroom(split)


def read_points(path: Path) -> list[Point]:
    """The points that an earlier call has written."""
    try:
        return TypeAdapter(list[Point]).validate_json(path.read_bytes(), strict=True)
    except ValidationError as error:
        first = error.errors()[0]
        raise SearnnError(f"{path} is no file of points: {first['loc']}: {first['msg']}") from None


def lines(trials: Sequence[Trial]) -> list[dict[str, str]]:
    """A line for each point."""
    return [
        {
            "point": trial.point.name,
            "MBR gains": percent(trial.point.mbr.value / trial.point.lacks, 1),
            "seen": percent(trial.point.sees),
            "forecast": percent(trial.forecast.gain, 1),
            "interval": f"{percent(trial.forecast.low, 1)} to {percent(trial.forecast.high, 1)}",
            "gained": percent(trial.point.gain, 1),
            "": "" if trial.holds else "outside",
        }
        for trial in sorted(trials, key=lambda trial: -trial.point.gain)
    ]


def draw(trials: Sequence[Trial], path: Path) -> None:
    """Forecast against gain, each point with its interval."""
    figure = canvas((7, 5))
    axes = figure.add_subplot()
    for trial in trials:
        told, gain = trial.forecast, 100 * trial.point.gain
        colour = "C0" if trial.holds else "C3"
        axes.plot([100 * told.low, 100 * told.high], [gain, gain], color=colour, alpha=0.35, linewidth=3)
        axes.plot([100 * told.gain], [gain], "o", color=colour)
        axes.annotate(trial.point.name, (100 * told.gain, gain), xytext=(4, 4), textcoords="offset points", fontsize=8)
    ends = [100 * value for trial in trials for value in (trial.forecast.gain, trial.point.gain)]
    axes.plot([min(ends), max(ends)], [min(ends), max(ends)], color="grey", linewidth=1, linestyle="--")
    axes.set(
        xlabel="forecast, % of what MLE lacks (left out of the fit)", ylabel="gained by SEARNN, % of what MLE lacks"
    )
    axes.grid(visible=True, alpha=0.3)
    figure.savefig(path)


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
    print(f"the interval holds {held} of {len(trials)} points, each left out of the fit")
    print(f"fitted on all: slope {fitted.slope:.2f}, width {fitted.width:.3f}")
    print(f"in use: slope {CALIBRATED.slope:.2f}, width {CALIBRATED.width:.3f}")
    if arguments.figure is not None:
        draw(trials, arguments.figure)
    return {"ranks": ranks, "held": held, "fitted": asdict(fitted)}


def main(words: Sequence[str] | None = None) -> int:
    """The command; returns the exit status."""
    parser = Parser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("points", type=Path, metavar="FILE", help="runs (.toml), or points that were measured (.json)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the points here")
    parser.add_argument("--figure", type=Path, metavar="FILE", help="draw forecast against gain here (.svg, .png)")
    parser.add_argument(
        "--split", choices=("valid", "test"), default="valid", help="the data that are measured [valid]"
    )
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
        points = (
            read_points(source) if given else measured(source, arguments.trust_code, arguments.device, arguments.split)
        )
        if arguments.json is not None:  # before anything is judged: to measure takes long
            write(arguments.json, json.dumps([asdict(point) for point in points], indent=1, allow_nan=False).encode())
        evaluate(points, arguments)
        return 0

    return guarded(command)


if __name__ == "__main__":
    sys.exit(main())
