"""Disks that cannot be written or are full: one clear line, and nothing lost or half written."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from tiny import Refused, contents, copy_flags

from searnn import SearnnError
from searnn.cli import main
from searnn.config import files
from searnn.training import checkpoints


def mount(folder: Path, options: str) -> Iterator[Path]:
    """A small file system in memory, where the machine lets us have one."""
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        pytest.skip("there is no mount command")
    if done.returncode:
        pytest.skip(f"cannot mount a small file system: {done.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


@pytest.fixture
def read_only(tmp_path: Path) -> Iterator[Path]:
    yield from mount(tmp_path / "read-only", "ro,size=64k")


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    yield from mount(tmp_path / "small", "size=64k")


@pytest.fixture
def larger_disk(tmp_path: Path) -> Iterator[Path]:
    yield from mount(tmp_path / "larger", "size=256k")


def test_a_disk_that_cannot_be_written(read_only: Path, refused: Refused):
    assert "read-only/run: read-only file system; choose a folder" in refused(*copy_flags(read_only / "run"))


def test_a_disk_that_is_full_from_the_start(small_disk: Path, refused: Refused):
    message = refused(*copy_flags(small_disk / "run"), "--width", "100")
    assert "no space left on device" in message
    assert list(small_disk.iterdir()) == []


def test_a_disk_without_room_for_the_settings(small_disk: Path, refused: Refused):
    (small_disk / "ballast").write_bytes(bytes(60 * 1024))
    assert main(copy_flags(small_disk / "run")) == 2
    (small_disk / "ballast").write_bytes(bytes(64 * 1024))
    assert "no space left on device" in refused(*copy_flags(small_disk / "run"))
    assert [path.name for path in small_disk.iterdir()] == ["ballast"]


def test_a_disk_that_fills_while_training(larger_disk: Path, capsys: pytest.CaptureFixture[str], monkeypatch):
    """The last good checkpoint stays whole, and with space again the run goes on."""
    from searnn.training.records import Records

    run = larger_disk / "run"
    append = Records.append

    def fill(self: Records, record: dict[str, float]) -> object:
        if record["step"] == 4:
            with (larger_disk / "ballast").open("wb", buffering=0) as ballast, suppress(OSError):
                while ballast.write(bytes(1024)):  # whatever is left
                    pass
        return append(self, record)

    monkeypatch.setattr(Records, "append", fill)
    assert main([*copy_flags(run), "--steps", "6"]) == 2
    err = capsys.readouterr().err
    assert "searnn: error: " in err
    assert "no space left on device" in err
    assert "Traceback" not in err
    assert checkpoints.load(run / "last")[1]["counters"]["step"] == 2
    assert main(["eval", str(run)]) == 0
    monkeypatch.undo()
    (larger_disk / "ballast").unlink()
    assert main(["train", "copy", "--run", str(run), "--resume"]) == 0
    assert checkpoints.load(run / "last")[1]["counters"]["step"] == 6


def test_settings_are_written_whole_or_not_at_all(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    path = tmp_path / "config.toml"
    path.write_text("old")

    def full(handle: int) -> None:
        raise OSError(28, "no space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(SearnnError, match=r"config.toml: no space left.*try again"):
        files.write(files.from_flags({"name": "copy"}), path)
    assert contents(tmp_path) == {"config.toml": b"old"}
