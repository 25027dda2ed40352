"""The parts of the benchmark: clock, wrapped objects, rounds, exponents, random data, the machine's own measures."""

from __future__ import annotations

import time
from dataclasses import replace

import pytest
import torch
from bench_cases import tiny

from searnn import Encoded, Searnn
from searnn.bench import SETTINGS, Silent, machine, on_device
from searnn.bench.machine import gauges, milliseconds, peak_bytes
from searnn.bench.phases import Clock, altered, altered_call
from searnn.bench.settings import make_model, random_batches
from searnn.bench.timing import Times, exponent
from searnn.costs import Hamming
from searnn.losses import KLLoss
from searnn.policies import Learned, Mixed, Reference

CPU = torch.device("cpu")


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """The machine is measured by less."""
    monkeypatch.setitem(machine.MATRIX, "cpu", 64)
    monkeypatch.setitem(machine.COPIED, "cpu", 2**16)


def test_the_clock_stops_the_outer_phase(monkeypatch):
    now = iter([0.0, 1.0, 3.0, 6.0, 10.0, 15.0])
    monkeypatch.setattr(time, "perf_counter", lambda: next(now))
    clock = Clock(CPU)
    with clock.running(), clock.phase("roll-out"), clock.phase("cost"):
        pass
    times = clock.times()
    assert {name: spent for name, spent in times.items() if spent} == {
        "other": 1e3 * (1 + 5),
        "roll-out": 1e3 * (2 + 4),
        "cost": 1e3 * 3,
    }


def test_altered_things_are_what_they_were():
    calls = []

    def note(original, *arguments, **named):
        calls.append(original)
        return original(*arguments, **named)

    learned = altered(Learned(budget=7), roll_in=note, closed_form=note)
    assert type(learned) is Learned
    assert learned.budget == 7
    assert learned.repeats(Learned())
    assert not hasattr(learned, "closed_form")  # it had none
    with pytest.raises(TypeError):  # as the original does without arguments
        altered(Reference(), closed_form=note).closed_form()
    assert len(calls) == 1
    cost = altered_call(Hamming(tiny("ocr").vocab), note)
    targets = torch.tensor([[1, 2]])
    assert cost(torch.tensor([[[1, 3]]]), targets).tolist() == [[1.0]]
    assert len(calls) == 2
    assert isinstance(cost, Hamming)
    assert isinstance(altered_call(KLLoss(1.0), note), KLLoss)
    assert Searnn(learned, Mixed(), cost, KLLoss(1.0)).roll_in is learned


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


def test_rounds_take_turns_and_the_first_warm_up():
    times, told = Times(), []
    works = {name: lambda item, name=name: told.append((name, item)) for name in "ab"}
    times.take(works, [1, 2], 3, 2, CPU, Silent())
    assert told == [(name, item) for item in (1, 2, 1, 2, 1) for name in "ab"]
    assert {name: len(kept) for name, kept in times.kept.items()} == {"a": 3, "b": 3}
    times.kept["a"] = [4.0, 1.0, 3.0, 2.0, 5.0]
    assert {key: times.summary("a")[key] for key in ("lower", "median", "upper")} == {
        "lower": 2.0, "median": 3.0, "upper": 4.0,
    }  # fmt: skip
    assert times.summary("c")["median"] is None


def test_random_data_has_the_sizes():
    for name in SETTINGS:
        setting = on_device(name, CPU)
        setting = replace(setting, batch_size=7)
        first, second = random_batches(setting, 2)
        assert not torch.equal(first.targets[:, :3], second.targets[:, :3])
        assert first.ids != second.ids
        shortest = setting.shortest or setting.cells
        for row, length in zip(first.targets, first.lengths.tolist(), strict=True):
            assert shortest <= length <= setting.cells
            tokens, rest = row[:length].tolist(), row[length:]
            assert (rest == setting.vocab.pad).all()
            if setting.vocab.eos is not None:
                assert tokens.index(setting.vocab.eos) == length - 1
            assert max(tokens) < setting.vocab.size
    assert on_device("ocr", torch.device("cuda", 0)).shortest is None
    assert on_device("nmt", torch.device("cuda", 0)) == SETTINGS["nmt"]


def test_an_untrained_model_takes_all_cells():
    setting = tiny("spelling")
    model, batch = make_model(setting), random_batches(setting, 1)[0]
    prefix = Learned().roll_in(Encoded(model, model.encode(batch.inputs)), batch, torch.Generator())
    assert not ((prefix == setting.vocab.eos) | (prefix == setting.vocab.pad)).any()


@pytest.mark.skipif(peak_bytes(lambda: None, CPU) is None, reason="the system does not tell")
def test_peak_memory_sees_what_is_freed_again():
    def work():
        values = torch.ones(30_000_000)
        del values

    peak_bytes(work, CPU)
    found = peak_bytes(work, CPU)
    assert 110e6 < found < 150e6
    assert peak_bytes(lambda: None, CPU) < 30e6


def test_gauges_know_their_amount():
    names = [gauge.name for gauge in gauges(CPU, "float32")]
    assert names == ["float32", "copy"]
    for gauge in gauges(CPU, "float32"):
        assert milliseconds(gauge.work, CPU) > 0
        assert gauge.amount == {"float32": 2 * 64**3, "copy": 2 * 2**16}[gauge.name]
