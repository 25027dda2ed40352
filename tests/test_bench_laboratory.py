"""The laboratory in benchmarks/: floors, growth and costs, by their own commands at tiny sizes."""

from __future__ import annotations

import json
import math
import time
from dataclasses import replace
from pathlib import Path
from xml.etree import ElementTree

import costs
import crossfit
import distribution
import floors
import growth
import headroom
import large
import loading
import precision
import pytest
import scaling
import torch
from bench_cases import printed, tiny
from costs import LETTERS, CostSpeed, as_lists, near_pairs
from floors import gauges
from growth import Sizes, exponent, make_point
from rapidfuzz.distance import Levenshtein
from tiny import copy_flags
from tiny_data import tiny_data

from searnn.bench import SETTINGS, rendering
from searnn.bench.timing import milliseconds
from searnn.cli import main
from searnn.costs import EditDistance
from searnn.engine import PRECISIONS
from searnn.reports.bootstrap import Estimate
from searnn.reports.headroom import Headroom, Prefixes, Way

CPU = torch.device("cpu")
SVG = "{http://www.w3.org/2000/svg}"
ONE = ["--device", "cpu", "--threads", "1"]


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiny settings under the names of the real ones, and growth over few small sizes."""
    for name in SETTINGS:
        monkeypatch.setitem(SETTINGS, name, replace(tiny(name), rounds=2))
    monkeypatch.setitem(floors.MATRIX, "cpu", 64)
    monkeypatch.setitem(floors.COPIED, "cpu", 2**16)
    monkeypatch.setattr(growth, "AXES", {"T": (2, 4), "V": (32, 64), "C": (1, 2)})


def test_floors(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = tmp_path / "out.json"
    assert floors.main(["--json", str(path), *ONE]) == 0
    report = json.loads(path.read_text())
    assert set(report["settings"]) == set(SETTINGS)
    for part, table in zip(report["settings"].values(), printed(capsys.readouterr().out), strict=True):
        assert table[""] == [row["name"] for row in part["rows"]]
        assert table["of the floor, %"] == [rendering.number(row["of_floor"], 100) for row in part["rows"]]
        assert rendering.NONE not in {entry for line in table.values() for entry in line}
        rate, copies = (part["rates"][name]["median"] for name in ("float32", "copy"))
        for row in part["rows"]:
            median = row["ms"]["median"]
            assert row["row_steps_per_second"] == pytest.approx(row["row_steps"] / median * 1e3)
            assert row["of_floor"] == pytest.approx(row["floor_ms"] / median)
            floor = max(sum(row["operations"].values()) / rate, row["bytes"] / copies)
            assert row["floor_ms"] == pytest.approx(1e3 * floor)


def test_an_interrupted_floor_leaves_what_there_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    def impatient(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(floors.Comparison, "time", impatient)
    path = tmp_path / "out.json"
    assert floors.main(["ocr", "nmt", "--json", str(path), *ONE]) == 130
    report = json.loads(path.read_text())
    assert report["interrupted"]
    assert list(report["settings"]) == ["ocr"]
    assert all(row["row_steps"] > 0 for row in report["settings"]["ocr"]["rows"])
    assert printed(capsys.readouterr().out)[0]["floor, ms"] == [rendering.NONE] * 8


def test_a_mistake_is_one_line(capsys: pytest.CaptureFixture[str]):
    assert floors.main(["ocr", "--pretrain", "3", *ONE]) == 2
    assert capsys.readouterr().err == "searnn: error: --pretrain is for real data: give --real too\n"


def test_gauges_know_their_amount():
    names = [gauge.name for gauge in gauges(CPU, "float32")]
    assert names == ["float32", "copy"]
    for gauge in gauges(CPU, "float32"):
        assert milliseconds(gauge.work, CPU) > 0
        assert gauge.amount == {"float32": 2 * 64**3, "copy": 2 * 2**16}[gauge.name]


def test_growth(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = tmp_path / "out.json"
    assert growth.main(["--steps", "1", "--json", str(path), *ONE]) == 0
    out = capsys.readouterr().out
    report = json.loads(path.read_text())
    lines = [(line["axis"], line["roll_out"]) for line in report["lines"]]
    assert lines == [("T", "learned"), ("T", "focused"), ("V", "learned"), ("C", "learned")]
    for line in report["lines"]:
        assert all(point["ms"]["median"] > 0 for point in line["points"])
        assert growth.power(line["axis"], line["time_exponent"]) in out


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_growth_weighs_a_step_that_is_not_recorded(device):
    point = make_point(Sizes(B=2, T=3, V=8, K=2, D=16), "learned", torch.device(device))
    assert not point.weighed.recorded
    assert (point.weighed is point.timed) == (device == "cpu")


@pytest.mark.parametrize("power", [0.0, 0.5, 1.0, 2.0])
def test_the_exponent_of_made_up_numbers(power):
    sizes = [4, 8, 16, 64]
    assert exponent(sizes, [3 * size**power for size in sizes]) == pytest.approx(power)
    # Least squares by hand: the slope of two points is exact, whatever lies between at the middle does not tilt it.
    assert exponent([1, 10, 100], [1, 7, 10**power]) == pytest.approx(power / 2)
    assert exponent(sizes, [3 * size**power if size != 16 else None for size in sizes]) == pytest.approx(power)


def test_no_exponent_of_one_size():
    assert exponent([4, 8], [1.0, None]) is None
    assert exponent([4, 8], [None, None]) is None


def test_costs(tmp_path: Path):
    path = tmp_path / "out.json"
    assert costs.main(["--steps", "1", "--json", str(path), *ONE]) == 0
    report = json.loads(path.read_text())
    libraries = {(line["cost"].split(",")[0], line["library"]) for line in report["lines"]}
    ours = {(cost, "searnn") for cost in ("BLEU", "GLEU", "edit distance", "Hamming")}
    assert libraries >= ours | {("BLEU", "sacrebleu"), ("edit distance", "rapidfuzz"), ("Hamming", "rapidfuzz")}
    for line in report["lines"]:
        speed = line["pairs_per_second"]
        assert speed["median"] == pytest.approx(1e3 * line["pairs"] / line["ms"]["median"])


def test_the_libraries_judge_the_same_pairs():
    """What is timed beside ours gives the same costs, so that the work is the same."""
    speed = CostSpeed(CPU, rows=2)
    assert {key.split("/")[0] for key in speed.works} == {cost for cost, _, _ in speed.lines.values()}
    outputs, targets = near_pairs(LETTERS, 10, 2)
    ours = EditDistance(LETTERS, normalised=False)(outputs, targets)
    theirs = sum(Levenshtein.distance(output, target) for output, target in as_lists(outputs, targets))
    assert ours.sum() == theirs


def test_scaling_lists_what_is_sent(capsys: pytest.CaptureFixture[str]):
    scaling.bytes_sent()
    assert [line.split(" | ")[0] for line in capsys.readouterr().out.splitlines()[2:]] == [f"| {n}" for n in SETTINGS]
    scaling.balance(draws=1)
    assert len(capsys.readouterr().out.splitlines()) == 5


def test_precision_of_a_run(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    run = tmp_path / "run"
    assert main(copy_flags(run)) == 0
    capsys.readouterr()
    precision.main([str(run), "--device", "cpu", "--batches", "1"])
    lines = [line.strip("| ").split(" | ") for line in capsys.readouterr().out.splitlines()[2:]]
    assert [line[:2] for line in lines] == [["run", name] for name in PRECISIONS]
    assert {(line[3], line[4]) for line in lines} == {("0.00000%", "0.000%")}  # on a CPU there is but float32


@pytest.mark.parametrize("shape", large.SHAPES)
def test_large_outputs_and_vocabularies(shape: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    level, *sizes = large.SHAPES[shape]
    monkeypatch.setitem(large.SHAPES, shape, (level, min(sizes[0], 12), min(sizes[1], 40)))
    monkeypatch.setattr(large, "BATCH", 3)
    monkeypatch.setattr(large, "WIDTH", 8)
    large.write(shape, tmp_path)
    words = (tmp_path / "train.tsv").read_text().replace("\t", " ").split()
    assert len(set("".join(words) if level == "chars" else words)) == min(sizes[1], 40), "every unit is there"
    for method in large.METHODS:
        found = large.measure(shape, method, tmp_path, 2)
        assert set(found) == {"update", "peak"}
        assert min(found.values()) > 0


def test_loading_of_few_pairs(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    path = tmp_path / "pairs.tsv"
    loading.write(path, 100)
    loading.measure("words", path)
    found = json.loads(capsys.readouterr().out)
    assert found["units"] > 100
    assert found["peak"] >= found["before"] > 0


def made_point(name: str, mbr: float, following: float, searnn: float, *, error: float = 0.2, data: str = ""):
    """A point of which MBR gains so much, so many of the mistakes follow on others, and SEARNN gains so much."""
    side = Prefixes(10, error, 0.1, 0.1, 0.1, 0.1, following, 0.5, 0.6, 0.4, 0.1)
    none, greedy = Estimate(0.0, 0.0, 0.0), Estimate(error, 0.9 * error, 1.1 * error)
    way = Way(greedy, none)
    found = Headroom(
        run=name, task="copy", algorithm="mle", metric="error", higher_is_better=False, step=1, split="valid",
        examples=10, samples=4, temperature=1.0, beam=5, seed=0, perfect=0.0, greedy=greedy, beamed=way, best=way,
        mbr=Way(greedy, Estimate(mbr, mbr, mbr)), ambiguity=0.1, choice=0.1, unknown=0.8,
        spared=0.1, judged=side, train=side, forecast=None, words=(),
    )  # fmt: skip
    return headroom.Point(name, data or name, (found,), (error,), (error - searnn,))


def test_a_law_is_found_again():
    points = [
        made_point(str(n), 0.01 * n, 1 / n, 0.7 * 0.01 * n + 0.2 * error / n, error=error)
        for n, error in enumerate([0.5, 0.2, 0.4, 0.1, 0.3], start=1)
    ]
    fitted = headroom.fit(points)
    assert (fitted.ambiguity, fitted.following) == (pytest.approx(0.7), pytest.approx(0.2))
    assert fitted.width == pytest.approx(0, abs=1e-12)
    for trial in headroom.leave_one_out(points):
        assert trial.forecast.gain == pytest.approx(trial.point.gain)
        assert trial.point.noise == 0
    assert headroom.best_rank_correlation(headroom.leave_one_out(points)) == pytest.approx(1), "no noise"


def test_the_noise_is_that_of_both_means():
    point = replace(made_point("a", 0.0, 0.5, 0.0), mle=(0.20, 0.22), searnn=(0.17, 0.18, 0.19))
    assert point.gain == pytest.approx(3)
    assert point.noise == pytest.approx(math.sqrt(1.0**2 + 1 / 3))


def test_no_share_is_negative():
    points = [made_point(str(n), 0.01 * n, 0.5, 0.02 - 0.01 * n) for n in range(1, 6)]
    fitted = headroom.fit(points)
    assert fitted.ambiguity == 0
    assert fitted.following >= 0


def test_the_interval_is_the_narrowest_that_holds_nine_of_ten_and_data_sets_are_left_out_whole():
    random = torch.Generator().manual_seed(0)
    draws = torch.rand(20, 3, generator=random).tolist()
    points = [
        made_point(str(n), 0.05 * a, b, 0.02 * a + 0.1 * b * 0.2 + 0.02 * (c - 0.5), data=str(n // 2))
        for n, (a, b, c) in enumerate(draws)
    ]
    fitted = headroom.fit(points)
    held = {
        width: sum(
            told.low - 1e-12 <= point.gain <= told.high + 1e-12
            for point in points
            for told in [point.forecast(replace(fitted, width=width))]
        )
        for width in (fitted.width, 0.98 * fitted.width)
    }
    enough, narrower = held.values()
    assert enough >= 19 > narrower, "nine of ten of them and the one to come"
    trials = headroom.leave_one_out(points)
    others = [point for point in points if point not in points[2:4]]
    assert trials[3].forecast == points[3].forecast(headroom.fit(others)), "it is left out"
    assert trials[3].forecast != points[3].forecast(fitted)


def test_the_forecast_of_runs(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    for name, algorithm in (("mle", "mle"), ("searnn", "searnn"), ("other", "mle")):
        assert main([*copy_flags(Path(name)), "--algorithm", algorithm]) == 0
    cases = "".join(
        f'[[point]]\nname = "{number}"\nmle = ["mle"]\nsearnn = ["{name}"]\n'
        for number, name in enumerate(["searnn", "other", "searnn", "other"])
    )
    Path("runs.toml").write_text(cases)
    capsys.readouterr()
    assert headroom.main(["runs.toml", "--json", "points.json", "--figure", "figure.svg", "--device", "cpu"]) == 0
    first = capsys.readouterr().out
    assert "of 4 points, the data set of each left out of the fit" in first
    figure = ElementTree.parse("figure.svg").getroot()
    assert sorted(str(name.text) for name in figure.iter(f"{SVG}title"))[:4] == list("0123")
    assert "prefers-color-scheme:dark" in Path("figure.svg").read_text()
    (point, other, *_) = headroom.read_points(Path("points.json"))
    assert main(["eval", "mle", "--split", "test", "--json"]) == 0
    assert main(["eval", "searnn", "--split", "test", "--json"]) == 0
    assert main(["eval", "mle", "--split", "valid", "--json"]) == 0
    by_mle, by_searnn, judged = (json.loads(line)["metrics"]["error"] for line in capsys.readouterr().out.splitlines())
    assert point.gain == pytest.approx(100 * (by_mle - by_searnn)), "in points"
    assert point.headrooms == other.headrooms
    assert point.lacks == pytest.approx(100 * judged), "of validation data, in points"
    assert headroom.main(["points.json"]) == 0
    assert capsys.readouterr().out == first


def test_points_that_are_none_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    few, bad = tmp_path / "few.json", tmp_path / "bad.toml"
    few.write_text("[]")
    bad.write_text("[[point]]\nname = 'a'\n")
    told = {tmp_path / "none.json": "there is no file", few: "expected more than 3", bad: "is no file of runs: 'mle'"}
    for path, message in told.items():
        assert headroom.main([str(path)]) == 2
        error = capsys.readouterr().err
        assert message in error
        assert error.count("\n") == 1


def test_the_experiment_on_the_distribution(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setenv("SEARNN_DATA", str(tiny_data(tmp_path / "sets")))
    monkeypatch.setattr(distribution, "READER", {**distribution.READER, "batch_size": 4, "width": 8})
    runs = tmp_path / "runs"
    listed = distribution.jobs(runs / "data", runs)
    assert len({job.name for job in listed}) == len(listed)
    assert {need for job in listed for need in job.needs} <= {job.name for job in listed}
    distribution.prepare(runs / "data")
    distribution.work(runs, r"slv\.(fold\d|mle\.0|crossfit\+smooth\.0)$", time.time() + 600, quick=True)
    assert [path.suffix for path in runs.glob("*.failed")] == []
    found = [json.loads(path.read_text()) for path in sorted(runs.glob("*.*.json"))]
    assert [result["name"] for result in found][:3] == ["slv.crossfit+smooth.0", "slv.fold0", "slv.fold1"]
    (runs / "results.json").write_text(json.dumps(found))
    capsys.readouterr()
    assert distribution.main([str(runs), "--table"]) == 0
    table = capsys.readouterr().out.strip().splitlines()
    assert [line.split("|")[1].strip() for line in table] == ["slv", "---", "crossfit+smooth", "mle"]


def test_folds_leave_out_and_hold_every_example(tmp_path: Path):
    lines = [f"{chr(97 + number % 26)}{number}\tx" for number in range(30)]
    path = tmp_path / "pairs.tsv"
    path.write_text("\n".join(lines))
    wholes = [crossfit.Folded([path], [path], left_out=fold).examples("train").ids.tolist() for fold in range(4)]
    assert sorted(number for ids in wholes for number in ids) == sorted([*range(1, 31)] * 3)
    data = crossfit.Folded([path], [path]).train(3, 0)
    assert data.steps_per_epoch == 8
    epochs = [[data.batch(step).ids for step in range(first, first + 8)] for first in (0, 8)]
    for epoch in epochs:
        assert all({number % 4 for number in ids} == {step % 4} for step, ids in enumerate(epoch))
        assert len({number for ids in epoch for number in ids}) == 24
        assert not {*epoch[0]} & {*wholes[0]}
    assert epochs[0] != epochs[1]
