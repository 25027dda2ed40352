"""Tables by ways of decoding: numbers and means by hand, differences against those of the metrics and of all draws."""

from __future__ import annotations

import io
import random
from dataclasses import replace
from pathlib import Path

import pytest
from rich.console import Console

from searnn.reports.comparison import Result
from searnn.reports.differences import differences
from searnn.reports.entries import Ensembled, TableEntry
from searnn.reports.paired import PREDICTIONS, edits
from searnn.reports.reproduction import Reproduced
from searnn.reports.ways import by_ways, means, published

WAYS = ("", "beam 5", "MBR 8")
GROUPS = {"both": ["one", "two"]}


def named(name: str, way: str) -> str:
    return f"{name}, {way}" if way else name


def write_predictions(folder: Path, made: dict[str, list[int]]) -> None:
    folder.mkdir(parents=True)
    head = [
        "source",
        "output",
        "target",
        "edits",
        "example",
        *(f"{what}, {way}" for way in WAYS[1:] for what in ("output", "edits")),
    ]
    lines = ["\t".join(head)]
    for number, counts in enumerate(zip(*made.values(), strict=True)):
        more = [text for count in counts[1:] for text in ('o"', str(count))]
        lines.append("\t".join(["s", "o", "t", str(counts[0]), str(number), *more]))
    (folder / PREDICTIONS).write_text("".join(f"{line}\n" for line in lines))


def metrics(made: dict[str, list[int]], length: int) -> dict[str, float]:
    """Of words of so many phonemes each."""
    found = {}
    for way, counts in made.items():
        found[named("per", way)] = 100 * sum(counts) / (length * len(counts))
        found[named("wer", way)] = 100 * sum(count > 0 for count in counts) / len(counts)
    return found


@pytest.fixture
def entries(tmp_path: Path) -> list[TableEntry]:
    """Two rows of two methods with two seeds and their ensembles."""
    draw, found = random.Random(1), []
    for row, length in (("one", 4), ("two", 7)):
        for column, most in (("MLE", 3), ("SEARNN", 2)):
            tests = {}
            for name in ("0", "1", "ensemble"):
                made = {way: [draw.randint(0, most) for _ in range(30)] for way in WAYS}
                write_predictions(tmp_path / row / f"{column}-{name}", made)
                tests[name] = metrics(made, length)
            results = [
                Result(
                    column, seed, str(tmp_path / row / f"{column}-{seed}"), 1, 0.5, tests[str(seed)], 9, 9.0, 1.0, []
                )
                for seed in (0, 1)
            ]
            ensemble = Ensembled([0, 1], str(tmp_path / row / f"{column}-ensemble"), tests["ensemble"])
            paper = {"one": 80.0, "two": 40.0}[row]
            found.append(TableEntry(row, column, "", paper, "wer", results, [0, 1], {}, ensemble))
    return found


def numbers(entry: TableEntry, name: str, ensemble: bool) -> list[float]:
    if ensemble:
        assert entry.ensemble is not None
        return [entry.ensemble.test[name]]
    return [result.test[name] for result in entry.results]


@pytest.mark.parametrize("metric", ["wer", "per"])
def test_a_difference_is_that_of_the_metric(entries: list[TableEntry], metric: str) -> None:
    found = {(each.row, each.way, each.ensemble): each for each in differences(entries, metric, 1, GROUPS)}
    assert len(found) == 3 * 3 * 2
    for way in WAYS:
        for ensemble in (False, True):
            of_rows = []
            for base, own in (entries[:2], entries[2:]):
                ours, theirs = (numbers(entry, named(metric, way), ensemble) for entry in (own, base))
                of_rows.append(sum(ours) / len(ours) - sum(theirs) / len(theirs))
                each = found[own.row, way, ensemble]
                assert (each.column, each.base, each.metric) == ("SEARNN", "MLE", metric)
                assert each.value == pytest.approx(of_rows[-1])
                assert each.low < each.value < each.high
            both = found["both", way, ensemble]
            assert both.value == pytest.approx(sum(of_rows) / 2)
            assert both.high - both.low < max(
                found[row, way, ensemble].high - found[row, way, ensemble].low for row in GROUPS["both"]
            )


def test_the_draws_are_those_of_examples(entries: list[TableEntry]) -> None:
    """Against draws in plain Python, of one place."""
    each = next(
        one for one in differences(entries, "wer", 1, {}) if (one.row, one.way, one.ensemble) == ("one", "", False)
    )
    apart = [0.0] * 30
    for base, own in zip(entries[0].results, entries[1].results, strict=True):
        for at, (ours, theirs) in enumerate(
            zip(edits(Path(own.folder))[""], edits(Path(base.folder))[""], strict=True)
        ):
            apart[at] += ((float(ours) > 0) - (float(theirs) > 0)) / 2
    draw = random.Random(0)
    drawn = sorted(100 * sum(draw.choices(apart, k=30)) / 30 for _ in range(4000))
    assert each.low == pytest.approx(drawn[100], abs=3)
    assert each.high == pytest.approx(drawn[-101], abs=3)
    beyond = min(sum(value <= 0 for value in drawn), sum(value >= 0 for value in drawn)) / 4000
    assert each.p == pytest.approx(min(1, 2 * beyond), abs=0.1)


