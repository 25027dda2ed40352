"""An empty place for data, and ways to put files into it or to fail at that, for tests of the store."""

from pathlib import Path

import pytest

from searnn.data import store
from searnn.data.fetch import Work
from searnn.types import SearnnError


def put(path: Path, content: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def fail(work: Work, target: Path) -> None:
    raise SearnnError("the line is dead")


def empty_places(root: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """An empty SEARNN_DATA and the place of a cache that is not there yet."""
    given, cache = root / "given", root / "cache" / "searnn"
    given.mkdir()
    monkeypatch.setenv("SEARNN_DATA", str(given))
    monkeypatch.setattr(store, "cache_folder", lambda: cache)
    return given, cache
