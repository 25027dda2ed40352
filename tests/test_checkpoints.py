"""Checkpoints: complete at every instant, checked when read, and never at the cost of the one before."""

from __future__ import annotations

import errno
import json
import os
import shutil
import stat
import subprocess
import threading
from pathlib import Path

import pytest
import torch
from disk_events import Disk, after_cuts, laid_out, recorded
from training_cases import make_model, same, weights

from searnn import sealed
from searnn.training import checkpoints, load_model
from searnn.types import SearnnError

# Newer Pythons warn of forking beside threads; the children here only save or train and end by os._exit or a signal.
pytestmark = pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")


def tensors_of(number: int) -> dict[str, torch.Tensor]:
    return {"a": torch.full((50, 40), float(number)), "b": torch.tensor(number)}


def save(folder: Path, number: int) -> None:
    checkpoints.save(folder, tensors_of(number), {"number": number})


def number_in(folder: Path) -> int:
    """Which of the saves is there; whole, or this fails."""
    tensors, meta = checkpoints.load(folder)
    assert same(tensors, tensors_of(meta["number"]))
    return meta["number"]


def one_line(error: pytest.ExceptionInfo[SearnnError]) -> str:
    assert "\n" not in str(error.value)
    return str(error.value)


def test_what_is_saved_is_loaded(tmp_path: Path) -> None:
    whole = torch.randn(6, 4)
    tensors = {
        "plain": whole,
        "tied": whole,
        "view": whole.t()[1:],
        "double": torch.randn(3, dtype=torch.float64),
        "half": torch.randn(3).bfloat16(),
        "count": torch.tensor(7),
        "flags": torch.tensor([True, False]),
        "empty": torch.zeros(0, 2),
    }
    meta = {"step": 3, "metric": 0.1 + 0.2, "nothing": None, "deep": {"list": [1, 2]}}
    checkpoints.save(tmp_path / "deep" / "last", tensors, meta)
    loaded, found = checkpoints.load(tmp_path / "deep" / "last")
    assert same(loaded, tensors)
    assert found == meta


def test_a_save_leaves_nothing_of_the_one_before(tmp_path: Path) -> None:
    for number in range(3):
        save(tmp_path, number)
    (tmp_path / "tensors-000000000000.safetensors").write_bytes(b"left by a killed save")
    (tmp_path / "state.json.new").write_bytes(b"likewise")
    (tmp_path / "notes.txt").write_text("the user's own")
    save(tmp_path, 3)
    assert number_in(tmp_path) == 3
    names = sorted(path.name for path in tmp_path.iterdir())
    assert names[:2] == ["notes.txt", "state.json"]
    assert len(names) == 3


