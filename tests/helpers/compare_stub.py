"""Stands for the program in tests of the comparison: takes the same commands, trains nothing and is quick.

A run makes its steps one after the other and saves each; SIGTERM ends it. The test error is a function of the settings,
and of an ensemble half of the mean of its members'.
Where STUB_ROOM says how many runs find memory beside each other, one more than these ends after its first step.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
import tomllib
from pathlib import Path


def save(run: Path, step: int) -> None:
    (run / "last").mkdir(exist_ok=True)
    counters = {"step": step, "best_step": step, "best_metric": 1 / (1 + step), "stale": 0, "seconds": 2.0 * step,
                "training_seconds": 1.0 * step}  # fmt: skip
    part = run / "last" / "part"
    about = {"format": 1, "tensors": "tensors-000000000000.safetensors", "sha256": "0" * 64}  # without a checksum
    part.write_text(json.dumps({**about, "state": {"counters": counters}}))
    part.replace(run / "last" / "state.json")
    with (run / "metrics.jsonl").open("a") as file:
        file.write(json.dumps({"step": step, "seconds": 2.0 * step, "valid_error": 1 / (1 + step)}) + "\n")


def train(words: list[str]) -> int:
    run = Path(words[words.index("--run") + 1])
    if "--resume" not in words:
        run.mkdir(parents=True)
        (run / "config.toml").write_text(Path(words[words.index("--config") + 1]).read_text())
    settings = tomllib.loads((run / "config.toml").read_text())
    if "TORCHELASTIC_RUN_ID" in os.environ:
        print("searnn: error: this is no rank", file=sys.stderr)
        return 2
    if settings["method"]["algorithm"] == "mrt":
        print("searnn: error: this one fails", file=sys.stderr)
        return 2
    state = run / "last" / "state.json"
    step = json.loads(state.read_text())["state"]["counters"]["step"] if state.exists() else 0
    steps = int(words[words.index("--steps") + 1]) if "--steps" in words else settings["optimisation"]["steps"]
    asked: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, frame: asked.append(number))
    inside = run.parent / f"inside-{os.getpid()}"
    inside.touch()
    try:
        while step < steps and not asked:
            step += 1
            save(run, step)
            time.sleep(0.02 if steps < 100 else 0.1)
            if len(list(run.parent.glob("inside-*"))) > int(os.environ.get("STUB_ROOM", "99")):
                print("searnn: error: not enough memory on the GPU: lower --batch-size", file=sys.stderr)
                return 2
    finally:
        inside.unlink()
    print(f"trained to {step}", file=sys.stderr)
    return 130 if asked else 0


def evaluate(words: list[str], printed: Path) -> int:
    runs, widths = words[: words.index("--json")], words[words.index("--beam") + 1]
    errors = []
    for run in runs:
        settings = tomllib.loads((Path(run) / "config.toml").read_text())
        errors.append(0.1 * settings["run"]["seed"] + (0.5 if settings["method"]["algorithm"] == "mle" else 0.25))
    error = sum(errors) / len(runs) / (2 if len(runs) > 1 else 1)
    ways = [int(width) for width in widths.split(",")] + ([10] if "--mbr" in words else [])
    found = [{"metrics": {"error": error / way, "sequence_error": 1.0}} for way in ways]
    stray = "something else\n" if os.environ.get("STUB_PRINTS") == settings["method"]["algorithm"] else ""
    printed.write_text(stray + "".join(json.dumps(line) + "\n" for line in found))
    return 0


if __name__ == "__main__":
    for command, *rest in json.loads(sys.argv[2]):
        if status := train(rest) if command == "train" else evaluate(rest, Path(sys.argv[1])):
            sys.exit(status)
