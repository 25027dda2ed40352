"""The house: seams are written down, acceleration stands behind one door, and the picture of the storeys is true."""

from __future__ import annotations

import ast
import inspect
import os
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

import searnn
from searnn import fast, interfaces

ROOT = Path(__file__).parents[1]
SOURCE = ROOT / "src" / "searnn"
LONGEST = 400  # lines of a file

# Attributes of other libraries that are looked for by name, each with the reason why.
FOREIGN = {
    "config": "transformers: a model that is none of its own has no configuration",
    "is_encoder_decoder": "transformers: configurations of other models do not say",
    "decoder_layerdrop": "transformers: only some configurations have it",
    "encoder": "transformers: the configuration of a model of two parts has one for each",
    "gradient_checkpointing": "transformers: the parts that can do without keeping what they compute",
    "input_feat_per_channel": "transformers: of models that read sound",
    "max_source_positions": "transformers: of models that read sound",
    "num_mel_bins": "transformers: of models that read sound",
    "generation_config": "transformers: models that cannot generate have none",
}


# Files that write past the one writer, each with the reason why that loses nothing.
WRITERS = {
    "files.py": "the writer",
    "bench/machine.py": "sets a counter of the kernel",
    "data/corpus.py": "a file without a name, for the time of a training",
    "data/fetch.py": "into a folder for what is being fetched",
    "data/store.py": "that folder",
    "jobs/one_gpu.py": "a folder for the sockets of a service, for the time of a command",
    "jobs/pool.py": "the log of a run",
}
CHANGES = {"write_text", "write_bytes", "unlink", "rename", "mkdir", "makedirs", "rmdir", "touch", "rmtree", "move"}
CHANGES |= {"TemporaryDirectory", "TemporaryFile", "NamedTemporaryFile", "mkdtemp", "mkstemp", "fsync", "memmap"}


def trees() -> Iterator[tuple[Path, ast.Module]]:
    for path in sorted(SOURCE.rglob("*.py")):
        yield path, ast.parse(path.read_text(encoding="utf-8"))


def protocols() -> dict[str, type]:
    """Those of `searnn.interfaces`, by name."""
    found = (kind for kind in vars(interfaces).values() if inspect.isclass(kind))
    return {
        kind.__name__: kind for kind in found if "_is_protocol" in vars(kind) and kind.__module__ == interfaces.__name__
    }


def test_no_capability_is_found_by_a_string():
    """What an object may offer is a protocol of `searnn.interfaces`, asked for by `isinstance`."""
    found, used = [], set()
    for path, tree in trees():
        for node in ast.walk(tree):
            if not (isinstance(node, ast.Call) and isinstance(node.func, ast.Name)):
                continue
            if node.func.id not in ("getattr", "hasattr") or not isinstance(node.args[1], ast.Constant):
                continue
            name = node.args[1].value
            used.add(name)
            if not (name.startswith("__") and name.endswith("__")) and name not in FOREIGN:
                found.append(f"{path.relative_to(SOURCE)}:{node.lineno} {name}")
    assert found == []
    assert set(FOREIGN) <= used, "the list has what is no longer looked for"


def changes_the_disk(call: ast.Call) -> bool:
    """Whether it looks like a call that writes, renames or removes."""
    if isinstance(call.func, ast.Name):
        return call.func.id == "open" and writes(call)
    if not isinstance(call.func, ast.Attribute):
        return False
    name, owner = call.func.attr, ast.unparse(call.func.value)
    if name == "replace":  # of a path, not of a text
        return owner == "os" or (len(call.args) == 1 and not call.keywords)
    if name == "savefig":  # not into memory
        return not call.keywords
    return name in CHANGES or (owner, name) == ("os", "remove") or (name == "open" and writes(call))


def writes(call: ast.Call) -> bool:
    """Whether it opens a file for writing."""
    given = [
        node.value for node in (*call.args, *(key.value for key in call.keywords)) if isinstance(node, ast.Constant)
    ]
    modes = [text for text in given if isinstance(text, str) and re.fullmatch("[rwabxt+]+", text)]
    return any(set(mode) & set("wax+") for mode in modes)


def test_one_writer_changes_the_disk():
    """So that tests can kill it and cut its power at every change."""
    found = {
        str(path.relative_to(SOURCE))
        for path, tree in trees()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and changes_the_disk(node)
    }
    assert found == set(WRITERS)


