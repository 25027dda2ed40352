"""The benchmark: its methods, its phases, its reports, and the code it compares with."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
import torch
from bench_cases import tiny

from searnn import Mle
from searnn.bench import SETTINGS, Benchmark, Watch, run
from searnn.bench.comparison import Comparison
from searnn.bench.methods import TimedMethod, make_methods, make_plain, source_lengths
from searnn.bench.plain import PlainModel, cross_entropy, shifted
from searnn.bench.settings import make_model, random_batches
from searnn.bench.spans import PHASES, breakdown

CPU = torch.device("cpu")
BOTH = ["plain MLE", "MLE"]
SEARNN = ["learned", "mixed", "reference"]


def measure(name, **changes):
    setting = replace(tiny(name), **changes)
    comparison = Comparison(setting, random_batches(setting, 2), CPU, 2)
    comparison.time(Watch())
    comparison.take_apart(Watch())
    comparison.weigh(Watch())
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


@pytest.mark.parametrize(
    "name", [name if name == "ocr" else pytest.param(name, marks=pytest.mark.slow) for name in SETTINGS]
)
def test_every_method_is_there_and_complete(name):
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
        assert row["first_ms"] > 0
        assert row["peak_bytes"] is None or row["peak_bytes"] >= 0
        phases = row["breakdown_ms"]
        ran = {phase for phase, spent in phases.items() if spent > 0}
        always = {"encode", "trace", "loss", "backward", "optimiser", "total", "other"}
        assert ran >= always
        assert ran - always == (set() if row["algorithm"] == "mle" else {"roll-in", "branch", "roll-out", "cost"})
        assert phases["total"] == pytest.approx(sum(phases[phase] for phase in PHASES))
    assert json.loads(json.dumps(report, allow_nan=False)) == report


@pytest.mark.parametrize("name", list(SETTINGS))
def test_a_step_under_the_profiler_is_the_same_step(name):
    setting = tiny(name)
    (batch,), model = random_batches(setting, 1), make_model(setting)
    for method in make_methods(setting, model, [batch])[1:]:
        method.step(batch)
        expected = [parameter.grad.clone() for parameter in model.parameters()]
        breakdown(lambda method=method: method.step(batch), CPU)
        for parameter, gradient in zip(model.parameters(), expected, strict=True):
            torch.testing.assert_close(parameter.grad, gradient, rtol=0, atol=0)


def test_steps_leave_the_weights_alone():
    setting = tiny("spelling")
    batches, model = random_batches(setting, 1), make_model(setting)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    for method in make_methods(setting, model, batches):
        assert torch.isfinite(method.step(batches[0]))
    for name, value in model.state_dict().items():
        assert torch.equal(value, before[name])


def test_a_recorded_step_is_not_taken_apart():
    setting = tiny("ocr")
    comparison = Comparison(setting, random_batches(setting, 2), CPU, 2)
    other = next(method for method in comparison.methods if method.name == "learned 6")
    comparison.methods = [*comparison.methods[:2], other, TimedMethod("recorded", other.step, {}, recorded=True)]
    comparison.time(Watch())
    comparison.take_apart(Watch())
    rows = {row["name"]: row for row in comparison.report()["rows"]}
    assert rows["recorded"]["breakdown_ms"] is None
    assert rows["learned 6"]["breakdown_ms"] is not None
    assert rows["recorded"]["ms"]["median"] > 0


def test_a_whole_run():
    class Heard(Watch):
        def __init__(self):
            self.names = []

        def found(self, result):
            self.names.append(result["name"])

    heard, threads = Heard(), torch.get_num_threads()
    report = run(Benchmark((tiny("nmt"),), rounds=2, threads=1), heard)
    assert torch.get_num_threads() == threads
    assert heard.names == ["nmt"]
    assert set(report["settings"]) == {"nmt"}
    assert not report["interrupted"]
    assert report["machine"]["torch"] == torch.__version__
    assert report["machine"]["threads"] == 1
    assert report["engine"] == {"kind": "auto", "precision": "float32"}


@pytest.mark.gpu
def test_a_run_on_a_gpu():
    report = run(Benchmark(tuple(map(tiny, SETTINGS)), rounds=2, device=torch.device("cuda", 0)))
    for part in report["settings"].values():
        for row in part["rows"]:
            assert row["ms"]["median"] > 0
            phases = row["breakdown_ms"]
            if phases is None:  # a recorded step is one thing
                assert "recorded" in row["name"]
                continue
            assert sum(phases[name] for name in PHASES) == pytest.approx(phases["total"])
            assert min(row["peak_bytes"], phases["backward"]) > 0


def test_an_interruption_leaves_what_there_is():
    class Impatient(Watch):
        def __init__(self):
            self.done, self.results = 0, []

        def advance(self):
            self.done += 1
            if self.done == 3:
                raise KeyboardInterrupt

        def found(self, result):
            self.results.append(result)

    watch = Impatient()
    report = run(Benchmark((tiny("ocr"), tiny("nmt")), rounds=4, threads=1), watch)
    assert report["interrupted"]
    assert list(report["settings"]) == ["ocr"]
    assert [len(row["ms"]["all"]) for row in watch.results[0]["rows"]] == [2] * 8  # one round warmed up
    assert {row["breakdown_ms"] for row in watch.results[0]["rows"]} == {None}
    json.dumps(report, allow_nan=False)
