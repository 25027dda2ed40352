"""Too little memory: one line that says what to lower, status 2, and nothing left of a run that has learned nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny import Refused, contents, copy_flags

from searnn.cli import main
from searnn.training import loop as training_loop
from searnn.training.memory import shortage

ADVICE = "lower --batch-size, --k or --budget, or the model's --width"
GPU = "CUDA out of memory. Tried to allocate 20.00 GiB. GPU 0 has a total capacity of 139.80 GiB.\nSee documentation."
CPU = "[enforce fail at alloc_cpu.cpp:127] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to allocate "


@pytest.mark.parametrize("width", [10**7, 10**10, 10**30])  # beyond any machine, beyond 64 bits, beyond any number
def test_a_model_that_is_too_large(width: int, tmp_path: Path, refused: Refused):
    message = refused(*copy_flags(tmp_path / "run"), "--width", str(width), "--embedding", "1")
    assert message.startswith("not enough memory")
    assert message.endswith(ADVICE)


def of_numpy() -> MemoryError:
    with pytest.raises(MemoryError) as caught:
        np.empty(10**18)
    return caught.value


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (torch.OutOfMemoryError(GPU), "not enough memory on the GPU for 20.00 GiB: "),
        (RuntimeError(CPU + "108 bytes. Error code 12 (Cannot allocate memory)"), "not enough memory for 108 bytes: "),
        (RuntimeError("CUDA error: out of memory"), "not enough memory: "),
        (of_numpy(), "not enough memory for 6.94 EiB: "),
        (MemoryError(), "not enough memory: "),
    ],
    ids=["gpu", "cpu", "driver", "numpy", "plain"],
)
@pytest.mark.parametrize("existed", [False, True])
def test_memory_that_runs_out_in_training(
    error: Exception, words: str, existed: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: Any
):
    run, real = tmp_path / "run", training_loop._Run.update
    fatal = 1

    def update(self: Any) -> torch.Tensor:
        if self.counters.step == fatal:
            raise error
        return real(self)

    monkeypatch.setattr(training_loop._Run, "update", update)
    if existed:
        run.mkdir()
    assert main(copy_flags(run)) == 2
    assert capsys.readouterr().err.splitlines()[-1] == f"searnn: error: {words}{ADVICE}"
    assert run.exists() == existed
    assert contents(tmp_path) == {}
    fatal = 2  # there was an evaluation: what was learned stays
    assert main(copy_flags(run)) == 2
    assert {path.name for path in run.iterdir()} == {"config.toml", "metrics.jsonl", "best", "last"}


def test_other_errors_are_none_of_it():
    assert shortage(RuntimeError("mat1 and mat2 shapes cannot be multiplied (3x4 and 5x6)")) is None
    assert shortage(ValueError("out of memory")) is None
    assert shortage(KeyboardInterrupt()) is None


@pytest.mark.parametrize("tokens", ["uniform", "policy", "biased", "top", "targeted", "neighbours", "top+neighbours"])
def test_any_k_is_as_good_as_all_that_there_are(tokens: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    """With 10**12 slots of 8 bytes for each cell no machine would go on."""
    for name, k in (("many", 10**12), ("all", 2 * 5 - 1)):
        assert main([*copy_flags(tmp_path / name), "--tokens", tokens, "--k", str(k), "--steps", "2"]) == 0
    records = [(tmp_path / name / "best").glob("*.safetensors") for name in ("many", "all")]
    assert len({next(record).name for record in records}) == 1  # named by what they hold
