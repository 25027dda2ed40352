"""A run's folder executes nothing: a module that its settings name is imported only where it is needed and trusted."""

from __future__ import annotations

import os
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import tomli_w
from tiny import Refused, clone, contents, pairs_flags

import searnn
from searnn.cli import main
from searnn.config import trust
from searnn.runs.explaining import choices_of
from searnn.types import SearnnError

CANARY = "from pathlib import Path\nPath({!r}).touch()\ndef part(*given, **named):\n    raise RuntimeError('it ran')\n"
NAMES = (
    "canary_here:part",
    "canary_there.inside:part",
    "antigravity:fly",
)  # in the current folder, on the path, Python's
PLACES = {
    "model": "model.model", "algorithm": "method.algorithm", "roll_in": "search.roll_in", "roll_out": "search.roll_out",
    "cost": "search.cost", "oracle": "search.oracle", "tokens": "search.tokens", "cells": "search.cells",
    "loss": "loss.loss", "task": "task.name", "metric": "optimisation.metric",
}  # fmt: skip
NEEDED = {  # axes without which a command can do
    "predict": {"task", "model"},
    "eval": {"task", "model", "metric"},
    "report": {"task", "model", "metric"},
    "explain": {*PLACES} - {"metric"},
    "resume": {*PLACES},
    "config": {*PLACES},
}


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that names no code of anybody's."""
    folder = tmp_path_factory.mktemp("honest")
    assert main([*pairs_flags(folder, folder / "run"), "--roll-out", "mixed", "--tokens", "top", "--k", "2"]) == 0
    return folder / "run"


