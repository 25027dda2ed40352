"""The records of a run: `metrics.jsonl` with a line per evaluation and, where wanted, the same for TensorBoard."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from searnn import sealed
from searnn.files import advice, append, write
from searnn.training.progress import Record
from searnn.training.saved import Line
from searnn.types import SearnnError

LARGEST = 2**30  # bytes of all records: a million evaluations and more


def read_records(path: Path) -> list[Record]:
    """The lines of a `metrics.jsonl`; what a kill or a power cut has left of the last is passed over."""
    return [record for _, record in _lines(path)]


def _lines(path: Path) -> list[tuple[bytes, Record]]:
    """Every line as it stands there, and what it says."""
    try:
        lines = sealed.read_bytes(path, LARGEST).split(b"\n")[:-1]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise SearnnError(f"cannot read {path}: {(error.strerror or str(error)).lower()}") from None
    if lines and b"\0" in lines[-1]:  # a power cut leaves zeros where the data had not reached the disk
        lines.pop()
    parsed = (sealed.parse(line, Line, f"line {n} of {path}", "remove that line") for n, line in enumerate(lines, 1))
    return [(line, record.model_dump(exclude_unset=True)) for line, record in zip(lines, parsed, strict=True)]


class Records:
    """Adds lines to `metrics.jsonl`; begins with those up to step `keep`, as if the later ones had never been made."""

    def __init__(self, folder: Path, keep: int, tensorboard: bool) -> None:
        self.path = folder / "metrics.jsonl"
        self.board = _open_board(folder / "tensorboard", keep) if tensorboard else None
        kept = [(line, record) for line, record in _lines(self.path) if record["step"] <= keep]
        if keep >= 0 and self.path.exists() and (not kept or kept[-1][1]["step"] != keep):
            told = "restore it from a copy, or remove it to go on without the records so far"
            raise SearnnError(f"{self.path} is damaged, the record of step {keep} is lost: {told}")
        text = b"".join(line + b"\n" for line, _ in kept)
        if not self.path.exists() or self.path.read_bytes() != text:
            write(self.path, text)

    def append(self, record: Mapping[str, int | float | str]) -> Record:
        """Add a line, safe on the disk when this returns; what is not finite is written as null."""
        clean: Record = {
            name: value if isinstance(value, str) or math.isfinite(value) else None for name, value in record.items()
        }
        try:
            append(self.path, _line(clean).encode())
        except OSError as error:
            raise SearnnError(f"cannot write {self.path}: {advice(error)}") from None
        if self.board is not None:
            for name, value in clean.items():
                if name != "step" and isinstance(value, (int, float)):
                    self.board.add_scalar(name, value, clean["step"])
            self.board.flush()
        return clean

    def close(self) -> None:
        """Close what is open."""
        if self.board is not None:
            self.board.close()


def _line(record: Record) -> str:
    return sealed.text_of(record) + "\n"


def _open_board(folder: Path, keep: int) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise SearnnError('tensorboard is not installed: pip install "searnn[tensorboard]", or leave it out') from None
    return SummaryWriter(str(folder), purge_step=keep + 1)  # type: ignore[no-untyped-call,unused-ignore]