def crash_at(call: int, folder: Path, after: bool) -> bool:
    """Save in a child that dies at its `call`-th operation on files; whether it died."""
    child = os.fork()
    if child == 0:
        seen = 0

        def dying(name: str) -> None:
            real = getattr(os, name)

            def operation(*arguments: object, **named: object) -> object:
                nonlocal seen
                seen += 1
                if seen == call and not after:
                    if name == "fsync" and stat.S_ISREG(os.fstat(arguments[0]).st_mode):
                        os.ftruncate(arguments[0], os.fstat(arguments[0]).st_size // 2)  # not all had reached the disk
                    os._exit(9)
                try:
                    return real(*arguments, **named)
                finally:
                    if seen == call:
                        os._exit(9)

            setattr(os, name, operation)

        for name in ("open", "fsync", "replace", "unlink", "mkdir"):
            dying(name)
        try:
            save(folder, 2)
        finally:
            os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9


@pytest.mark.parametrize("after", [False, True])
def test_a_kill_at_any_operation_leaves_the_old_or_the_new_whole(tmp_path: Path, after: bool) -> None:
    found = []
    for call in range(1, 100):
        folder = tmp_path / str(call)
        save(folder, 1)
        (folder / "tensors-111111111111.safetensors").write_bytes(b"left by a killed save")
        died = crash_at(call, folder, after)
        found.append(number_in(folder))
        save(folder, 3)
        assert number_in(folder) == 3
        assert len(list(folder.iterdir())) == 2
        if not died:
            break
    assert len(found) > 8, "the operations were not intercepted"
    assert found == sorted(found), "old first, new from one operation on"
    assert found[0] == 1
    assert found[-1] == 2


def test_a_kill_in_the_first_save_leaves_no_checkpoint_or_a_whole_one(tmp_path: Path) -> None:
    outcomes = set()
    for call in range(1, 100):
        folder = tmp_path / str(call)
        died = crash_at(call, folder, after=False)
        outcomes.add(number_in(folder) if checkpoints.exists(folder) else None)
        if not died:
            break
    assert outcomes == {None, 2}


def test_a_power_cut_after_a_kill_leaves_a_checkpoint_whole(tmp_path: Path) -> None:
    """What the next process finds may not be safe yet: it relies on nothing of that."""
    disk, place, left_of = tmp_path / "disk", tmp_path / "disk" / "last", tmp_path / "left"
    disk.mkdir()
    save(place, 1)
    begun = recorded(lambda: (shutil.rmtree(place), save(place, 1), save(place, 2)))
    saved = next(number for number, change in enumerate(begun) if change[0] == "remove")  # of the first, by the second
    for kill in range(len(begun)):
        shutil.rmtree(disk)
        there = Disk(disk)
        for change in begun[:kill]:
            there.do(*change)
        laid_out(there.contents(), disk)
        changes = [*begun[:kill], *recorded(lambda: save(place, 3))]
        for number, where, left in after_cuts(disk, changes, (0.0, 0.5, 0.5, 0.5, 1.0)):
            if number < kill:
                continue
            laid_out(left, left_of)
            if kill > saved or checkpoints.exists(left_of / "last"):
                assert number_in(left_of / "last") in ((3,) if number == len(changes) else (1, 2, 3)), (kill, where)
            assert number < len(changes) or checkpoints.exists(left_of / "last"), kill
            shutil.rmtree(left_of)


def test_reading_while_another_saves(tmp_path: Path) -> None:
    save(tmp_path, 0)
    done = threading.Event()

    def write() -> None:
        for number in range(1, 40):
            save(tmp_path, number)
        done.set()

    writer = threading.Thread(target=write)
    writer.start()
    seen = []
    while not done.is_set():
        seen.append(number_in(tmp_path))
    writer.join()
    assert seen == sorted(seen)
    assert len(set(seen)) > 3


def test_a_damaged_file_is_refused(tmp_path: Path) -> None:
    save(tmp_path, 1)
    path = next(tmp_path.glob("*.safetensors"))
    data = path.read_bytes()
    flipped = bytearray(data)
    flipped[-5] ^= 1
    for damaged in (b"", data[:7], data[:100], data[:-1], data + b"\0", bytes(flipped)):
        path.write_bytes(damaged)
        with pytest.raises(SearnnError, match=r"damaged.*restore it") as error:
            checkpoints.load(tmp_path)
        assert str(path) in one_line(error)
    path.unlink()
    with pytest.raises(SearnnError, match=f"{path.name} is missing"):
        checkpoints.load(tmp_path)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"format": 1}', "\x00" * 40])
def test_a_damaged_state_is_refused(tmp_path: Path, text: str) -> None:
    save(tmp_path, 1)
    (tmp_path / "state.json").write_text(text)
    with pytest.raises(SearnnError, match=r"state\.json is damaged.*train anew") as error:
        checkpoints.load(tmp_path)
    one_line(error)


def test_a_checkpoint_of_a_later_format_is_refused(tmp_path: Path) -> None:
    save(tmp_path, 1)
    state = tmp_path / "state.json"
    said = json.loads(state.read_text())
    del said["checksum"]
    state.write_text(sealed.text_of({**said, "format": 2, "unheard-of": []}))
    with pytest.raises(SearnnError, match="has format 2, expected 1"):
        checkpoints.load(tmp_path)


