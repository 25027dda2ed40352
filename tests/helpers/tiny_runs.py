"""Finished tiny runs for tests that damage, resume or misuse them."""

from __future__ import annotations

from pathlib import Path

from tiny import copy_flags, ocr_flags, pairs_flags, tiny_letters

from searnn.cli import main


def finished_runs(folder: Path) -> Path:
    """A finished run of each kind: of letters, of the toy and of pairs."""
    assert main(ocr_flags(tiny_letters(folder / "letters.npz"), folder / "ocr")) == 0
    assert main(copy_flags(folder / "copy")) == 0
    assert main([*pairs_flags(folder, folder / "pairs"), "--algorithm", "mle", "--max-length", "9"]) == 0
    return folder
