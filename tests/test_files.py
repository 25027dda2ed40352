"""Files are replaced whole or not at all, and what goes wrong is told in one line."""

from __future__ import annotations

import errno
import os
from pathlib import Path

import pytest

from searnn import files
from searnn.types import SearnnError


def test_a_file_and_its_folder_are_made_and_replaced(tmp_path: Path) -> None:
    path = tmp_path / "new" / "deep" / "file.txt"
    for content in (b"one", b"other"):
        files.write(path, content)
        assert path.read_bytes() == content
        assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize("operation", ["fsync", "replace"])
@pytest.mark.parametrize(
    ("number", "words"),
    [(errno.ENOSPC, "free some space there and try again"), (errno.EACCES, "a folder you may write")],
)
def test_what_cannot_be_written_leaves_the_old_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, operation: str, number: int, words: str
) -> None:
    path = tmp_path / "file.txt"
    path.write_bytes(b"old")

    def fail(*_: object) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, operation, fail)
    with pytest.raises(SearnnError, match=f"^cannot write {path}: .*{words}"):
        files.write(path, b"new")
    assert {each.name: each.read_bytes() for each in tmp_path.iterdir()} == {"file.txt": b"old"}
