"""The choice of the engine."""

from __future__ import annotations

import logging

import pytest
import torch

from searnn import engine
from searnn.engine import Engine, current, triton_applies, using


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
    monkeypatch.setattr(engine, "has_triton", lambda: True)
    with using(Engine(kind)):
        assert triton_applies(torch.zeros(1)) == applies
        monkeypatch.setattr(engine, "has_triton", lambda: False)
        assert not triton_applies(torch.zeros(1))


def test_a_path_is_told_once(caplog):
    with caplog.at_level(logging.INFO, "searnn"):
        engine.announce("a path of a test")
        engine.announce("a path of a test")
    assert [record.getMessage() for record in caplog.records] == ["engine: a path of a test"]
