"""The records of a run: `metrics.jsonl` with a line per evaluation and, where wanted, the same for TensorBoard."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from searnn.files import advice, append, write
from searnn.training.progress import Record
from searnn.types import SearnnError


def read_records(path: Path) -> list[Record]:
    """The lines of a `metrics.jsonl`; what a kill or a power cut has left of the last is passed over."""
    try:
        lines = path.read_bytes().split(b"\n")
    except FileNotFoundError:
        return []
    except OSError as error:
        raise SearnnError(f"cannot read {path}: {(error.strerror or str(error)).lower()}") from None
    records = []
    for number, line in enumerate(lines[:-1], start=1):
        try:
            record = json.loads(line)
            record["step"] += 0
        except (ValueError, KeyError, TypeError):
            if number == len(lines) - 1:
                break
            raise SearnnError(f"line {number} of {path} is damaged: remove that line") from None
        records.append(record)
    return records


class Records:
    """Adds lines to `metrics.jsonl`; begins with those up to step `keep`, as if the later ones had never been made."""

    def __init__(self, folder: Path, keep: int, tensorboard: bool) -> None:
        self.path = folder / "metrics.jsonl"
        self.board = _open_board(folder / "tensorboard", keep) if tensorboard else None
        kept = [record for record in read_records(self.path) if (record["step"] or 0) <= keep]
        if keep >= 0 and self.path.exists() and (not kept or kept[-1]["step"] != keep):
            told = "restore it from a copy, or remove it to go on without the records so far"
            raise SearnnError(f"{self.path} is damaged, the record of step {keep} is lost: {told}")
        text = "".join(map(_line, kept)).encode()
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
    return json.dumps(record, allow_nan=False) + "\n"


def _open_board(folder: Path, keep: int) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise SearnnError('tensorboard is not installed: pip install "searnn[tensorboard]", or leave it out') from None
    return SummaryWriter(str(folder), purge_step=keep + 1)  # type: ignore[no-untyped-call,unused-ignore]
