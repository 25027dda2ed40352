"""The choice of the engine."""

from __future__ import annotations

import logging

import pytest
import torch

from searnn import engine
from searnn.engine import Engine, current, using
from searnn.fast import host
from searnn.fast.host import triton_applies
from searnn.training.devices import check_engine
from searnn.types import SearnnError


def test_the_engine_holds_inside_and_not_after():
    assert current() == Engine("auto", "float32")
    with using(Engine("plain", "bf16")):
        assert current() == Engine("plain", "bf16")
        with using(Engine("triton")):
            assert current().kind == "triton"
        assert current().kind == "plain"
    assert current().kind == "auto"


@pytest.mark.parametrize(("kind", "applies"), [("auto", False), ("plain", False), ("triton", True)])
def test_on_a_cpu_kernels_run_only_if_asked_for(monkeypatch, kind, applies):
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    monkeypatch.setattr(host, "has_triton", lambda: True)
    with using(Engine(kind)):
        assert triton_applies(torch.zeros(1)) == applies
        monkeypatch.setattr(host, "has_triton", lambda: False)
        assert not triton_applies(torch.zeros(1))


def test_a_path_is_told_once(caplog):
    with caplog.at_level(logging.INFO, "searnn"):
        engine.announce("a path of a test")
        engine.announce("a path of a test")
    assert [record.getMessage() for record in caplog.records] == ["engine: a path of a test"]


def test_what_cannot_be_done_is_refused_and_what_makes_no_difference_is_told(monkeypatch, caplog):
    cpu, gpu = torch.device("cpu"), torch.device("cuda")
    monkeypatch.setattr(host, "has_triton", lambda: True)
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    for kind, precision in (("auto", "float32"), ("plain", "float32")):
        check_engine(Engine(kind, precision), cpu)
    for precision in engine.PRECISIONS:
        check_engine(Engine("triton", precision), gpu)
    with pytest.raises(SearnnError, match="the engine is triton, whose kernels need a GPU"):
        check_engine(Engine("triton"), cpu)
    for device in (cpu, gpu):
        with pytest.raises(SearnnError, match="the search precision is bf16, which only fast paths have"):
            check_engine(Engine("plain", "bf16"), device)
    engine.announce.cache_clear()
    with caplog.at_level("INFO", logger="searnn"):
        check_engine(Engine("auto", "tf32"), cpu)
    assert "warning: tf32 in the search changes nothing on cpu" in caplog.text
    monkeypatch.setattr(host, "has_triton", lambda: False)
    with pytest.raises(SearnnError, match="take auto"):
        check_engine(Engine("triton"), gpu)
