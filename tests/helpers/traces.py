"""Traces: short trainings of every algorithm, task, model family and part, as digests to compare code before and after.

    python tests/helpers/traces.py --write     records them under this machine's key in tests/helpers/traces.json
    python tests/helpers/traces.py             compares with what is recorded there

The digests depend on the build of torch, the processor and the number of threads, so they are kept by these.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import io
import json
import platform
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from tiny import pairs_files
from tiny_data import tiny_data

from searnn.cli import main
from searnn.config.registry import AXES
from searnn.data import store

FILE = Path(__file__).with_name("traces.json")
UPDATES = 20
ALGORITHMS, TASKS, MODELS = (tuple(AXES[axis]) for axis in ("algorithm", "task", "model"))
ENGINES = ("auto", "plain")
PARTS = (
    *(f"--loss {name}" for name in AXES["loss"]),
    "--loss ll --ties random",
    *(f"--tokens {name}" for name in ("uniform", "policy", "biased", "top", "neighbours", "targeted", "top:3+end")),
    "--cells uniform --n-cells 3",
    "--cells uncertain --n-cells 3",
    *(f"--roll-in {name}" for name in ("reference", "learned", "sampled", "mixed")),
    "--roll-in mixed --roll-in-mix-per token --oracle optimal-edit",
    *(f"--roll-out {name}" for name in ("reference", "learned", "focused")),
    "--roll-out learned --roll-out-beam 2",
    *(f"--mix-per {name}" for name in ("cell", "branch", "token")),
    *(f"--cost {name}" for name in ("hamming", "edit", "exact", "bleu --bleu leblond", "gleu")),
    "--cost bleu --bleu bahdanau --oracle best-suffix --measure bleu-4",
    "--oracle optimal-edit",
    "--classifier cell",
    "--normalisation cell",
    "--cross-entropy-weight 0.5 --label-smoothing 0.1",
    "--budget 1",
    "--accumulate 2",
    "--optimizer sgd --average 0.9",
    "--attention additive --dropout 0.2",
    "--attention aligned",
    "--reference-probability linear:1:0:20",
)


EARLIER = {  # defaults as they were when the first traces were recorded
    "raml": ["--tau", "0.15"],
    "pairs": ["--lr", "0.001", "--schedule", "plateau", "--average", "0", "--cross-entropy-weight", "0"],
    "translation": ["--tokens", "top:16+neighbours:11+end", "--bleu", "leblond"],
}


def machine() -> str:
    """What the digests depend on besides the code."""
    facts = {key.strip(): value.strip() for key, _, value in (line.partition(":") for line in _cpuinfo())}
    kind = " ".join(facts.get(name, "") for name in ("model name", "cpu family", "model")).strip()
    numba = "with" if find_spec("numba") else "without"
    return f"torch {torch.__version__}, {kind or platform.machine()}, {torch.get_num_threads()} threads, {numba} numba"


def _cpuinfo() -> list[str]:
    path = Path("/proc/cpuinfo")
    return path.read_text().split("\n\n")[0].splitlines() if path.exists() else []


def commands() -> Iterator[tuple[str, list[str]]]:
    """Every trace's name and its flags."""
    for algorithm in ALGORITHMS:
        for model in MODELS:
            for engine in ENGINES:
                yield f"copy {algorithm} {model} {engine}", [
                    "copy", "--algorithm", algorithm, "--model", model, "--engine", engine, *EARLIER.get(algorithm, [])
                ]  # fmt: skip
    for task in TASKS:
        for model in MODELS:
            for engine in ENGINES:
                yield f"{task} {model} {engine}", [task, "--model", model, "--engine", engine, *EARLIER.get(task, [])]
    for part in PARTS:
        yield f"copy {part}", ["copy", *part.split()]


def trace(flags: list[str], own: list[str], run: Path) -> dict[str, Any]:
    """Train, and digest what came out."""
    task, *rest = flags
    sizes = ["--steps", str(UPDATES), "--eval-every", str(UPDATES), "--batch-size", "16", "--width", "32"]
    told = io.StringIO()
    with contextlib.redirect_stdout(told), contextlib.redirect_stderr(told):
        status = main(["train", task, *own, *sizes, "--device", "cpu", *rest, "--run", str(run)])
    if status:
        return {"refused": told.getvalue().strip().splitlines()[-1]}
    state = json.loads((run / "last" / "state.json").read_text())
    digest = hashlib.sha256()
    for name, tensor in sorted(load_file(run / "last" / state["tensors"]).items()):
        if name.startswith(("model.", "algorithm.")):
            digest.update(name.encode() + tensor.numpy().tobytes())
    record = json.loads((run / "metrics.jsonl").read_text().splitlines()[-1])
    metrics = {name: value for name, value in record.items() if name.startswith("valid_")}
    return {"weights": digest.hexdigest()[:16], "loss": record["train_loss"], "metrics": metrics}


def traces(only: str = "") -> dict[str, dict[str, Any]]:
    """All traces, or those whose names hold a text."""
    found = {}
    with tempfile.TemporaryDirectory() as place, pytest.MonkeyPatch.context() as patch:
        data = tiny_data(Path(place, "data"))
        patch.setenv("SEARNN_DATA", str(data))
        public = store.SOURCES["cmudict"]
        tiny = replace(public, files=(replace(public.files[0], sha256=None),))
        patch.setitem(store.SOURCES, "cmudict", tiny)
        own = {"pairs": pairs_files(Path(place)), "ocr": ["--data", str(data / "ocr" / "letters.npz")]}
        for number, (name, flags) in enumerate(commands()):
            if only in name:
                found[name] = trace(flags, own.get(flags[0], []), Path(place, str(number)))
    return found


def differences(now: dict[str, Any], then: dict[str, Any]) -> list[str]:
    """The names of traces that are not what they were."""
    return [name for name in then if name in now and now[name] != then[name]]


def lines(recorded: dict[str, dict[str, Any]]) -> str:
    """The record as text, a line for each trace."""
    parts = []
    for kind, made in recorded.items():
        inside = ",\n".join(f"  {json.dumps(name)}: {json.dumps(found)}" for name, found in made.items())
        parts.append(f" {json.dumps(kind)}: {{\n{inside}\n }}")
    return "{\n" + ",\n".join(parts) + "\n}\n"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--write", action="store_true", help="record them")
    parser.add_argument("--only", default="", help="those whose names hold this text")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    recorded = json.loads(FILE.read_text()) if FILE.exists() else {}
    made = traces(arguments.only)
    if arguments.write:
        FILE.write_text(lines({**recorded, machine(): {**recorded.get(machine(), {}), **made}}))
        sys.exit(f"{len(made)} traces of {machine()} recorded")
    changed = differences(made, recorded.get(machine(), {}))
    for name in changed:
        print(f"{name}\n  was {recorded[machine()][name]}\n  is  {made[name]}")
    sys.exit(f"{len(changed)} of {len(made)} traces differ" if changed else 0)