def test_every_seam_is_in_the_guide():
    guide = (ROOT / "docs" / "extending.md").read_text(encoding="utf-8")
    missing = [name for name in protocols() if f"`{name}`" not in guide and name != "Policy"]
    assert missing == []
    for name, kind in protocols().items():
        assert inspect.getdoc(kind), name
        isinstance(None, kind)  # it can be asked for while the program runs


def replaceable_functions() -> set[str]:
    found = set()
    for path, tree in trees():
        module = ".".join(("searnn", *path.relative_to(SOURCE).with_suffix("").parts))
        for owner in (tree, *(node for node in tree.body if isinstance(node, ast.ClassDef))):
            prefix = f"{module}.{owner.name}" if isinstance(owner, ast.ClassDef) else module
            for node in owner.body:
                if isinstance(node, ast.FunctionDef) and any(
                    isinstance(mark, ast.Name) and mark.id == "replaceable" for mark in node.decorator_list
                ):
                    found.add(f"{prefix}.{node.name}")
    return found


def test_every_faster_way_stands_for_a_function_that_may_be_replaced():
    assert set(fast.WAYS) == replaceable_functions()
    for name, places in fast.WAYS.items():
        for place, way in zip(places, fast.ways_of(name), strict=True):
            module, _, attribute = name.rpartition(".")
            try:
                plain = getattr(import_module(module), attribute)
            except ModuleNotFoundError:  # a method
                module, _, owner = module.rpartition(".")
                plain = getattr(getattr(import_module(module), owner), attribute)
            ours, theirs = (list(inspect.signature(inspect.unwrap(one)).parameters) for one in (way, plain))
            assert len(ours) == len(theirs), place


PLAINLY = """
import hashlib, sys
from importlib.util import find_spec
import searnn, torch
from searnn.costs import EditDistance
from searnn.losses import KLLoss
from searnn.models import gru
from searnn.policies import Learned, Mixed
from searnn.tasks import Copy

task = Copy(symbols=5, length=6, examples=64)
model = gru(task.vocab, source_size=task.source_size, width=48, rng=torch.Generator().manual_seed(0))
learn = searnn.Searnn(roll_in=Learned(), roll_out=Mixed(), cost=EditDistance(), loss=KLLoss(3.0))
optimiser = torch.optim.Adam(model.parameters(), 0.003)
for step, batch in ((step, task.train(32, 0).batch(step)) for step in range(3)):
    optimiser.zero_grad()
    learn(model, batch, torch.Generator().manual_seed(step)).loss.backward()
    optimiser.step()
digest = hashlib.sha256(b"".join(value.numpy().tobytes() for value in model.state_dict().values()))
print(find_spec("searnn.fast") is not None, "numba" in sys.modules, digest.hexdigest())
"""


def run_plainly(source: Path) -> list[str]:
    environment = {**os.environ, "PYTHONPATH": str(source), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [sys.executable, "-c", PLAINLY], env=environment, capture_output=True, text=True, check=False, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


def test_without_acceleration_everything_works(tmp_path: Path):
    """The package is left out of a copy: the same weights come out, by the plain code."""
    left_out = shutil.ignore_patterns("fast", "__pycache__")
    shutil.copytree(SOURCE, tmp_path / "searnn", ignore=left_out)
    there, compiled, digest = run_plainly(SOURCE.parent)
    assert there == "True"
    assert compiled == str(find_spec("numba") is not None), "there is something to compare with"
    assert run_plainly(tmp_path) == ["False", "False", digest]


def test_the_picture_of_the_storeys_is_that_of_the_check():
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contracts = {each["name"]: each for each in settings["tool"]["importlinter"]["contracts"]}
    checked = next(each for each in contracts.values() if each["type"] == "layers")
    assert checked["exhaustive"]
    page = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    drawn = next(block for block in re.findall(r"```text\n(.*?)```", page, re.DOTALL) if "interfaces" in block)
    lines = [re.sub(r"\s{2,}.*", "", line) for line in drawn.splitlines()]
    assert [" | ".join(sorted(line.split(" | "))) for line in lines] == [
        " | ".join(sorted(layer.replace("searnn.", "").split(" | "))) for layer in checked["layers"]
    ]


def test_files_are_short():
    long = {str(path.relative_to(SOURCE)): len(path.read_text(encoding="utf-8").splitlines()) for path, _ in trees()}
    assert {name: count for name, count in long.items() if count > LONGEST} == {}


def test_everything_public_is_there():
    for name in searnn.__all__:
        assert getattr(searnn, name) is not None