@pytest.fixture
def canaries(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Modules that leave a file where they are imported; in the end there must be none."""
    here, there, sung = tmp_path / "here", tmp_path / "there", tmp_path / "sung"
    for path in (here / "canary_here.py", there / "canary_there" / "inside.py", there / "canary_there" / "__init__.py"):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(CANARY.format(str(sung)))
    monkeypatch.setattr(sys, "path", [str(there), *sys.path])
    monkeypatch.chdir(here)
    yield here
    heard = {name for name in sys.modules if name.partition(".")[0] in ("antigravity", "canary_here", "canary_there")}
    for name in heard:
        del sys.modules[name]
    assert not heard
    assert not sung.exists()


def strange(honest: Path, to: Path, **named: str) -> Path:
    """The run as a stranger might send it, with other names on some axes."""
    run = clone(honest, to)
    content = tomllib.loads((run / "config.toml").read_text())
    for axis, name in named.items():
        section, _, key = PLACES[axis].partition(".")
        content[section][key] = name
    (run / "config.toml").write_text(tomli_w.dumps(content))
    return run


def told(run: Path, axis: str, name: str) -> str:
    module = name.partition(":")[0]
    why = f"{run}/config.toml: {PLACES[axis]} is {name}, and to import {module} would run its code"
    return f"{why}: if you trust it, give --trust-code (in Python trust_code=True)"


def command(name: str, run: Path) -> list[str]:
    return {
        "predict": ["predict", str(run), "--input", "lines.txt", "--device", "cpu"],
        "eval": ["eval", str(run), "--device", "cpu"],
        "report": ["report", str(run), "--device", "cpu", "--out", "page.html"],
        "explain": ["explain", str(run), "--input", "a b", "--target", "b a", "--device", "cpu", "--out", "page.html"],
        "resume": ["train", "pairs", "--run", str(run), "--resume", "--steps", "4"],
        "config": ["train", "pairs", "--config", str(run / "config.toml"), "--run", "again"],
    }[name]


def status(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str]:
    capsys.readouterr()
    return main(arguments), capsys.readouterr().err


@pytest.mark.parametrize("axis", list(PLACES))
@pytest.mark.parametrize("what", list(NEEDED))
def test_a_command_imports_nothing_that_a_run_names(
    what: str, axis: str, honest: Path, canaries: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    (canaries / "lines.txt").write_text("a b\n")
    for name in NAMES:
        run = strange(honest, tmp_path / name.partition(":")[0], **{axis: name})
        before = contents(run)
        code, said = status(command(what, run), capsys)
        if axis in NEEDED[what]:
            assert (code, said) == (2, f"searnn: error: {told(run, axis, name)}\n")
            assert contents(run) == before
        else:
            assert code == 0, said


@pytest.mark.parametrize("tokens", ["canary_here:part", "top:2+canary_here:part", "canary_here:part+end"])
def test_joined_samplers_are_refused_too(tokens: str, honest: Path, canaries: Path, tmp_path: Path):
    run = strange(honest, tmp_path / "run", tokens=tokens)
    with pytest.raises(SearnnError, match=r"search\.tokens is canary_here:part"):
        choices_of(searnn.load(run))


def test_the_schema_of_a_file_imports_nothing(honest: Path, canaries: Path, tmp_path: Path, refused: Refused):
    """A setting that nobody has is looked for among the arguments of the parts that are named."""
    run = strange(honest, tmp_path / "run", loss="canary_here:part")
    text = (run / "config.toml").read_text().replace("[loss]\n", "[loss]\ngap = 0.5\n")
    (run / "config.toml").write_text(text)
    assert searnn.load(run).predict(["a b"])
    assert told(run, "loss", "canary_here:part") in refused(*command("resume", run))
    assert told(run, "loss", "canary_here:part") in refused(*command("resume", run), "--gap", "1")
    assert told(run, "loss", "canary_here:part") in refused(*command("config", run), "--gap", "1")
    assert main(["train", "pairs", "--config", str(run / "config.toml"), "--help"]) == 2
    (run / "config.toml").write_text(text.replace("gap", "model"))
    assert "'model' belongs in the section [model]" in refused("predict", run)


def test_in_python_too(honest: Path, canaries: Path, tmp_path: Path):
    run = strange(honest, tmp_path / "run", cost="canary_here:part", metric="antigravity:fly")
    opened = searnn.load(run)
    assert opened.config.flat()["cost"] == "canary_here:part"  # it is told, not run
    assert opened.predict(["a b"])
    assert opened.metrics.table()
    with pytest.raises(SearnnError, match=r"optimisation\.metric is antigravity:fly") as caught:
        opened.evaluate("valid")
    assert str(caught.value) == told(run, "metric", "antigravity:fly")
    with pytest.raises(SearnnError, match=r"search\.cost is canary_here:part"):
        choices_of(opened)
    with pytest.raises(SearnnError, match=r"antigravity:fly, and to import antigravity would"):
        opened.task.metrics([[1]], [[1]])  # whoever goes around it
    model = strange(honest, tmp_path / "model", model="canary_here:part")
    with pytest.raises(SearnnError, match=r"model\.model is canary_here:part"):
        searnn.load(model)


def test_a_run_to_begin_from_runs_nothing(honest: Path, canaries: Path, tmp_path: Path, refused: Refused):
    """Of the other run the weights are taken, and its model's settings compared: no code is needed for that."""
    own = {axis: "canary_here:part" for axis in PLACES if axis not in ("task", "model")}
    run = strange(honest, tmp_path / "run", **own)
    flags = pairs_flags(tmp_path, canaries / "new")
    assert main([*flags, "--init-from", str(run)]) == 0
    run = strange(honest, tmp_path / "other", model="canary_here:part")
    message = refused(*pairs_flags(tmp_path, canaries / "newer"), "--init-from", run)
    assert message.endswith("--model is canary_here:part there and gru here; give the same settings of the model")


def test_folders_that_several_runs_are_to_go_on_in(honest: Path, canaries: Path, tmp_path: Path, refused: Refused):
    out = canaries / "out"
    flags = [
        "compare",
        "pairs",
        *pairs_flags(tmp_path, out)[2:],
        "--algorithms",
        "searnn",
        "--out",
        out,
        "--seeds",
        "1",
    ]
    del flags[(at := flags.index("--run")) : at + 2]
    for axis in ("cost", "loss", "metric", "algorithm", "model"):
        run = strange(honest, out / "searnn-0", **{axis: "canary_here:part"})
        message = refused(*flags, "--roll-out", "mixed", "--tokens", "top", "--k", "2")
        assert message.startswith(f"{out / 'searnn-0'} holds another run: --")
        run.rename(tmp_path / axis)


MINE = """
from searnn.models import gru
class Loss:
    def __init__(self, slope: float = 1.0): self.slope = slope
    def __call__(self, scores, costs, valid):
        return self.slope * (scores.softmax(-1) * costs).sum(-1)
def cost(output, target): return abs(len(output) - len(target))
def Model(vocab, source_size, rng): return gru(vocab, source_size=source_size, width=6, rng=rng)
"""


@pytest.fixture
def mine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A run with parts of one's own: its cost, which is its metric too, and its loss."""
    (tmp_path / "my_parts.py").write_text(MINE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    own = ["--cost", "my_parts:cost", "--loss", "my_parts:Loss", "--slope", "0.5"]
    assert main([*pairs_flags(tmp_path, tmp_path / "run"), *own]) == 0
    sys.modules.pop("my_parts")
    yield tmp_path / "run"
    sys.modules.pop("my_parts", None)


def test_what_is_trusted_runs_where_it_is_needed(mine: Path, tmp_path: Path):
    (tmp_path / "lines.txt").write_text("a b\n")
    for arguments in (command("predict", mine), [*command("predict", mine), "--trust-code"]):
        assert main(arguments) == 0
        assert "my_parts" not in sys.modules  # it is needed for nothing
    for what in ("eval", "report", "explain", "resume", "config"):
        assert main(command(what, mine)) == 2
        assert "my_parts" not in sys.modules
        assert main([*command(what, mine), "--trust-code"]) == 0
        assert sys.modules.pop("my_parts")
    trusted = searnn.load(mine, trust_code=True)
    assert trusted.evaluate("valid")["cost"] >= 0
    choices_of(trusted)
    assert trusted.settings_for("loss").flat()["slope"] == 0.5


def test_what_is_given_again_is_the_users(mine: Path, tmp_path: Path, refused: Refused):
    resume = command("resume", mine)
    assert told(mine, "loss", "my_parts:Loss") in refused(*resume, "--cost", "my_parts:cost")
    assert told(mine, "cost", "my_parts:cost") in refused(*resume, "--loss", "my_parts:Loss", "--cost", "other:cost")
    given = ["--cost", "my_parts:cost", "--loss", "my_parts:Loss"]  # its metric is the cost
    assert main([*resume, *given, "--slope", "0.5"]) == 0
    (tmp_path / "mine.toml").write_text('[search]\ncost = "my_parts:cost"\n[loss]\nloss = "my_parts:Loss"\n')
    assert main([*command("resume", mine)[:-1], "5", "--config", "mine.toml"]) == 0
    (tmp_path / "config.toml").write_text((tmp_path / "mine.toml").read_text())  # the name of those in runs' folders
    assert "search.cost is my_parts:cost" in refused(*resume, "--config", "config.toml")


def test_leave_that_nothing_asks_for(mine: Path, tmp_path: Path, refused: Refused):
    belongs = "it belongs to --resume, or to --config with the config.toml of a run"
    message = refused(*pairs_flags(tmp_path, tmp_path / "new"), "--trust-code")
    assert message == f"--trust-code does not apply here: {belongs}"
    assert "--trust-code does not apply here" in refused("report", mine, "--no-examples", "--trust-code")


def test_the_users_own_parts_train_and_open_in_python(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "my_parts.py").write_text(MINE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    pairs = [("a b", "b a"), ("b", "b"), ("a", "a")]
    sizes: dict[str, Any] = {"steps": 2, "eval_every": 1, "batch_size": 2, "device": "cpu", "show": False}
    run = searnn.train("pairs", train=pairs, valid=pairs, cost="my_parts:cost", model="my_parts:Model", **sizes)
    assert run.evaluate("valid")["cost"] >= 0
    with pytest.raises(SearnnError, match=r"model\.model is my_parts:Model"):
        searnn.load(run.folder)
    assert searnn.load(run.folder, trust_code=True).predict(["a"])
    sys.modules.pop("my_parts")


def test_every_axis_is_looked_at():
    assert {*PLACES} == {*trust.ALL}


def test_the_command_line_as_it_is_started(honest: Path, tmp_path: Path):
    """With the canary on PYTHONPATH and in the current folder, in a process of its own."""
    sung, (here, there) = tmp_path / "sung", (tmp_path / "here", tmp_path / "there")
    for folder, name in ((here, "canary_here"), (there, "canary_there")):
        folder.mkdir()
        (folder / f"{name}.py").write_text(CANARY.format(str(sung)))
        run = strange(honest, tmp_path / name, metric=f"{name}:part")
        done = subprocess.run(
            [Path(sys.executable).with_name("searnn"), "eval", run], cwd=here, capture_output=True, text=True,
            env={**os.environ, "PYTHONPATH": str(there)}, check=False,
        )  # fmt: skip
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr == f"searnn: error: {told(run, 'metric', f'{name}:part')}\n"
    assert not sung.exists()
