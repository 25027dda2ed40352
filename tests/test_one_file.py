"""Adding an algorithm, a loss and a cost takes one file each: nothing else names them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import searnn

ROOT = Path(__file__).parents[1]
ALGORITHM = '''"""Maximum likelihood, scaled."""

from __future__ import annotations

from typing import Annotated, ClassVar

from searnn.algorithms.common.settings import Normalisation
from searnn.algorithms.mle import Mle
from searnn.defaults import Recipe
from searnn.settings import Setting, checked
from searnn.types import Update


@checked
class Scaled:
    """As `Mle`, times `factor`."""

    name: ClassVar[str] = "scaled"
    recipe: ClassVar[Recipe] = {"lr": 0.125}
    factor: Annotated[float, Setting("what the loss is multiplied by", gt=0)] = 2.0
    normalisation: Normalisation = "batch"

    def __call__(self, model, batch, rng):
        update = Mle(normalisation=self.normalisation)(model, batch, rng)
        return Update(self.factor * update.loss, update.logs, cells=update.cells)
'''
LOSS = '''"""What a cell is expected to cost."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, ClassVar

from searnn.settings import Setting


@dataclass(frozen=True)
class Expected:
    """The mean cost under the model, at a temperature."""

    name: ClassVar[str] = "expected"
    random: ClassVar[bool] = False
    heat: Annotated[float, Setting("temperature of the model's probabilities", gt=0)] = 1.0

    def __call__(self, scores, costs, valid):
        probs = (scores / self.heat).masked_fill(~valid, -1e9).softmax(-1)
        return (probs * costs.masked_fill(~valid, 0)).sum(-1)
'''
COST = '''"""Whether the first token is wrong."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from searnn.types import Vocabulary


@dataclass(frozen=True)
class First:
    """1 where the first token is not the target's."""

    name: ClassVar[str] = "first"
    vocab: Vocabulary | None = None

    def __call__(self, outputs, targets):
        return (outputs[..., 0] != targets[:, 0].view(-1, *[1] * (outputs.ndim - 2))).float()
'''
SCRIPT = """
import contextlib, io, json, sys
from pathlib import Path
from members import members
from searnn.cli import main
from searnn.config.registry import AXES

def said(*words):
    text = io.StringIO()
    with contextlib.redirect_stdout(text), contextlib.redirect_stderr(text):
        try:
            status = main(list(words))
        except SystemExit as end:
            status = end.code
    return status or 0, " ".join(text.getvalue().split())

small = ("--width", "8", "--examples", "20", "--batch-size", "4", "--steps", "1")
chosen = ("--loss", "expected", "--cost", "first", "--heat", "2")
print(json.dumps({
    "help": said("train", "copy", "--algorithm", "scaled", "--help"),
    "mistake": said("train", "copy", "--algorithm", "scaled", "--factor", "0"),
    "elsewhere": said("train", "copy", "--loss", "kl", "--heat", "2"),
    "algorithm": said("train", "copy", "--algorithm", "scaled", "--factor", "3", "--run", "one", *small),
    "parts": said("train", "copy", *chosen, "--run", "two", *small),
    "compare": said("compare", "copy", "--algorithms", "mle,scaled", "--seeds", "1", "--out", "all", *small),
    "kept": [path.read_text() for name in ("one", "two") if (path := Path(name, "config.toml")).is_file()],
    "members": [list(members(axis)) for axis in ("loss", "cost")],
    "algorithms": list(AXES["algorithm"]),
}))
"""


def test_a_file_is_enough(tmp_path: Path) -> None:
    package = shutil.copytree(Path(searnn.__file__).parent, tmp_path / "searnn")
    for place, text in (("algorithms/scaled", ALGORITHM), ("losses/expected", LOSS), ("costs/first", COST)):
        (package / f"{place}.py").write_text(text)
    paths = os.pathsep.join([str(tmp_path), str(ROOT / "tests" / "helpers")])
    environment = {**os.environ, "PYTHONPATH": paths, "COLUMNS": "140"}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    for name in ("help", "algorithm", "parts", "compare"):
        assert found[name][0] == 0, found[name][1]
    told = found["help"][1]
    assert "--factor X what the loss is multiplied by [2]" in told
    assert "--lr X learning rate [0.125]" in told
    assert " scaled --normalisation --factor" in told or " scaled --factor --normalisation" in told
    assert "or l2 or expected" not in told
    assert "consistent, reverse-kl, js, l2 or expected" in told
    assert "chunk-f1 or first" in told
    assert found["mistake"] == [2, "searnn: error: --factor must be a number above 0, got '0'"]
    assert found["elsewhere"][1].endswith("--heat does not apply here: it belongs to --loss expected")
    one, two = found["kept"]
    assert "factor = 3.0" in one
    assert 'loss = "expected"\nheat = 2.0' in two or "heat = 2.0" in two
    assert "scaled" in found["compare"][1]
    losses, costs = found["members"]
    assert (losses[-1], costs[-1], found["algorithms"][-1]) == ("expected", "first", "scaled")
