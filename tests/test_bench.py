"""The benchmark: its rows, its phases, its reports, and the code it compares with."""

from __future__ import annotations

import json
import math
import time
from dataclasses import replace

import pytest
import torch
from bench_cases import tiny

from searnn import Mle
from searnn.bench import SETTINGS, Plan, Silent, machine, run
from searnn.bench.compare import Comparison
from searnn.bench.phases import PHASES, Clock
from searnn.bench.plain import PlainModel, cross_entropy, shifted
from searnn.bench.rows import Row, make_plain, make_rows, source_lengths
from searnn.bench.scale import Sizes, make_point
from searnn.bench.settings import make_model, random_batches

CPU = torch.device("cpu")
BOTH = ["plain MLE", "MLE"]
SEARNN = ["learned", "mixed", "reference"]


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """The machine is measured by less."""
    monkeypatch.setitem(machine.MATRIX, "cpu", 64)
    monkeypatch.setitem(machine.COPIED, "cpu", 2**16)


def measure(name, **changes):
    setting = replace(tiny(name), **changes)
    comparison = Comparison(setting, random_batches(setting, 2), CPU, "float32")
    comparison.time(2, 1, Silent())
    comparison.take_apart(1, Silent())
    comparison.weigh(Silent())
    return comparison


def copy_weights(ours, plain: PlainModel) -> None:
    """Our model's weights in the plain one."""
    pairs = [(plain.embed, ours.embed), (plain.project, ours.project), (plain.decoder, ours.layers[0])]
    if plain.read is not None:
        pairs.append((plain.read, ours.encoder.embed))
    if plain.bridge is not None:
        pairs.append((plain.bridge, ours.bridge[0]))
    if plain.attention:
        attend = ours.attend
        pairs += [(plain.query, attend.query), (plain.key, attend.key), (plain.energy, attend.score)]
        pairs.append((plain.combine, ours.combine))
    for mine, theirs in pairs:
        mine.load_state_dict(theirs.state_dict())
    for side, layer in enumerate(ours.encoder.layers[0]):
        for name, value in layer.state_dict().items():
            getattr(plain.encoder, name + "_reverse" * side).data.copy_(value)


@pytest.mark.parametrize("shortest", [None, 2], ids=["full", "ragged"])
@pytest.mark.parametrize("name", list(SETTINGS))
def test_the_plain_loss_is_ours(name, shortest):
    setting = replace(tiny(name), shortest=shortest)
    model, plain, batch = make_model(setting), make_plain(setting), random_batches(setting, 1)[0]
    copy_weights(model, plain)
    assert sum(p.numel() for p in plain.parameters()) == sum(p.numel() for p in model.parameters())
    lengths = source_lengths([batch])[batch.ids]
    assert (lengths is None) == (shortest is None)
    outputs, first = plain.encode(batch.inputs.values, lengths)
    scores = plain.decode(outputs, first, shifted(batch.targets, setting.vocab.bos), lengths)
    theirs = cross_entropy(scores, batch.targets, setting.vocab.pad)
    ours = Mle()(model, batch, torch.Generator()).loss
    torch.testing.assert_close(theirs, ours)
    theirs.backward()
    ours.backward()
    torch.testing.assert_close(plain.decoder.weight_hh_l0.grad, model.layers[0].weight_hh_l0.grad)
    torch.testing.assert_close(plain.encoder.weight_hh_l0.grad, model.encoder.layers[0][0].weight_hh_l0.grad)


@pytest.mark.parametrize("name", list(SETTINGS))
def test_every_row_is_there_and_complete(name):
    comparison = measure(name)
    setting, report = comparison.setting, comparison.report()
    counts = [count or len(setting.vocab.choosable) for count in setting.choices]
    assert [row["name"] for row in report["rows"]] == BOTH + [f"{way} {count}" for count in counts for way in SEARNN]
    for row in report["rows"]:
        ms = row["ms"]
        assert len(ms["all"]) == 2
        assert 0 < ms["lower"] <= ms["median"] <= ms["upper"]
        assert ms["median"] == pytest.approx(sum(ms["all"]) / 2)
        assert set(row["breakdown_ms"]) == {*PHASES, "total"}
        base = report["rows"][0]["ms"]["median"]
        assert row["x_plain_mle"] == pytest.approx(ms["median"] / base)
        assert row["x_mle"] == pytest.approx(ms["median"] / report["rows"][1]["ms"]["median"])
        assert row["row_steps_per_second"] == pytest.approx(row["row_steps"] / ms["median"] * 1e3)
        assert row["of_floor"] == pytest.approx(row["floor_ms"] / ms["median"])
        assert row["first_ms"] > 0
        assert row["peak_bytes"] is None or row["peak_bytes"] >= 0
        rate, copies = (report["rates"][name]["median"] for name in ("float32", "copy"))
        floor = max(sum(row["operations"].values()) / rate, row["bytes"] / copies)
        assert row["floor_ms"] == pytest.approx(1e3 * floor)
        phases = row["breakdown_ms"]
        ran = {phase for phase, spent in phases.items() if spent > 0}
        always = {"encode", "trace", "loss", "backward", "optimiser", "total", "other"}
        assert ran >= always
        assert ran - always == (set() if row["algorithm"] == "mle" else {"roll-in", "roll-out", "cost"})
    assert json.loads(json.dumps(report, allow_nan=False)) == report


