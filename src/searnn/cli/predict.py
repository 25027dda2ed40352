"""`searnn predict RUN`: read inputs, print what the model makes of them, a line each."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

from searnn.cli.parser import count
from searnn.config import Run, load
from searnn.tasks.batching import unlabelled
from searnn.tasks.sheets import read_letters
from searnn.training import predict_tokens
from searnn.types import SearnnError

STDIN = "the standard input"


def add(commands: Any) -> None:
    """Add the command's parser."""
    text = "print the outputs of the best model of a run, a line each"
    parser = commands.add_parser("predict", help=text, description=text.capitalize() + ".")
    parser.add_argument("run", metavar="RUN", type=Path, help="folder of the run")
    parser.add_argument(
        "--input", metavar="FILE", type=Path, help="ocr: an .npz or .png of letters; copy: lines of symbols [stdin]"
    )
    parser.add_argument("--beam", metavar="N", type=count, default=1, help="beam width; 1 is greedy [1]")
    parser.add_argument("--device", metavar="NAME", default="auto", help="auto, cpu, cuda or cuda:N [auto]")
    parser.set_defaults(command=run, parser=parser)


def run(arguments: argparse.Namespace) -> int:
    """Decode the inputs in their order."""
    loaded = load(arguments.run, device=arguments.device)
    sources, room = _letters(arguments.input) if loaded.task.features is not None else _symbols(loaded, arguments.input)
    size = loaded.config.optimisation.batch_size or 1
    parts = [sources[start : start + size] for start in range(0, len(sources), size)]
    batches = (unlabelled(part, loaded.task.vocab, room) for part in parts)
    for tokens in predict_tokens(loaded.model, batches, beam=arguments.beam):
        print(loaded.task.show(tokens))
    return 0


def _letters(path: Path | None) -> tuple[list[Any], None]:
    """Words of pixels; each has as many cells as letters."""
    if path is not None:
        return list(read_letters(path)), None
    if sys.stdin is None or sys.stdin.isatty():
        raise SearnnError("ocr reads pictures of letters: give an .npz or a .png file with --input, or by < FILE")
    return list(read_letters(sys.stdin.buffer, STDIN)), None


def _symbols(run: Run, path: Path | None) -> tuple[list[list[int]], int]:
    """Strings of symbols, a line each, and the room that outputs have."""
    where = STDIN if path is None else str(path)
    if path is None and sys.stdin is None:
        raise SearnnError(f"{where} is closed: give a file of symbols with --input, or by < FILE")
    try:
        text = sys.stdin.read() if path is None else path.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise SearnnError(f"{where} is not text: expected a line of symbols for each output") from error
    size = run.task.source_size or 0
    symbols = {str(symbol): symbol for symbol in range(size)}
    strings = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split()
        if not words or not all(word in symbols for word in words):
            raise SearnnError(f"{where}, line {number}: expected symbols from 0 to {size - 1} with spaces between them")
        strings.append([symbols[word] for word in words])
    if not strings:
        raise SearnnError(f"{where} is empty: expected a line of symbols for each output")
    return strings, next(iter(run.task.valid(1))).targets.shape[1]
