"""Damages what commands and the library open, and reports all that is not told in one line.

Usage: fuzz.py MINUTES [SEED]    tries cases of the seed until the time is over; exit status 1 where one has a fault
       fuzz.py --case FOLDER     tries one again: those with a fault are kept in build/fuzz/SEED-NUMBER

A fault is an exception other than SearnnError, an exit status other than 0 and 2, a traceback, a message that is no
line, or a run that takes too long or too much memory.
"""

from __future__ import annotations

import json
import os
import random
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import redirect_stderr, redirect_stdout
from functools import partial
from io import StringIO
from itertools import count
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
ROOT = Path(__file__).parents[2]
sys.path[:0] = [str(Path(__file__).parent), str(ROOT / "tests" / "helpers")]

import numpy as np  # noqa: E402
import torch  # noqa: E402
from damages import damage  # noqa: E402
from tiny import copy_flags  # noqa: E402
from tiny_runs import finished_runs  # noqa: E402
from trials import Trial, judged  # noqa: E402

from searnn.cli import main  # noqa: E402
from searnn.config import files, resolve  # noqa: E402
from searnn.data import letters  # noqa: E402
from searnn.data.corpus import encode_pairs, learn_lexicons  # noqa: E402
from searnn.data.lines import BadLines  # noqa: E402
from searnn.data.sheets import read_letters, write_sheet  # noqa: E402
from searnn.reports.comparison import Result  # noqa: E402
from searnn.reports.reproduction import Reproduced, TableEntry, recorded, write_record  # noqa: E402
from searnn.tasks.common.text import file_split  # noqa: E402

KEPT = ROOT / "build" / "fuzz"
SIZED = "searnn with other settings"  # of any size
RUNS = {"copy": "0 1\n", "pairs": "a b\n", "ocr": ""}
TEXTS = {"pairs": ("text/source.json", "text/target.json", "text/room.json")}
OF_RUN = (
    "config.toml",
    "metrics.jsonl",
    "best/state.json",
    "last/state.json",
    "best/*.safetensors",
    "last/*.safetensors",
)


def bases(folder: Path) -> Path:
    """Whole things, of which every case damages a copy."""
    folder.mkdir(parents=True)
    with redirect_stdout(StringIO()), redirect_stderr(StringIO()):
        finished_runs(folder)
    for name, text in RUNS.items():
        (folder / name / "report.html").unlink(missing_ok=True)
        (folder / name / "input.txt").write_text(text)
    pixels = np.random.default_rng(0).random((5, 128)) < 0.5
    np.savez(folder / "pixels.npz", pixels=pixels.astype(np.float32), word_lengths=np.array([2, 3]))
    write_sheet([pixels[:2].astype(np.float32), pixels[2:].astype(np.float32)], folder / "sheet.png")
    (folder / "settings.toml").write_bytes((folder / "pairs" / "config.toml").read_bytes())
    text = (
        'task: {name: copy, length: 3}\nmodel: {width: 8, model: gru}\nsearch: {tokens: "top:3+all"}\nrun: {seed: 1}\n'
    )
    (folder / "settings.yaml").write_text(text + "optimisation: {lr: 1e-3, steps: 4, clip: none, schedule: linear}\n")
    result = Result("mle", 0, "out/mle-0", 4, 0.5, {"error": 0.25}, 4, 1.5, 0.25, [(2, 0.5, 0.75), (4, 1.0, 0.5)])
    entry = TableEntry("ocr", "MLE", "searnn train ocr", 2.8, "error", [result], [0, 1], {1: "it ended"})
    write_record(folder / "table.json", Reproduced("table1", "Table 1", "A note", "%", 1.0, [entry], ["MLE"]).record())
    return folder


def read_lines(path: Path) -> None:
    """Pairs as a training reads them, with bad lines left out."""
    split = file_split([str(path)])
    lexicons = learn_lexicons(lambda: split.read(BadLines(skip=True)), ("words", "chars"))
    encode_pairs(split.read(bad := BadLines(skip=True)), *lexicons, bad=bad, where=path, max_length=50)