@pytest.mark.parametrize("row", range(8))
def test_phases_add_up_to_the_step(row):
    setting = replace(tiny("ocr"), width=32, batch_size=8)
    batches = random_batches(setting, 1)
    made = make_rows(setting, make_model(setting), batches)[row]
    made.phased(batches[0], Clock(CPU))
    clock = Clock(CPU)
    began = time.perf_counter()
    made.phased(batches[0], clock)
    spent = 1e3 * (time.perf_counter() - began)
    total = sum(clock.times().values())
    first, last = clock.marks[0][1], clock.marks[-1][1]
    assert total == pytest.approx(1e3 * (last - first))
    assert total <= spent


@pytest.mark.parametrize("name", list(SETTINGS))
def test_a_step_under_the_clock_is_the_same_step(name):
    setting = tiny(name)
    batches = random_batches(setting, 1)
    model = make_model(setting)
    for row in make_rows(setting, model, batches)[1:]:
        row.step(batches[0])
        expected = [parameter.grad.clone() for parameter in model.parameters()]
        row.phased(batches[0], Clock(CPU))
        for parameter, gradient in zip(model.parameters(), expected, strict=True):
            torch.testing.assert_close(parameter.grad, gradient, rtol=0, atol=0)


def test_steps_leave_the_weights_alone():
    setting = tiny("spelling")
    batches, model = random_batches(setting, 1), make_model(setting)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    for row in make_rows(setting, model, batches):
        assert torch.isfinite(row.step(batches[0]))
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name])


def test_a_row_without_phases_has_the_floor_of_another():
    """As a step that runs by replay: it cannot be taken apart."""
    setting = tiny("ocr")
    comparison = Comparison(setting, random_batches(setting, 2), CPU, "float32")
    other = next(row for row in comparison.rows if row.name == "learned 6")
    comparison.rows = [*comparison.rows[:2], other, Row("captured", other.step, like="learned 6")]
    comparison.time(2, 1, Silent())
    comparison.take_apart(1, Silent())
    rows = {row["name"]: row for row in comparison.report()["rows"]}
    assert rows["captured"]["breakdown_ms"] is None
    assert rows["captured"]["floor_ms"] == rows["learned 6"]["floor_ms"]
    assert rows["captured"]["ms"]["median"] > 0


def test_a_whole_run():
    class Heard(Silent):
        def __init__(self):
            self.kinds = []

        def found(self, kind, part):
            self.kinds.append(kind)

    heard, threads = Heard(), torch.get_num_threads()
    report = run(Plan((tiny("nmt"),), rounds=2, threads=1), heard)
    assert torch.get_num_threads() == threads
    assert heard.kinds == ["setting"]
    assert set(report["settings"]) == {"nmt"}
    assert not report["interrupted"]
    assert report["machine"]["torch"] == torch.__version__
    assert report["machine"]["threads"] == 1
    assert report["engine"] == {"kind": "auto", "precision": "float32"}
    assert math.isfinite(report["settings"]["nmt"]["rows"][2]["floor_ms"])


@pytest.mark.gpu
def test_a_run_on_a_gpu():
    report = run(Plan(tuple(map(tiny, SETTINGS)), rounds=2, device=torch.device("cuda", 0)))
    for part in report["settings"].values():
        for row in part["rows"]:
            assert min(row["ms"]["median"], row["floor_ms"]) > 0
            phases = row["breakdown_ms"]
            if phases is None:  # a recorded step is one thing
                assert "recorded" in row["name"]
                continue
            assert sum(phases[name] for name in PHASES) == pytest.approx(phases["total"])
            assert min(row["peak_bytes"], phases["backward"]) > 0


@pytest.mark.parametrize("device", ["cpu", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_growth_weighs_a_step_that_is_not_recorded(device):
    point = make_point(Sizes(B=2, T=3, V=8, K=2, D=16), "learned", torch.device(device))
    assert point.weighed.phased is not None
    assert (point.weighed is point.timed) == (device == "cpu")


def test_an_interruption_leaves_what_there_is():
    class Impatient(Silent):
        def __init__(self):
            self.done, self.parts = 0, []

        def advance(self):
            self.done += 1
            if self.done == 3:
                raise KeyboardInterrupt

        def found(self, kind, part):
            self.parts.append(part)

    watch = Impatient()
    report = run(Plan((tiny("ocr"), tiny("nmt")), rounds=4, threads=1), watch)
    assert report["interrupted"]
    assert list(report["settings"]) == ["ocr"]
    assert [len(row["ms"]["all"]) for row in watch.parts[0]["rows"]] == [2] * 8  # one round warmed up
    assert {row["breakdown_ms"] for row in watch.parts[0]["rows"]} == {None}
    json.dumps(report, allow_nan=False)
