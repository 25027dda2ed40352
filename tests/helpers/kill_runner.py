"""Trains once unbroken and once killed at random moments, in children forked from this process; prints what it saw.

Usage: kill_runner.py FOLDER KILLS. A process of its own, so that children start with everything imported but without
the threads of a test runner.
"""

from __future__ import annotations

import json
import mmap
import os
import random
import signal
import sys
import time
from dataclasses import replace
from pathlib import Path

import lightning_fabric  # noqa: F401  # imported once here and not in every child
import torch
from training_cases import ADAM, make_model, make_task

from searnn.algorithms import Mle
from searnn.training import checkpoints, fit

SETTINGS = replace(ADAM, steps=140, eval_every=2, schedule="plateau", plateau_patience=3)
SLOW = 0.008  # seconds that each operation of a save is drawn out, so that many kills land inside one
SAVING = mmap.mmap(-1, 1)  # shared with the children: 1 while one saves


def train(folder: Path, slow: bool) -> None:
    if slow:
        for name in ("fsync", "replace"):
            draw_out(name)
        save = checkpoints.save

        def marked(*arguments: object) -> None:
            SAVING[0] = 1
            save(*arguments)
            SAVING[0] = 0

        checkpoints.save = marked
    else:
        os.fsync = lambda _: None  # matters when a machine stops, not when a process does
    fit(make_model(), Mle(), make_task(), SETTINGS, folder, resume=folder.exists())


def draw_out(name: str) -> None:
    real = getattr(os, name)

    def slower(*arguments: object) -> object:
        time.sleep(SLOW / 2)
        result = real(*arguments)
        time.sleep(SLOW / 2)
        return result

    setattr(os, name, slower)


def start(folder: Path, slow: bool) -> int:
    SAVING[0] = 0
    child = os.fork()
    if child == 0:
        code = 1
        try:
            train(folder, slow)
            code = 0
        finally:
            sys.stderr.flush()
            os._exit(code)
    return child


def main() -> None:
    torch.set_num_threads(1)
    folder, kills = Path(sys.argv[1]), int(sys.argv[2])
    assert os.waitpid(start(folder / "unbroken", slow=False), 0)[1] == 0
    draw = random.Random(0)
    saving, steps = 0, []
    for _ in range(kills):
        child = start(folder / "killed", slow=True)
        time.sleep(draw.uniform(0.03, 0.37))
        os.kill(child, signal.SIGKILL)
        status = os.waitpid(child, 0)[1]
        assert os.WIFSIGNALED(status), f"a child ended by itself with status {status}"
        saving += SAVING[0]
        last = folder / "killed" / "last"
        steps.append(checkpoints.load(last)[1]["counters"]["step"] if checkpoints.exists(last) else None)
    assert os.waitpid(start(folder / "killed", slow=False), 0)[1] == 0
    print(json.dumps({"kills": kills, "saving": saving, "steps": steps}))


if __name__ == "__main__":
    main()