def test_without_predictions_there_are_no_differences(entries: list[TableEntry]) -> None:
    for result in entries[0].results:
        (Path(result.folder) / PREDICTIONS).unlink()
    found = differences(entries, "wer", 1, GROUPS)
    assert {(each.row, each.ensemble) for each in found} == {
        ("one", True),
        ("two", True),
        ("two", False),
        ("both", True),
    }


def test_what_stands_in_a_table(entries: list[TableEntry]) -> None:
    lines = by_ways(entries, "wer", 1, GROUPS, differences(entries, "wer", 1, GROUPS))
    places = ["greedy", "beam 5", "MBR 8", "ensemble", "ensemble, beam 5", "ensemble, MBR 8"]
    assert list(lines[0]) == ["", "method", "published", *places]
    assert [(line[""], line["method"]) for line in lines] == [
        (row, method) for row in ("one", "two", "both") for method in ("MLE", "SEARNN", "SEARNN - MLE")
    ]
    greedy = numbers(entries[1], "wer", False)
    assert lines[1]["greedy"] == f"{sum(greedy) / 2:.2f}\n{min(greedy):.2f} to {max(greedy):.2f}"
    assert lines[1]["ensemble, beam 5"] == f"{numbers(entries[1], 'wer, beam 5', True)[0]:.2f}"
    assert [lines[at]["published"] for at in (0, 2, 3, 6)] == ["80.00", "", "40.00", "60.00"]
    mean = sum(numbers(entry, "wer, MBR 8", True)[0] for entry in entries[::2]) / 2
    assert lines[6]["ensemble, MBR 8"] == f"{mean:.2f}\n{mean / 60:.2f} x"
    assert lines[2]["greedy"].startswith(f"{sum(greedy) / 2 - sum(numbers(entries[0], 'wer', False)) / 2:+.2f}\np ")
    assert means(entries[::2], "wer", 1)["ensemble, MBR 8"] == pytest.approx(mean)
    assert published(entries[::2], "per") is None


def test_a_terminal_of_80_columns_has_room(entries: list[TableEntry]) -> None:
    named = [replace(entry, row=f"{entry.row}, Serbo-Croatian (dev)") for entry in entries]
    groups = {"all of them": [entry.row for entry in named[::2]]}
    table = Reproduced("t", "A table", "", "%", 1, named, ["MLE", "SEARNN"], metrics=["wer", "per"], groups=groups)
    console = Console(width=80, file=io.StringIO())
    console.print(table.terminal(console))
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    assert "\u2026" not in shown
    assert shown.count("SEARNN -") == 2 * 3
    assert shown.count("published") == 3
    for line in by_ways(named, "wer", 1, groups, []):
        assert all(part in shown for text in [*line.values()][2:] for part in text.split())


def test_what_is_missing_is_told(entries: list[TableEntry]) -> None:
    first = TableEntry("one", "MLE", "", None, "wer", entries[0].results[:1], [0, 1, 2], {2: "no room"})
    bare = TableEntry("two", "MLE", "", None, "wer", [], [0], {})
    one, two, both = by_ways([first, bare], "wer", 1, GROUPS, [])
    assert one["greedy"] == f"{entries[0].results[0].test['wer']:.2f}\n1 missing\n1 failed"
    assert two["greedy"] == both["greedy"] == "-"
    assert "ensemble" not in one


def test_what_is_level_in_a_draw_is_on_no_side(tmp_path: Path) -> None:
    """One word of 100 differs: more than a third of the draws do not have it, and are level, whatever is rounded."""
    made = {"MLE": [1] * 17 + [0] * 83, "SEARNN": [1] * 18 + [0] * 82}
    found = []
    for column, counts in made.items():
        write_predictions(tmp_path / column, dict.fromkeys(WAYS, counts))
        tested = metrics(dict.fromkeys(WAYS, counts), 3)
        result = Result(column, 0, str(tmp_path / column), 1, 0.5, tested, 9, 9.0, 1.0, [])
        found.append(TableEntry("one", column, "", None, "wer", [result], [0]))
    for metric in ("wer", "per"):
        for each in differences(found, metric, 1, {"alone": ["one"]}):
            assert each.p == pytest.approx(2 * 0.99**100, abs=0.1), each
