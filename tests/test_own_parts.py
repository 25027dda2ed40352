"""The user's own parts, `package.module:Name`: they arrive, and what is wrong with them is said in one line."""

from __future__ import annotations

import json
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny import Refused, copy_flags, pairs_files, pairs_flags, tiny_letters

from searnn.cli import main
from searnn.config import from_flags, read, resolve, write
from searnn.config.building import make_algorithm, make_cost, make_model, make_task
from searnn.config.registry import AXES, SEAMS, check_fits, flag, make
from searnn.config.schema import Config
from searnn.costs import Hamming
from searnn.data import store
from searnn.losses import LogLoss
from searnn.policies import Learned
from searnn.runs import load
from searnn.samplers import AllCells
from searnn.tasks import Copy
from searnn.types import SearnnError

TASK = Copy(symbols=4, length=2, examples=10)
VOCAB = TASK.vocab
OWN = """
import torch
from dataclasses import dataclass
from typing import Annotated, Literal
from searnn.algorithms import Mle
from searnn.oracles import CopyTarget
from searnn.policies import Reference
from searnn.settings import Setting
@dataclass(frozen=True)
class MyLoss:
    alpha: float = 1.0
    def __call__(self, scores, costs, valid):
        return (self.alpha * scores.softmax(-1) * costs).sum(-1)
@dataclass(frozen=True)
class Sloped:
    gap: float = 0.5
    steepness: Annotated[float, Setting("how steep it is", gt=0, le=9)] = 1.0
    kind: Literal["round", "square"] = "round"
    doubled: bool = False
    def __call__(self, scores, costs, valid):
        return (self.steepness * scores.softmax(-1) * costs).sum(-1)
@dataclass(frozen=True)
class Clashing:
    width: int = 3
    def __call__(self, scores, costs, valid):
        return costs.sum(-1)
@dataclass(frozen=True)
class Running:
    run: int = 3
    def __call__(self, scores, costs, valid):
        return costs.sum(-1)
class Stubborn:
    def __init__(self, gamma): ...
class MyModel(torch.nn.Module):
    def __init__(self, vocab, source_size, width=4):
        super().__init__()
        self.vocab = vocab
        self.read = torch.nn.Embedding(source_size, width)
        self.embed = torch.nn.Embedding(vocab.embeddings, width)
        self.project = torch.nn.Linear(width, vocab.size)
    def encode(self, inputs):
        inside = torch.arange(inputs.values.shape[1]) < inputs.lengths.unsqueeze(1)
        return (self.read(inputs.values) * inside.unsqueeze(-1)).sum(1)
    def start(self, memory):
        return memory.unsqueeze(1)
    def step(self, memory, state, tokens):
        state = torch.tanh(state + self.embed(tokens))
        return self.project(state), state
class Plain:
    def __init__(self, vocab):
        self.vocab = vocab
    def encode(self, inputs): ...
    def start(self, memory): ...
    def step(self, memory, state, tokens): ...
class Weightless(Plain, torch.nn.Module):
    def __init__(self, vocab):
        torch.nn.Module.__init__(self)
        self.vocab = vocab
def other_ends(output, target):
    return float((output and output[-1].upper()) != target[-1].upper())
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
@dataclass(frozen=True)
class MyAlgorithm:
    cost: object
    tokens: object = None
    samples: int = 3
    secret: float = 0.5
    def __call__(self, model, batch, rng):
        return Mle()(model, batch, rng)
class Anything:
    def __call__(self, *parts): ...
class Nothing: ...
class Narrow:
    vocab = None
    def encode(self, inputs): ...
    def start(self, memory): ...
    def step(self, state): ...
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
"""
MEMBERS = {
    "model": "MyModel", "roll_in": "MyPolicy", "roll_out": "MyPolicy", "oracle": "MyOracle", "cost": "MyCost",
    "tokens": "MyTokens", "cells": "MyCells", "loss": "MyLoss", "algorithm": "MyAlgorithm",
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
    return make_algorithm(config, make_cost(config, TASK))


def refusal(**settings: str) -> str:
    with pytest.raises(SearnnError) as caught:
        build_with(**settings)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_the_users_own_loss_and_cost(own: str, tmp_path: Path):
    config = resolve(given(loss=f"{own}:MyLoss", alpha="2", cost=f"{own}:length_difference"))
    cost = make_cost(config, TASK)
    assert cost(torch.tensor([[0, 4, 5]]), torch.tensor([[1, 1, 4]])).tolist() == [1.0]
    assert make_algorithm(config, cost).loss.alpha == 2.0
    write(config, tmp_path / "config.toml")
    assert tomllib.loads((tmp_path / "config.toml").read_text())["loss"]["loss"] == f"{own}:MyLoss"
    assert read(tmp_path / "config.toml") == config


@pytest.mark.parametrize("axis", [axis for axis in AXES if axis != "task"])
def test_the_users_own_on_every_axis_trains(axis: str, own: str, tmp_path: Path):
    name = f"{own}:{MEMBERS[axis]}"
    if axis == "model":
        part: Any = make_model(resolve(given(model=name)), TASK)
    else:
        built = build_with(**{axis: name})
        part = built.roll_out.reference.oracle if axis == "oracle" else getattr(built, axis, built)
    assert type(part).__name__ == MEMBERS[axis]
    assert main([*copy_flags(tmp_path / "run"), flag(axis), name, "--steps", "1"]) == 0


SLOPED = {"gap": 0.7, "steepness": 2.0, "kind": "square", "doubled": True}


def test_the_arguments_of_the_users_own_are_settings(own: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    name, run = f"{own}:Sloped", tmp_path / "run"
    flags = ["--gap", "0.7", "--steepness", "2", "--kind", "square", "--doubled"]
    assert main([*copy_flags(run), "--loss", name, *flags]) == 0
    written = tomllib.loads((run / "config.toml").read_text())["loss"]
    assert SLOPED.items() <= written.items()
    config = read(run / "config.toml")
    assert SLOPED.items() <= config.flat().items()
    assert vars(make_algorithm(config, make_cost(config, TASK)).loss) == SLOPED
    assert make_algorithm(resolve(given(loss=name)), Hamming()).loss.gap == 0.5
    assert main(["train", "copy", "--run", str(run), "--resume", "--steps", "4", "--gap", "0.7", "--trust-code"]) == 0
    capsys.readouterr()
    with pytest.raises(SystemExit):
        main(["train", "copy", "--loss", name, "--gap", "0.25", "--help"])
    told = " ".join(capsys.readouterr().out.split())
    for line in ("--gap X of my_own_parts:Sloped [0.25]", "--steepness X how steep it is [1]", "--[no-]doubled"):
        assert line in told
    assert "round or square [round]" in told


@pytest.mark.parametrize("suffix", ["toml", "yaml"])
def test_files_have_the_settings_of_the_users_own_too(suffix: str, own: str, tmp_path: Path, refused: Refused):
    path, name = tmp_path / f"mine.{suffix}", f"{own}:Sloped"
    forms = {"toml": '[loss]\nloss = "{}"\n{} = {}\n', "yaml": "loss:\n  loss: {}\n  {}: {}\n"}
    path.write_text(forms[suffix].format(name, "gap", "1e-1"))
    assert main([*copy_flags(tmp_path / "run"), "--config", str(path), "--steepness", "3"]) == 0
    found = read(tmp_path / "run" / "config.toml").flat()
    assert (found["gap"], found["steepness"]) == (0.1, 3.0)
    told = refused("train", "copy", "--config", path, "--loss", "kl")
    assert told.endswith(f"gap does not apply here: it belongs to --loss {name}")
    path.write_text(forms[suffix].format(name, "steepness", "10"))
    told = "loss.steepness must be a number above 0 and at most 9, got 10"
    assert refused("train", "copy", "--config", path) == f"{path}: {told}"
    path.write_text(forms[suffix].format("kl", "steepness", "1"))
    assert "[loss] has no setting 'steepness'" in refused("train", "copy", "--config", path)


def test_what_is_wrong_with_a_setting_of_the_users_own(own: str, refused: Refused):
    name = f"{own}:Sloped"
    told = "--steepness must be a number above 0 and at most 9, got '10'"
    assert refused("train", "copy", "--loss", name, "--steepness", "10") == told
    assert "--kind must be round or square" in refused("train", "copy", "--loss", name, "--kind", "rond")
    assert "there is no flag --gap" in refused("train", "copy", "--loss", "kl", "--gap", "1")
    assert "no module called 'nowhere'" in refused("train", "copy", "--loss", "nowhere:Loss", "--gap", "1")
    told = f"--loss {own}:Clashing takes 'width', which is already a setting of [model]: rename the argument"
    assert refused("train", "copy", "--loss", f"{own}:Clashing") == told
    told = f"--loss {own}:Running takes 'run', a flag of this command: rename the argument"
    assert refused("train", "copy", "--loss", f"{own}:Running") == told
    words = f"searnn --loss {name} --gap x"
    assert "--gap must be a number" in refused("compare", "copy", "--algorithms", words)


def test_the_users_own_algorithm_takes_the_settings_that_it_names(own: str, tmp_path: Path):
    name = f"{own}:MyAlgorithm"
    made = build_with(algorithm=name, samples="7", tokens="top:2", cost="hamming")
    assert (made.samples, made.secret) == (7, 0.5)
    assert (type(made.cost).__name__, type(made.tokens).__name__) == ("Hamming", "TopTokens")
    config = resolve(given(algorithm=name))
    assert (config.method.samples, config.optimisation.warm_up, config.search.roll_in) == (3, 0, None)
    for setting, value in (("tau", "1"), ("roll_in", "learned"), ("loss", "kl"), ("normalisation", "cell")):
        assert f"{flag(setting)} does not apply here: it belongs to --algorithm " in refusal(
            algorithm=name, **{setting: value}
        )
    assert main([*copy_flags(tmp_path / "run"), "--algorithm", name, "--warm-up", "1"]) == 0


def test_the_users_own_model_has_its_own_settings_and_comes_back(
    own: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    name, run = f"{own}:MyModel", tmp_path / "run"
    assert make_model(resolve(given(model=name, width="6")), TASK).project.in_features == 6
    assert make_model(resolve(given(model=name)), TASK).project.in_features == 64  # the recipe's
    for setting, value in (("layers", "2"), ("attention", "additive"), ("dropout", "0.1"), ("heads", "2")):
        assert f"{flag(setting)} does not apply here" in refusal(model=name, **{setting: value})
    assert main([*copy_flags(run), "--model", name, "--algorithm", "mle"]) == 0
    trained = load(run, trust_code=True)
    first = make_model(trained.config, trained.task)
    assert not torch.equal(trained.model.project.weight, first.project.weight)
    (tmp_path / "strings.txt").write_text("0 1\n2\n")
    capsys.readouterr()
    for arguments in (["eval", str(run)], ["predict", str(run), "--input", "strings.txt", "--beam", "2"]):
        assert main([*arguments, "--trust-code"]) == 0
    assert main(["train", "copy", "--run", str(run), "--resume", "--steps", "4", "--model", name]) == 0


def test_a_model_must_be_a_module_with_something_to_train(own: str, refused: Refused):
    for name, words in (
        ("Plain", "gives a Plain: a model must be a torch.nn.Module"),
        ("Weightless", "gives a Weightless without parameters: nothing can be trained"),
        ("Stubborn", "needs 'gamma', which no setting gives: add a default"),
        ("MyModle", "the module my_own_parts has no 'MyModle'; did you mean MyModel?"),
    ):
        assert words in refused("train", "copy", "--run", "run", "--model", f"{own}:{name}")


def test_of_text_a_cost_and_a_metric_see_the_units(own: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    name = f"{own}:other_ends"
    flags = pairs_flags(tmp_path, tmp_path / "run")
    assert main([*flags, "--cost", name]) == 0
    settings = tomllib.loads((tmp_path / "run" / "config.toml").read_text())
    assert settings["optimisation"]["metric"] == settings["search"]["cost"] == name
    config = read(tmp_path / "run" / "config.toml")
    task = make_task(config)
    assert (task.metric, task.higher_is_better) == ("cost", False)
    a, b = (task.target.ids[unit] for unit in "ab")
    eos, pad = task.vocab.eos, task.vocab.pad
    outputs = torch.tensor([[[a, b, eos], [b, a, eos], [eos, pad, pad]]])
    assert make_cost(config, task)(outputs, torch.tensor([[b, eos, pad]])).tolist() == [[0.0, 1.0, 1.0]]
    assert task.metrics([[a, b], [b, a], []], [[b]] * 3)["cost"] == pytest.approx(2 / 3)
    capsys.readouterr()
    assert main(["eval", str(tmp_path / "run"), "--json", "--trust-code"]) == 0
    assert 0 <= json.loads(capsys.readouterr().out)["metrics"]["cost"] <= 1


def test_a_metric_that_is_none(own: str, tmp_path: Path, refused: Refused):
    flags = ["train", "pairs", *pairs_files(tmp_path), "--run", "run", "--metric"]
    message = refused(*flags, f"{own}:lonely")
    assert message == f"--metric {own}:lonely cannot take (output, target): expected a function of two lists"
    assert "--metric nowhere:f: there is no module called 'nowhere'" in refused(*flags, "nowhere:f")
    assert "has no 'lonley'; did you mean lonely?" in refused(*flags, f"{own}:lonley")
    assert "got 'eror'; did you mean error?" in refused(*flags, "eror")
    known = "wer, per, error, sequence_error, exact, bleu or chrf, or package.module:function"
    assert f"--metric must be {known}, got 'ter'" in refused(*flags, "ter")


def test_what_is_wrong_with_the_users_own_is_said(own: str):
    assert "there is no module called 'nowhere'" in refusal(loss="nowhere.at_all:Loss")
    assert "has no 'MyLos'; did you mean MyLoss?" in refusal(loss=f"{own}:MyLos")
    assert "is a int: a class or a function is needed" in refusal(loss=f"{own}:NUMBER")
    assert "needs 'gamma', which no setting gives" in refusal(loss=f"{own}:Stubborn")
    assert "--alpha does not apply" in refusal(loss=f"{own}:Stubborn", alpha="2")
    assert "--normalised-cost does not apply" in refusal(cost=f"{own}:length_difference", normalised_cost="true")


NEEDS = {
    "model": "vocab, encode, start, step",
    "roll_in": "roll_in",
    "roll_out": "roll_out",
    "oracle": "complete",
}
TAKES = {
    "model": "its step must take (memory, state, tokens)",
    "roll_in": "its roll_in must take (encoded, batch, rng)",
    "roll_out": "its roll_out must take (encoded, branches, batch, rng)",
    "oracle": "its complete must take (branches, batch)",
    "cost": "its __call__ must take (outputs, targets)",
    "tokens": "its __call__ must take (scores, batch, cells, rng)",
    "cells": "its __call__ must take (prefix, batch, rng)",
    "loss": "its __call__ must take (scores, costs, valid)",
    "algorithm": "its __call__ must take (model, batch, rng)",
}


@pytest.mark.parametrize("axis", list(MEMBERS))
def test_what_does_not_fit_the_axis_is_refused(axis: str, own: str, refused: Refused):
    samplers = {"tokens": "TokenSampler", "cells": "CellSampler"}
    protocol = {"model": "Stepper", "roll_in": "RollIn", "roll_out": "RollOut", **samplers}.get(axis, axis.capitalize())

    def message(name: str) -> str:
        found = refused("train", "copy", "--run", "run", flag(axis), name)
        assert found.startswith(f"{flag(axis)} {name}")
        return found

    assert f"gives a dict, which is no {protocol} of searnn.interfaces: it needs" in message("builtins:dict")
    assert message(f"{own}:Nothing").endswith(f": it needs {NEEDS.get(axis, '__call__')}")
    assert message(f"{own}:Narrow").endswith(TAKES[axis])
    assert "making it failed: ValueError: no luck" in message(f"{own}:Broken")
    assert "making it failed: SearnnError: not today" in message(f"{own}:Refusing")
    if axis in ("roll_in", "roll_out"):
        assert message(f"{own}:Nothing").endswith(f"it needs {axis}")


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


def test_the_members_here_fit_their_axes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """The check that the user's own go through lets everything pass that the project itself has."""
    assert set(SEAMS) == set(AXES)
    pairs_files(tmp_path)
    files = {name: [tmp_path / f"{name}.tsv"] for name in ("train", "valid")}
    (tmp_path / "tags.txt").write_text("a DT B-NP\nb NN I-NP\n\nc VB O\n\nd NN B-NP\n")
    (tmp_path / "dictionary").write_text("".join(f"word{number}  W ER1 D\n" for number in range(40)))
    monkeypatch.setattr(store, "get", lambda name, progress: tmp_path / "dictionary")
    tasks: dict[str, dict[str, Any]] = {
        "pairs": files,
        "translation": files,
        "chunking": {"train": [tmp_path / "tags.txt"]},
        "ocr": {"path": tiny_letters(tmp_path / "letters.npz")},
    }
    for axis, members in AXES.items():
        for name in members:
            given_to = tasks.get(name, {}) if axis == "task" else {"vocab": VOCAB}
            if axis == "algorithm":
                given_to = {"cost": Hamming(), "loss": LogLoss(), "roll_in": Learned(), "roll_out": Learned()}
            check_fits(axis, name, make(axis, name, alpha=1.0, k=2, n=2, source_size=4, **given_to))
    with pytest.raises(SearnnError, match=r"gives a AllCells, which is no Task .*: it needs name, vocab, features"):
        check_fits("task", "cells", AllCells())
