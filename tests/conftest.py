"""Shapes in signatures are checked while testing; tests run on one thread unless they say otherwise."""

from __future__ import annotations

import gc
import os
import pkgutil
import signal
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import jaxtyping
import pytest
import torch
from jaxtyping import install_import_hook

if not torch.cuda.is_available():
    os.environ["TRITON_INTERPRET"] = "1"  # read when a kernel is defined: without a GPU they are run in Python

# Whole numbers may be given where a float is asked for, as in all of Python. Triton reads the source of its kernels.
storeys = [f"searnn.{each.name}" for each in pkgutil.iter_modules(find_spec("searnn").submodule_search_locations)]
without_kernels = ("decoding", "tokens", "graphs", "host", "cpu.decoder", "gpu.next_tokens", "gpu.whole_rows")
checked = [*(name for name in storeys if name != "searnn.fast"), *(f"searnn.fast.{name}" for name in without_kernels)]
checker = "beartype.beartype(conf=beartype.BeartypeConf(is_pep484_tower=True))"
install_import_hook(checked, checker)

if TYPE_CHECKING:
    from tiny import Refused

torch.set_num_threads(1)
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell has what it runs in the background ignore it


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests marked `gpu` are skipped where there is none."""
    if not torch.cuda.is_available():
        for item in items:
            if item.get_closest_marker("gpu") is not None:
                item.add_marker(pytest.mark.skip(reason="needs a GPU"))


def pytest_collection_finish() -> None:
    """What is imported by now stays: the garbage collector need not go through it again after every few tests."""
    gc.collect()
    gc.freeze()


@pytest.hookimpl(tryfirst=True)
def pytest_sessionfinish() -> None:
    """Let the interpreter free everything at its end, and what is imported only there find who holds it."""
    gc.unfreeze()


@pytest.fixture
def as_users_call() -> Iterator[None]:
    """Without the type checker of the tests, which would refuse a wrong type before the library can."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.fixture
def refused(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Refused:
    """Run the command in a folder of its own: it must be refused in one line and leave everything as it was."""
    from tiny import contents

    from searnn.cli import main  # here, since tests of the core do without all that it imports

    monkeypatch.chdir(tmp_path)

    def run(*arguments: str | Path, answered: int = 0) -> str:
        before = contents(tmp_path)
        folders = {path for path in tmp_path.rglob("*") if path.is_dir()}
        capsys.readouterr()
        status = main([str(argument) for argument in arguments])
        out, err = capsys.readouterr()
        assert status == 2, err
        assert out.count("\n") == answered  # what was printed before the mistake was found
        assert err.startswith("searnn: error: ")
        assert err.count("\n") == 1
        assert err.endswith("\n")
        assert contents(tmp_path) == before
        left = {path for path in tmp_path.rglob("*") if path.is_dir()} - folders
        assert left <= {tmp_path / "runs"}
        return err.removeprefix("searnn: error: ").rstrip()

    return run
