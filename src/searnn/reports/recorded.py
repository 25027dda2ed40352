"""What a run has left on the disk: its settings and its records, read without its data or its model."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from statistics import fmean
from typing import Any

from searnn import sealed
from searnn.reports.headroom import Headroom, kept
from searnn.tasks.common import metrics
from searnn.training import Record, checkpoints, read_records
from searnn.types import SearnnError

HIGHER = metrics.HIGHER | {"f1", "accuracy", "precision", "recall"}  # where the records alone do not tell
VALID = "valid_"
NAMES = {"bleu": "BLEU", "chrf": "chrF", "per": "PER", "wer": "WER", "f1": "F1"}


@dataclass(frozen=True)
class Recorded:
    """One run: settings in their groups, records in their order, and what decides which model is best."""

    name: str
    records: tuple[Record, ...]
    settings: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    metric: str | None = None  # without records nothing tells
    higher_is_better: bool = False
    headroom: Headroom | None = None  # where `searnn headroom` was asked

    @cached_property
    def flat(self) -> dict[str, Any]:
        """All settings by name: names are unique over all groups."""
        return {name: value for group in self.settings.values() for name, value in group.items()}

    def setting(self, name: str, default: Any = None) -> Any:
        """A setting by its name alone."""
        return self.flat.get(name, default)

    def column(self, name: str) -> list[tuple[int, float]]:
        """Steps and values of what was recorded under a name, without what was not finite."""
        pairs = [(record["step"], record.get(name)) for record in self.records]
        return [(step, value) for step, value in pairs if isinstance(value, (int, float))]

    def values(self, name: str, last: int | None = None) -> list[float]:
        """The values alone, of the `last` evaluations or of all."""
        values = [value for _, value in self.column(name)]
        return values if last is None else values[-last:]

    def mean(self, name: str, last: int) -> float | None:
        """The mean of the `last` values, None where there are none."""
        values = self.values(name, last)
        return fmean(values) if values else None

    @property
    def judged(self) -> list[tuple[int, float]]:
        """Steps and the metric that decides."""
        return [] if self.metric is None else self.column(VALID + self.metric)

    @property
    def best(self) -> tuple[int, float] | None:
        """The step of the best evaluation and its metric; of equal ones the first."""
        sign = -1 if self.higher_is_better else 1
        return min(self.judged, key=lambda pair: sign * pair[1], default=None)

    @property
    def since_best(self) -> int:
        """How many evaluations came after the best."""
        best = self.best
        return 0 if best is None else sum(step > best[0] for step, _ in self.judged)

    @property
    def minutes(self) -> float:
        """The time of the run up to its last evaluation."""
        return (self.values("seconds", last=1) or [0.0])[-1] / 60


def read_run(folder: Path, name: str | None = None) -> Recorded:
    """The records of a run's folder; one that has only begun has none."""
    settings = _settings(folder)
    records = tuple(read_records(folder / "metrics.jsonl"))
    metric = _metric(settings, records)
    higher = metric is not None and _higher(metric, records, folder / "best")
    return Recorded(name or folder.resolve().name, records, settings, metric, higher, kept(folder))


def in_words(name: str) -> str:
    """The name of a record as a title or a sentence begins with it."""
    text = name.removeprefix(VALID).replace("_", " ")
    return NAMES.get(text, text[:1].upper() + text[1:])


def _settings(folder: Path) -> dict[str, dict[str, Any]]:
    """The settings as they stand in the file: a report needs none to be valid, so older runs can be read too."""
    if not folder.is_dir():
        raise SearnnError(f"there is no run folder {folder}")
    path = folder / "config.toml"
    try:
        content = tomllib.loads(sealed.read_bytes(path).decode())
    except FileNotFoundError:
        if (folder / "metrics.jsonl").is_file():  # of a run made in Python
            return {}
        raise SearnnError(f"{folder} is not the folder of a run: it has no config.toml") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, ValueError, RecursionError) as error:
        raise SearnnError(f"{path} is not a TOML file: {error}") from None
    except OSError as error:
        raise SearnnError(f"cannot read {path}: {(error.strerror or str(error)).lower()}") from None
    try:
        json.dumps(content, allow_nan=False)  # as a page holds them
    except (TypeError, ValueError) as error:
        raise SearnnError(f"{path} holds what is no setting ({error}): restore it from a copy") from None
    return {group: values for group, values in content.items() if isinstance(values, dict)}


def _metric(settings: Mapping[str, Mapping[str, Any]], records: tuple[Record, ...]) -> str | None:
    """The metric that decides: the one that was set, else the first that was recorded."""
    known = [name.removeprefix(VALID) for record in records[-1:] for name in record if name.startswith(VALID)]
    chosen = settings.get("optimisation", {}).get("metric")
    if isinstance(chosen, str) and ":" in chosen:  # a function of the user's own is recorded as the cost that it is
        chosen = "cost"
    return chosen if chosen in known else next(iter(known), None)


def _higher(metric: str, records: tuple[Record, ...], best: Path) -> bool:
    """Whether more is better: the kept model has the lowest or the highest value; its name tells where both are one."""
    values = [value for record in records if (value := record.get(VALID + metric)) is not None]
    record = checkpoints.read_meta(best).get("record", {}) if checkpoints.exists(best) else {}
    kept = record.get(VALID + metric)
    if kept is None or not values:
        return metric in HIGHER
    lowest, highest = kept <= min(values), kept >= max(values)
    return highest if lowest != highest else metric in HIGHER
