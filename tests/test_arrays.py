"""An `.npz` from anybody: nothing of it is run, and no more is unpacked than what is asked for and bearable."""

from __future__ import annotations

import io
import os
import pickle
import struct
import tracemalloc
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from searnn.data import letters, sheets
from searnn.data.arrays import LARGEST, MEMBERS, plain_arrays
from searnn.data.sheets import read_letters
from searnn.types import SearnnError

BOMB = 3_000_000_000  # bytes of zeros
INK = np.random.default_rng(0).integers(0, 2, (3, 128)).astype(np.uint8)


def header(shape: tuple[int, ...], kind: str = "|u1", version: tuple[int, int] = (1, 0)) -> bytes:
    """How an array begins."""
    text = f"{{'descr': {kind!r}, 'fortran_order': False, 'shape': {shape!r}, }}\n".encode("latin1")
    size = struct.pack("<H" if version == (1, 0) else "<I", len(text))
    return b"\x93NUMPY" + bytes(version) + size + text


def zeros(begin: bytes, count: int) -> tuple[bytes, int, int]:
    """Bytes and very many zeros, deflated; with their size and their check sum."""
    once = bytes(1_000_000)
    packer, check = zlib.compressobj(wbits=-15), zlib.crc32(begin)
    packed = packer.compress(begin) + packer.flush(zlib.Z_FULL_FLUSH)
    block = packer.compress(once) + packer.flush(zlib.Z_FULL_FLUSH)
    for _ in range(count // len(once)):
        check = zlib.crc32(once, check)
    blocks = [packed, block * (count // len(once)), packer.flush()]
    return b"".join(blocks), len(begin) + count, check


def archive(**members: bytes | tuple[bytes, int, int]) -> bytes:
    """An `.npz` of members as they are, or as `zeros` makes them."""
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as made:
        for name, content in members.items():
            made.writestr(f"{name}.npy", content if isinstance(content, bytes) else content[0])
            if not isinstance(content, bytes):
                about = made.getinfo(f"{name}.npy")
                about.compress_type, about.file_size, about.CRC = zipfile.ZIP_DEFLATED, *content[1:]
    return stream.getvalue()


def array(values: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.save(stream, values)
    return stream.getvalue()


@contextmanager
def little_memory(most: int = 20_000_000) -> Iterator[None]:
    tracemalloc.start()
    try:
        yield
        assert tracemalloc.get_traced_memory()[1] < most
    finally:
        tracemalloc.stop()


def refused(content: bytes, message: str) -> None:
    """By what reads a user's letters and by what reads the data set, with one line and little memory."""
    for read in (lambda: read_letters(io.BytesIO(content), "here"), lambda: letters.parse_npz(content, "here.npz")):
        with little_memory(), pytest.raises(SearnnError, match=message) as caught:
            read()
        assert "\n" not in str(caught.value)
        assert str(caught.value).startswith("here")
        assert len(str(caught.value)) < 500


def test_an_array_that_nobody_asks_for_is_not_unpacked() -> None:
    bomb = zeros(header((BOMB,)), BOMB)
    content = archive(pixels=array(INK), notes=bomb, other=pickle.dumps(print))
    assert len(content) < 10_000_000
    with little_memory(2 * len(content)):
        (word,) = read_letters(io.BytesIO(content))
        with pytest.raises(SearnnError, match="here has the arrays a, expected 'pixels'"):
            read_letters(io.BytesIO(archive(a=bomb)), "here")
    np.testing.assert_array_equal(word, INK)


@pytest.mark.parametrize(
    ("shape", "count", "message"),
    [
        ((BOMB // 128, 128), BOMB, r"is uint8 \[23437500, 128\], expected at most 256,000,000 bytes"),
        ((3, 128), BOMB, r"is uint8 \[3, 128\], which is not what is there: the file is damaged"),
        ((LARGEST // 128, 128), 1_000_000, "not what is there"),  # it is said to be larger than it is
        ((2**33, 2**33), 1_000_000, "expected at most"),  # whose product is 4 where numbers wrap
        ((2**40, 2**24, 128), 0, "expected at most"),  # 0
        ((-3, -128), 1_000_000, "expected at most"),
        ((2**64, 0), 0, "damaged"),
        ((int("9" * 4000), 2), 0, "expected at most|damaged"),
    ],
)
def test_a_bomb_in_an_array_that_is_asked_for(shape: tuple[int, ...], count: int, message: str) -> None:
    bomb = zeros(header(shape), count)
    refused(archive(pixels=bomb, pixels_packed=bomb), message)


def test_a_bomb_that_the_directory_plays_down() -> None:
    packed, _, check = zeros(header((3, 128)), BOMB)
    bomb = (packed, len(header((3, 128))) + 384, check)
    refused(archive(pixels=bomb, pixels_packed=bomb), "damaged or cut short .*CRC")


class Malice:
    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, (f"touch {self.path}",)


def test_nothing_is_run(tmp_path: Path) -> None:
    mark = tmp_path / "run"
    content = pickle.dumps(Malice(mark))
    refused(archive(pixels=content, pixels_packed=content), "no array but something else, as a pickle")
    objects = np.empty(3, object)
    objects[:] = [Malice(mark)] * 3
    content = array(objects)
    refused(archive(pixels=content, pixels_packed=content), "holds Python objects, expected plain numbers")
    assert not mark.exists()
    np.load(io.BytesIO(content), allow_pickle=True)
    assert mark.exists()  # the content really was malicious


FORMS: dict[str, tuple[Callable[[], bytes], str]] = {
    "structure": (lambda: array(np.zeros(3, [("a", "u1"), ("b", "O")])), "Python objects"),
    "text": (lambda: array(np.array(["a", "b"])), "holds <U1, expected plain numbers"),
    "complex": (lambda: array(np.zeros((2, 128), complex)), "holds complex128"),
    "nested": (lambda: header((3,), "u1").replace(b"(3,)", b"(" * 3000), "damaged or cut short"),
    "long header": (lambda: b"\x93NUMPY\2\0" + struct.pack("<I", 2**32 - 1) + b" " * 9_000_000, "damaged or cut short"),
    "version": (lambda: header((3,), version=(9, 0)), r"header of version \(9, 0\)"),
    "empty": (lambda: b"", "no array but something else"),
    "header alone": (lambda: header((3, 128)), "not what is there"),
    "longer": (lambda: array(INK) + b"x", "not what is there"),
    "code": (lambda: header((3,), "u1").replace(b"(3,)", b"print(3)"), "damaged or cut short"),
}


@pytest.mark.parametrize("form", FORMS)
def test_what_is_no_array_of_plain_numbers(form: str) -> None:
    make, message = FORMS[form]
    refused(archive(pixels=make(), pixels_packed=make()), message)


@pytest.mark.parametrize("way", [zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
def test_ways_of_packing_that_unpack_without_bound(way: int) -> None:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w", way) as made:
        for name in ("pixels", "pixels_packed"):
            made.writestr(f"{name}.npy", header((3, 128)) + bytes(384))
    refused(stream.getvalue(), "is packed in an unusual way, expected as it is or deflated")


def test_very_many_members() -> None:
    stream = io.BytesIO()
    with zipfile.ZipFile(stream, "w") as made:
        for number in range(MEMBERS + 1):
            made.writestr(str(number), b"")
    refused(stream.getvalue(), f"more than {MEMBERS} arrays")


def test_numbers_of_every_kind_and_order_are_read(tmp_path: Path) -> None:
    values = np.arange(24).reshape(2, 3, 4)
    made = {name: values.astype(name) for name in ("bool", "int8", "uint64", "float16", "float64", ">i4")}
    made |= {"columns": np.asfortranarray(values), "empty": values[:0], "scalar": np.array(7)}
    for save in (np.savez, np.savez_compressed):
        save(tmp_path / "it.npz", **made)
        found = plain_arrays((tmp_path / "it.npz").read_bytes(), "here", [*made, "none"])
        assert found.keys() == made.keys()
        for name, values in made.items():
            np.testing.assert_array_equal(found[name], values)
            assert found[name].dtype == values.dtype
            assert found[name].flags.writeable


@pytest.mark.parametrize(
    "lengths",
    [
        np.array([2**64 - 1, 4], np.uint64),  # 3 where numbers wrap
        np.array([2**63, 2**63, 3], np.uint64),
        np.array([2**63 - 1, 2**63 - 1, 5], np.int64),
        np.array([1, 1, 1, 0], np.uint64),
        np.array([-1, 4]),
        np.array([], np.uint8),
        np.ones(1_000_000, np.uint8),
    ],
)
def test_lengths_of_words_are_bounded(lengths: np.ndarray) -> None:
    content = archive(pixels=array(INK), word_lengths=array(lengths))
    with little_memory(), pytest.raises(SearnnError, match=r"expected positive integers that add up to the 3 letters"):
        read_letters(io.BytesIO(content))
    packed = {"pixels_packed": array(np.packbits(INK, axis=1)), "labels": array(np.zeros(3, int))}
    whole = archive(**packed, word_lengths=array(lengths), folds=array(np.zeros(len(lengths), int)))
    with little_memory(50_000_000), pytest.raises(SearnnError):
        letters.parse_npz(whole, "here")


def test_more_letters_than_a_file_may_have(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sheets, "MOST", 2)
    with pytest.raises(SearnnError, match="pixels holds 3 entries, expected at most 2"):
        read_letters(io.BytesIO(archive(pixels=array(INK))))
    image = pytest.importorskip("PIL.Image")
    image.new("L", (80, 160)).save(tmp_path / "sheet.png")
    with pytest.raises(SearnnError, match=r"sheet.png is 80 wide and 160 high, more than 2 letters"):
        read_letters(tmp_path / "sheet.png")


def test_a_file_that_has_no_end(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    class Endless(io.RawIOBase):
        def readinto(self, room: memoryview) -> int:  # type: ignore[override]
            room[:2] = b"PK"
            return len(room)

        def readable(self) -> bool:
            return True

    monkeypatch.setattr(sheets, "LARGEST", 1_000_000)
    monkeypatch.setattr(letters, "LARGEST", 1_000_000)
    with little_memory(), pytest.raises(SearnnError, match=r"^the input is larger than 1,000,000 bytes"):
        read_letters(io.BufferedReader(Endless()))
    for name in ("it.npz", "it.gz", "it.png"):
        (tmp_path / name).write_bytes(b"\x1f\x8b" + bytes(2_000_000))
        read = read_letters if name != "it.gz" else letters.read
        with little_memory(), pytest.raises(SearnnError, match=rf"{name} is larger than 1,000,000 bytes"):
            read(tmp_path / name)
    packer = zlib.compressobj(wbits=31)
    packed = packer.compress(bytes(50_000_000)) + packer.flush()
    with little_memory(), pytest.raises(SearnnError, match=r"here.gz is larger than 1,000,000 bytes"):
        letters.parse(packed, "here.gz")
