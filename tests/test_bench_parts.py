"""The pieces of the benchmark: spans, rounds, random data, memory."""

from __future__ import annotations

import time
from contextlib import nullcontext
from dataclasses import replace

import pytest
import torch
from bench_cases import tiny
from torch.profiler import ProfilerActivity, profile, record_function

from searnn import Encoded
from searnn.bench import SETTINGS, on_device
from searnn.bench.machine import peak_bytes
from searnn.bench.settings import make_model, random_batches
from searnn.bench.spans import PHASES, breakdown, times
from searnn.bench.timing import Times
from searnn.engine import span
from searnn.policies import Learned

CPU = torch.device("cpu")


def test_an_inner_span_stops_the_outer():
    milli = 1_000_000
    spans = [("step", 0, 15), ("roll_out", 1, 10), ("cost", 3, 6), ("cost", 6, 7), ("loss", 10, 12), ("own", 12, 14)]
    found = times([(name, began * milli, ended * milli) for name, began, ended in spans])
    assert set(found) == set(PHASES)
    assert {name: spent for name, spent in found.items() if spent} == pytest.approx(
        {"other": 1 + 3, "roll-out": 2 + 3, "cost": 3 + 1, "loss": 2}
    )
    assert times([]) is None


def test_spans_are_read_as_they_were():
    def step():
        with record_function("searnn.encode"):
            time.sleep(0.02)
        with record_function("searnn.roll_out"):
            torch.ones(3).sum()
            with record_function("searnn.cost"):
                time.sleep(0.01)
        time.sleep(0.005)

    began = time.perf_counter()
    found = breakdown(step, CPU)
    spent = 1e3 * (time.perf_counter() - began)
    ran = {name for name, value in found.items() if value > 0}
    assert ran == {"encode", "roll-out", "cost", "other"}
    assert found["encode"] >= 20
    assert found["cost"] >= 10
    assert found["other"] >= 5
    assert found["roll-out"] < 10
    assert sum(found.values()) <= spent


def test_spans_that_nobody_reads_are_none():
    """Nine of them took up to 3 % of a step on a CPU."""
    assert isinstance(span("encode"), nullcontext)
    with profile(activities=[ProfilerActivity.CPU]) as made, span("encode"):
        torch.zeros(3).sum()
    assert "searnn.encode" in {event.key for event in made.key_averages()}


def test_rounds_take_turns_and_the_first_warm_up():
    kept, told = Times(), []
    works = {name: lambda item, name=name: told.append((name, item)) for name in "ab"}
    kept.take(works, [1, 2], 3, 2, CPU, lambda: None)
    assert told == [(name, item) for item in (1, 2, 1, 2, 1) for name in "ab"]
    assert {name: len(found) for name, found in kept.kept.items()} == {"a": 3, "b": 3}
    kept.kept["a"] = [4.0, 1.0, 3.0, 2.0, 5.0]
    assert {key: kept.summary("a")[key] for key in ("lower", "median", "upper")} == {
        "lower": 2.0, "median": 3.0, "upper": 4.0,
    }  # fmt: skip
    assert kept.summary("c")["median"] is None


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
