"""A table of one metric by every way of decoding: a line for each method of each row, one model beside the ensemble."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from statistics import fmean

from searnn.reports.comparison import by_way, spread, way_of, ways
from searnn.reports.differences import Difference, Place
from searnn.reports.entries import TableEntry
from searnn.reports.rendering import TableRows


def by_ways(
    entries: Sequence[TableEntry],
    metric: str,
    scale: float,
    groups: Mapping[str, Sequence[str]],
    apart: Iterable[Difference],
) -> TableRows:
    """Every row and the mean of each group: each method, and what the others have more than the first."""
    places = list(_places(entries, metric))
    columns = dict.fromkeys(entry.column for entry in entries)
    differ = {(each.row, each.column, (each.way, each.ensemble)): each for each in apart}
    lines: list[dict[str, str]] = []
    beside = {"published"} if any(published([entry], metric) is not None for entry in entries) else set()

    def add(name: str, method: str, known: str, texts: Mapping[str, str]) -> None:
        lines.append({"": name, "method": method, **dict.fromkeys(beside, known), **texts})

    for name, rows in {**{entry.row: [entry.row] for entry in entries}, **groups}.items():
        for column in columns:
            own = [entry for row in rows for entry in entries if (entry.row, entry.column) == (row, column)]
            if len(own) == len(rows):
                texts = {_title(place): _number(own, place, metric, scale, mean=name in groups) for place in places}
                add(name, column, _published(own, metric), texts)
        for column in columns:
            if any((name, column, place) in differ for place in places):
                texts = {_title(place): _difference(differ.get((name, column, place))) for place in places}
                base = next(each.base for key, each in differ.items() if key[:2] == (name, column))
                add(name, f"{column} - {base}", "", texts)
    return lines


def stacked(rows: TableRows) -> TableRows:
    """The same for a narrow terminal: row, what is published and method in one column."""
    found: list[dict[str, str]] = []
    name = ""
    for row in rows:
        known = f"published {row['published']}" if row.get("published") else ""
        label = [row["method"]] if row[""] == name else [row[""], *filter(None, [known]), row["method"]]
        numbers = {title: text for title, text in row.items() if title not in ("", "method", "published")}
        found.append({"": "\n".join(label), **{t.replace(", ", "\n"): text for t, text in numbers.items()}})
        name = row[""]
    return found


def means(entries: Sequence[TableEntry], metric: str, scale: float) -> dict[str, float]:
    """The means over some rows, of which each has an entry, by place."""
    found = {}
    for place in _places(entries, metric):
        numbers = [_numbers(entry, place, metric, scale) for entry in entries]
        if all(numbers):
            found[_title(place)] = fmean(fmean(each.values()) for each in numbers)
    return found


def published(entries: Iterable[TableEntry], metric: str) -> float | None:
    """The mean of the published numbers beside some entries, where all have one of this metric."""
    found = [entry.paper if entry.metric == metric else None for entry in entries]
    known = [value for value in found if value is not None]
    return fmean(known) if known and len(known) == len(found) else None


def _places(entries: Iterable[TableEntry], metric: str) -> Iterator[Place]:
    """What is measured: greedy decoding first, and ensembles last."""
    there = [(result.test, False) for entry in entries for result in entry.results]
    there += [(entry.ensemble.test, True) for entry in entries if entry.ensemble is not None]
    yield from dict.fromkeys(
        (way_of(name), ensemble) for test, ensemble in there for name in (metric, *ways(metric, test))
    )


def _title(place: Place) -> str:
    way, ensemble = place
    return by_way("ensemble", way) if ensemble else way or "greedy"


def _numbers(entry: TableEntry, place: Place, metric: str, scale: float) -> dict[int, float]:
    """The numbers of an entry by seed; an ensemble has one."""
    way, ensemble = place
    runs = {result.seed: result.test for result in entry.results}
    if ensemble:
        runs = {} if entry.ensemble is None else {0: entry.ensemble.test}
    name = by_way(metric, way)
    return {seed: scale * test[name] for seed, test in runs.items() if name in test}


def _number(entries: Sequence[TableEntry], place: Place, metric: str, scale: float, mean: bool) -> str:
    """The mean over the seeds, or over rows too, its range for greedy decoding, and how much of what is published."""
    numbers = [_numbers(entry, place, metric, scale) for entry in entries]
    if not all(numbers):
        return "-"
    value = fmean(fmean(each.values()) for each in numbers)
    told = [f"{value:.2f}"]
    if place == ("", False):
        seeds = set.intersection(*(set(each) for each in numbers))
        if len(seeds) > 1:
            over = spread(fmean(each[seed] for each in numbers) for seed in seeds)
            told.append(f"{over.lowest:.2f} to {over.highest:.2f}")
        missing, failed = sum(entry.missing for entry in entries), sum(len(entry.failed) for entry in entries)
        told += [f"{missing} missing"] if missing else []
        told += [f"{failed} failed"] if failed else []
    if mean and (known := published(entries, metric)):
        told.append(f"{value / known:.2f} x")
    return "\n".join(told)


def _published(entries: Sequence[TableEntry], metric: str) -> str:
    known = published(entries, metric)
    return "" if known is None else f"{known:.2f}"


def _difference(found: Difference | None) -> str:
    return "" if found is None else f"{found.value:+z.2f}\np {found.p:.2g}"
