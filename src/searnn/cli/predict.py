"""`searnn predict RUN`: read inputs, print what the model makes of them, in their order."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from io import BufferedIOBase
from pathlib import Path
from typing import Any, cast

from searnn.cli.parsers import add_command, add_device, add_run
from searnn.config.parser import count
from searnn.data.lines import LONGEST, open_content
from searnn.data.sheets import read_letters
from searnn.interfaces import ReadsLines
from searnn.runs import Run, load
from searnn.runs.run import Outputs
from searnn.types import SearnnError

STDIN = "the standard input"


def add(commands: Any) -> None:
    """Add the command's parser."""
    text = "print the outputs of the best model of a run, a line for each line of the input"
    notes = (
        "Lines are answered as they come, also from a pipe that stays open. With --n-best every input has N lines, "
        "each with the input's number and a tab before it; --scores adds a tab and the tokens' mean log-probability."
    )
    parser = add_command(commands, "predict", run, text, notes)
    add_run(parser)
    parser.add_argument(
        "--input", metavar="FILE", type=Path, help="lines of text; ocr: an .npz or .png of letters [stdin]"
    )
    parser.add_argument("--beam", metavar="N", type=count, help="beam width; 1 is greedy [1, or that of --n-best]")
    parser.add_argument("--n-best", metavar="N", type=count, help="print the N best outputs of each input")
    parser.add_argument("--scores", action="store_true", help="print the score of each output")
    parser.add_argument("--skip-bad-lines", action="store_true", help="print an empty line for a bad one")
    add_device(parser)


def run(arguments: argparse.Namespace) -> int:
    """Decode the inputs in their order."""
    beam = arguments.beam or arguments.n_best or 1
    if arguments.n_best is not None and arguments.n_best > beam:
        raise SearnnError(f"--n-best is {arguments.n_best}, but a beam of {beam} finds no more: raise --beam")
    loaded = load(arguments.run, device=arguments.device)
    size = loaded.batch_size
    if isinstance(loaded.task, ReadsLines):
        blocks = _lines(loaded.task, arguments.input, size, arguments.skip_bad_lines)
    elif arguments.skip_bad_lines:
        raise SearnnError(f"--skip-bad-lines does not apply here: {loaded.task.name} reads no lines")
    else:
        blocks = _letters(arguments.input, size)
    for block in blocks:
        for line in _answers(loaded, block, beam, arguments.n_best, arguments.scores):
            print(line)
        sys.stdout.flush()
    return 0


Numbered = tuple[int, Any]  # an input's number and its tokens or features; None where it was bad


def _answers(run: Run, block: list[Numbered], beam: int, n_best: int | None, scores: bool) -> Iterator[str]:
    """The lines for a block of inputs."""
    good = [source for _, source in block if source is not None]
    found = run.decode(good, beam=beam, scored=scores) if good else []
    outputs = iter(found)
    nothing: Outputs = [([], float("-inf"))] * beam
    for number, source in block:
        for tokens, score in (next(outputs) if source is not None else nothing)[: n_best or 1]:
            fields = [str(number)] * (n_best is not None) + [run.show(tokens, score)] + [f"{score:.4f}"] * scores
            yield "\t".join(fields)


def _letters(path: Path | None, size: int) -> Iterator[list[Numbered]]:
    """Words of pixels; each has as many cells as letters."""
    if path is None and (sys.stdin is None or sys.stdin.isatty()):
        raise SearnnError("ocr reads pictures of letters: give an .npz or a .png file with --input, or by < FILE")
    words = list(enumerate(read_letters(sys.stdin.buffer, STDIN) if path is None else read_letters(path), 1))
    return (words[start : start + size] for start in range(0, len(words), size))


def _lines(task: ReadsLines, path: Path | None, size: int, skip: bool) -> Iterator[list[Numbered]]:
    """Up to `size` lines at a time as the task reads them: as many as have come, so that a pipe need not end."""
    where = STDIN if path is None else str(path)
    if path is None and sys.stdin is None:
        raise SearnnError(f"{where} is closed: give a file of lines with --input, or by < FILE")
    number = 0
    with cast(BufferedIOBase, sys.stdin.buffer) if path is None else open_content(path) as stream:
        for lines in _arrived(stream):
            for start in range(0, len(lines), size):
                block: list[Numbered] = []
                try:
                    for line in lines[start : start + size]:
                        number += 1
                        block.append((number, _source(task, line, f"{where}, line {number}", skip)))
                except SearnnError:
                    yield block  # what stands before a bad line is answered
                    raise
                yield block
    if not number and path is not None:  # a pipe may have nothing to say
        raise SearnnError(f"{where} is empty: expected a line for each output")


def _source(task: ReadsLines, line: bytes | None, where: str, skip: bool) -> Any:
    """The tokens of a line; None where it is bad and bad lines are left out."""
    try:
        if line is None:
            raise SearnnError(f"it has more than {LONGEST} bytes")
        text = line.decode("utf-8").removeprefix("\ufeff").rstrip("\r")
        if "\0" in text:
            raise SearnnError("it has a NUL")
        return task.read(text)
    except (SearnnError, UnicodeDecodeError) as error:
        if skip:
            return None
        reason = error if isinstance(error, SearnnError) else "it is not UTF-8"
        raise SearnnError(f"{where} is bad: {reason}; mend it, or leave it out with --skip-bad-lines") from error


def _arrived(stream: BufferedIOBase) -> Iterator[list[bytes | None]]:
    """The complete lines that have arrived since the last look, None for one too long to be held; the last line may
    lack its end.
    """
    rest: bytes | None = b""  # of a line whose end has not come; None where it is too long
    while piece := stream.read1(1 << 16):
        first, *others = piece.split(b"\n")
        rest = None if rest is None or len(rest) + len(first) > LONGEST else rest + first
        if others:
            yield [rest, *others[:-1]]
            rest = others[-1]
    if rest is None or rest:
        yield [rest]