FILES: dict[str, Callable[[Path], object]] = {
    "settings.toml": lambda path: resolve(files.read(path)),
    "settings.yaml": lambda path: resolve(files.read(path)),
    "train.tsv": read_lines,
    "table.json": recorded,
    "letters.npz": letters.read,
    "pixels.npz": read_letters,
    "sheet.png": read_letters,
}


def case(base: Path, place: Path, seed: int, number: int) -> Trial:
    """The case of a number: a copy of something, damaged, and what opens it, both left in `place`."""
    draw = random.Random(f"{seed}-{number}")
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    opened = draw.choice((*RUNS, *RUNS, *FILES))
    if opened in RUNS:
        shutil.copytree(base / opened, place / "run")
        known = [path for name in (*OF_RUN, *TEXTS.get(opened, ())) for path in (place / "run").glob(name)]
        chosen = draw.sample(known, draw.choice((1, 1, 1, 2)))
        for path in chosen:
            damage(path, draw)
        words = [SIZED if place / "run" / "config.toml" in chosen else "searnn", *of_run(opened, base, draw)]
    else:
        shutil.copy(base / opened, place)
        damage(place / opened, draw, waits=opened != "table.json")  # which is a record
        words = ["open", opened]
        if opened in ("pixels.npz", "sheet.png") and draw.random() < 0.3:
            words = ["searnn", "predict", str(base / "ocr"), "--input", opened]
    (place / "words.json").write_text(json.dumps(words))
    return trial(place)


def trial(place: Path) -> Trial:
    """What a case does, by the words in its folder: a command, or one of the functions that open files."""
    first, *words = json.loads((place / "words.json").read_text())
    os.chdir(place)
    if first == "open":
        path = place / words[0]
        return Trial(partial(FILES[path.name], path))

    def run() -> object:
        try:
            return main(words)
        except SystemExit as error:
            return error.code

    return Trial(run, is_command=True, may_lack_memory=first == SIZED)


def of_run(task: str, base: Path, draw: random.Random) -> list[str]:
    """A command that opens a run."""
    given = str(base / "pixels.npz") if task == "ocr" else "run/input.txt"
    shown = given if task == "ocr" else RUNS[task].strip()
    commands = [
        ["eval", "run", "--split", "valid"],
        ["predict", "run", "--input", given, "--beam", "2"],
        ["report", "run", "--no-examples", "--out", "page.html"],
        ["report", "run", "--out", "page.html"],
        ["explain", "run", "--input", shown, "--out", "explained.html"],
        ["train", task, "--run", "run", "--resume", "--steps", "5"],
    ]
    if task == "copy":
        commands.append([*copy_flags(Path("new")), "--init-from", "run"])
    return draw.choice(commands)


def fuzz(seed: int, numbers: Iterator[int], kept: Path, tell: Callable[[str], None]) -> tuple[int, int]:
    """How many cases were tried, and how many had a fault; these are kept, beside what they were made of."""
    torch.set_num_threads(1)
    shutil.rmtree(kept / "base", ignore_errors=True)
    base, tried, faults = bases(kept / "base"), 0, 0
    with tempfile.TemporaryDirectory() as scratch:
        for number, fault in judged(partial(case, base, Path(scratch).resolve() / "case", seed), numbers):
            tried += 1
            if fault is not None:
                faults += 1
                case(base, kept / f"{seed}-{number}", seed, number)
                tell(f"{kept / f'{seed}-{number}'}: {fault}\n")
    return tried, faults


def until(end: float) -> Iterator[int]:
    """Numbers, until the time is over."""
    for number in count():
        if time.monotonic() > end:
            return
        yield number


if __name__ == "__main__":
    if sys.argv[1] == "--case":
        found = list(judged(lambda _: trial(Path(sys.argv[2]).resolve()), iter([0])))
        print(*(fault or "no fault" for _, fault in found), sep="\n")
        sys.exit(1 if found[0][1] else 0)
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else 0
    tried, faults = fuzz(seed, until(time.monotonic() + 60 * float(sys.argv[1])), KEPT, partial(print, flush=True))
    print(f"{tried} cases of seed {seed}, {faults} with a fault")
    sys.exit(1 if faults else 0)