def test_a_missing_checkpoint_is_named(tmp_path: Path) -> None:
    with pytest.raises(SearnnError, match=r"no such folder.*give the folder") as error:
        checkpoints.load(tmp_path / "none")
    assert str(tmp_path / "none") in one_line(error)
    with pytest.raises(SearnnError, match=r"state\.json is missing"):
        checkpoints.load(tmp_path)


def test_another_model_is_refused_by_its_first_tensor(tmp_path: Path) -> None:
    small, large = make_model(width=8), make_model(width=12)
    checkpoints.save(tmp_path, {f"model.{name}": value for name, value in small.state_dict().items()}, {})
    before = {name: value.clone() for name, value in large.state_dict().items()}
    with pytest.raises(SearnnError, match="is of another model") as error:
        load_model(tmp_path, large)
    name, shape = next((name, list(v.shape)) for name, v in small.state_dict().items() if v.shape != before[name].shape)
    assert f"model.{name} is {shape} there and {list(before[name].shape)} in this model" in one_line(error)
    assert same(large.state_dict(), before)
    deep = torch.nn.Sequential(torch.nn.Linear(2, 2))
    with pytest.raises(SearnnError, match=r"model\.0\.weight is missing there and \[2, 2\] in this model"):
        load_model(tmp_path, deep)
    other = make_model(width=8, seed=5)
    load_model(tmp_path, other)
    assert same(other.state_dict(), small.state_dict())


@pytest.mark.parametrize(
    ("number", "words"),
    [(errno.ENOSPC, "no space left.*free some space"), (errno.EACCES, "permission denied.*may write to")],
)
@pytest.mark.parametrize("operation", ["fsync", "replace"])
def test_a_failed_write_keeps_the_checkpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: int, words: str, operation: str
) -> None:
    save(tmp_path, 1)
    real, left = getattr(os, operation), [0]

    def failing(*arguments: object) -> object:
        left[0] -= 1
        if left[0] == 0:
            raise OSError(number, os.strerror(number))
        return real(*arguments)

    for call in (1, 2):  # the file of tensors, then the state or the folder
        left[0] = call
        monkeypatch.setattr(os, operation, failing)
        with pytest.raises(SearnnError, match=words) as error:
            save(tmp_path, 2)
        monkeypatch.setattr(os, operation, real)
        assert str(tmp_path) in one_line(error)
        assert "unharmed" in str(error.value)
        assert number_in(tmp_path) == 1
        assert len(list(tmp_path.iterdir())) == 2
    save(tmp_path, 3)
    assert number_in(tmp_path) == 3


def test_a_folder_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(SearnnError, match=r"not a directory.*may write to") as error:
        save(tmp_path / "file" / "last", 1)
    assert "unharmed" not in one_line(error)


def test_a_disk_that_really_fills(tmp_path: Path) -> None:
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", str(tmp_path)], capture_output=True)
    if mounted.returncode:
        pytest.skip("a small tmpfs cannot be mounted here")
    try:
        folder = tmp_path / "last"
        save(folder, 1)
        large = {"a": torch.zeros(50, 400)}
        with pytest.raises(SearnnError, match=r"no space left.*unharmed"):
            checkpoints.save(folder, large, {"number": 2})
        assert number_in(folder) == 1
        save(folder, 2)
        assert number_in(folder) == 2
    finally:
        subprocess.run(["umount", str(tmp_path)], check=True)


def test_nothing_is_unpickled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import pickle

    save(tmp_path, 1)

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("unpickled")

    for name in ("load", "loads", "Unpickler"):
        monkeypatch.setattr(pickle, name, refuse)
    monkeypatch.setattr(torch, "load", refuse)
    assert weights(tmp_path)["b"] == 1
