"""An empty place for data, and ways to put files into it or to fail at that, for tests of the store."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from searnn.data import fetch, store
from searnn.types import SearnnError


def put(path: Path, content: bytes) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path


def fail(target: Path) -> None:
    raise SearnnError("the line is dead")


def serve(monkeypatch: pytest.MonkeyPatch, functions: Mapping[str, Any]) -> None:
    """What stands at the address `test:NAME` is what the function of this name writes to the path that it is given."""

    def bring(way: fetch.Way, target: str, watch: fetch.Watch) -> None:
        functions[way.address.removeprefix("test:")](Path(target))

    monkeypatch.setitem(fetch.DOWNLOADERS, "test", bring)


def empty_places(root: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[Path, Path]:
    """An empty SEARNN_DATA and the place of a cache that is not there yet."""
    given, cache = root / "given", root / "cache" / "searnn"
    given.mkdir()
    monkeypatch.setenv("SEARNN_DATA", str(given))
    monkeypatch.setattr(store, "cache_folder", lambda: cache)
    return given, cache
