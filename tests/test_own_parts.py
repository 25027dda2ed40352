"""The user's own parts, `package.module:Name`: they arrive, and what is wrong with them is said in one line."""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from searnn.cli import main
from searnn.config import from_flags, read, resolve, write
from searnn.config.building import make_algorithm, make_cost
from searnn.config.registry import AXES, SEAMS, check_fits, flag, make
from searnn.config.schema import Config
from searnn.samplers import AllCells
from searnn.types import SearnnError, Vocabulary
from tiny import Refused, copy_flags

VOCAB = Vocabulary(size=5, pad=5, bos=6, eos=4)
OWN = '''
import torch
from dataclasses import dataclass
from searnn.oracles import CopyTarget
from searnn.policies import Reference
@dataclass(frozen=True)
class MyLoss:
    alpha: float = 1.0
    def __call__(self, scores, costs, valid):
        return (self.alpha * scores.softmax(-1) * costs).sum(-1)
class Stubborn:
    def __init__(self, gamma): ...
def length_difference(output, target):
    return abs(len(output) - len(target))
def lonely(output):
    return 0
NUMBER = 3
class MyOracle(CopyTarget): ...
class MyPolicy(Reference): ...
class MyCost:
    def __call__(self, outputs, targets):
        return (outputs != targets.view(len(targets), *[1] * (outputs.ndim - 2), -1)).float().mean(-1)
class MyTokens:
    def __call__(self, scores, batch, cells, rng):
        return torch.arange(3).expand(*cells.shape, 3)
class MyCells:
    def __call__(self, prefix, batch, rng, *, scores=None):
        return torch.zeros_like(prefix[:, :1])
class Anything:
    def __call__(self, *parts): ...
class Nothing: ...
class Half:
    def roll_in(self, model, memory, batch, rng): ...
class Narrow:
    def __call__(self, one): ...
    def complete(self, branches): ...
    def roll_in(self): ...
    def roll_out(self): ...
class Broken:
    def __init__(self):
        raise ValueError("no\\nluck")
class Refusing:
    def __init__(self):
        from searnn.types import SearnnError
        raise SearnnError("not today")
'''
MEMBERS = {
    "roll_in": "MyPolicy", "roll_out": "MyPolicy", "oracle": "MyOracle", "cost": "MyCost",
    "tokens": "MyTokens", "cells": "MyCells", "loss": "MyLoss",
}  # fmt: skip


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    before = set(sys.modules)
    (tmp_path / "my_own_parts.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield "my_own_parts"
    for name in set(sys.modules) - before:
        if name.startswith("my_"):
            del sys.modules[name]


def given(**settings: str) -> Config:
    return from_flags({"name": "copy", **settings})


def build_with(**settings: str) -> Any:
    config = resolve(given(**settings))
    return make_algorithm(config, make_cost(config, VOCAB))


def refusal(**settings: str) -> str:
    with pytest.raises(SearnnError) as caught:
        build_with(**settings)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_the_users_own_loss_and_cost(own: str, tmp_path: Path):
    config = resolve(given(loss=f"{own}:MyLoss", alpha="2", cost=f"{own}:length_difference"))
    cost = make_cost(config, VOCAB)
    assert cost(torch.tensor([[0, 4, 5]]), torch.tensor([[1, 1, 4]])).tolist() == [1.0]
    assert make_algorithm(config, cost).loss.alpha == 2.0
    write(config, tmp_path / "config.toml")
    assert tomllib.loads((tmp_path / "config.toml").read_text())["loss"]["loss"] == f"{own}:MyLoss"
    assert read(tmp_path / "config.toml") == config


@pytest.mark.parametrize("axis", [axis for axis in AXES if axis != "task"])
def test_the_users_own_on_every_axis_trains(axis: str, own: str, tmp_path: Path):
    name = f"{own}:{MEMBERS[axis]}"
    built = build_with(**{axis: name})
    part = built.roll_out.reference.oracle if axis == "oracle" else getattr(built, axis)
    assert type(part).__name__ == MEMBERS[axis]
    assert main([*copy_flags(tmp_path / "run"), flag(axis), name, "--steps", "1"]) == 0


def test_what_is_wrong_with_the_users_own_is_said(own: str):
    assert "there is no module called 'nowhere'" in refusal(loss="nowhere.at_all:Loss")
    assert "has no 'MyLos'; did you mean MyLoss?" in refusal(loss=f"{own}:MyLos")
    assert "is a int: a class or a function is needed" in refusal(loss=f"{own}:NUMBER")
    assert "needs 'gamma', which no setting gives" in refusal(loss=f"{own}:Stubborn")
    assert "--alpha does not apply" in refusal(loss=f"{own}:Stubborn", alpha="2")
    assert "--normalised-cost does not apply" in refusal(cost=f"{own}:length_difference", normalised_cost="true")


NEEDS = {"roll_in": "roll_in, roll_out", "roll_out": "roll_in, roll_out", "oracle": "complete"}
TAKES = {
    "roll_in": "its roll_in must take (model, memory, batch, rng)",
    "roll_out": "its roll_out must take (model, memory, trail, branches, batch, rng)",
    "oracle": "its complete must take (branches, batch)",
    "cost": "its __call__ must take (outputs, targets)",
    "tokens": "its __call__ must take (scores, batch, cells, rng)",
    "cells": "its __call__ must take (prefix, batch, rng)",
    "loss": "its __call__ must take (scores, costs, valid)",
}


@pytest.mark.parametrize("axis", list(MEMBERS))
def test_what_does_not_fit_the_axis_is_refused(axis: str, own: str, refused: Refused):
    kind = {"roll_in": "Policy", "roll_out": "Policy", "tokens": "TokenSampler", "cells": "CellSampler"}
    protocol = kind.get(axis, axis.capitalize())

    def message(name: str) -> str:
        found = refused("train", "copy", "--run", "run", flag(axis), name)
        assert found.startswith(f"{flag(axis)} {name}")
        return found

    assert f"gives a dict, which is no {protocol} of searnn.interfaces: it needs" in message("builtins:dict")
    assert message(f"{own}:Nothing").endswith(f": it needs {NEEDS.get(axis, '__call__')}")
    assert message(f"{own}:Narrow").endswith(TAKES[axis])
    assert "making it failed: ValueError: no luck" in message(f"{own}:Broken")
    assert "making it failed: SearnnError: not today" in message(f"{own}:Refusing")
    if protocol == "Policy":
        assert message(f"{own}:Half").endswith("it needs roll_in, roll_out")


def test_a_cost_function_takes_an_output_and_a_target(own: str, refused: Refused):
    message = refused("train", "copy", "--run", "run", "--cost", f"{own}:lonely")
    assert message == f"--cost {own}:lonely cannot take (output, target): expected a function of two lists"


def test_what_takes_anything_is_taken(own: str):
    assert type(build_with(loss=f"{own}:Anything").loss).__name__ == "Anything"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("def f(:\n", "SyntaxError: "),
        ("1 / 0\n", "ZeroDivisionError: division by zero"),
        ("raise ValueError('one\\ntwo')\n", "ValueError: one two"),
        ("import sys\nsys.exit(0)\n", "SystemExit: 0"),
        ("from searnn import nothing_such\n", "ImportError: cannot import name 'nothing_such'"),
        ("def __getattr__(name):\n    raise RuntimeError(name)\n", "RuntimeError: "),
    ],
)
def test_a_module_that_cannot_be_imported(text: str, words: str, own: str, tmp_path: Path, refused: Refused):
    (tmp_path / "my_broken_parts.py").write_text(text)
    message = refused("train", "copy", "--run", "run", "--loss", "my_broken_parts:Loss")
    assert message.startswith(f"--loss my_broken_parts:Loss: importing my_broken_parts failed: {words}")


def test_what_a_module_needs_and_does_not_find(own: str, tmp_path: Path, refused: Refused):
    (tmp_path / "my_broken_parts.py").write_text("import my_missing_parts\n")
    message = refused("train", "copy", "--run", "run", "--loss", "my_broken_parts:Loss")
    assert message == "--loss my_broken_parts:Loss: there is no module called 'my_missing_parts' to import"


def test_the_members_here_fit_their_axes():
    """The check that the user's own go through lets everything pass that the project itself has."""
    assert set(SEAMS) == set(AXES)
    for axis, members in AXES.items():
        for name in set(members) - {"ocr"}:
            check_fits(axis, name, make(axis, name, alpha=1.0, k=2, n=2, vocab=VOCAB))
    with pytest.raises(SearnnError, match=r"gives a AllCells, which is no Task .*: it needs name, vocab, features"):
        check_fits("task", "cells", AllCells())
