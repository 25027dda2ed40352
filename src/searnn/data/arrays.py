"""Arrays of an `.npz`, which may come from anybody: only what is asked for is unpacked, and no more than it says."""

from __future__ import annotations

import io
import math
import zipfile
from collections.abc import Iterable
from typing import Any

import numpy as np

from searnn.data.reading import one_line
from searnn.types import SearnnError

LARGEST = 256_000_000  # bytes of an array
MEMBERS = 1000  # of an archive
MEMBER = b"PK\1\2"  # how each begins in the archive's directory
HEADER = 4096  # bytes: more than the header of any array of plain numbers has
PACKED = {zipfile.ZIP_STORED: "as it is", zipfile.ZIP_DEFLATED: "deflated"}  # others cannot be unpacked bit by bit
HEADERS = {(1, 0): np.lib.format.read_array_header_1_0, (2, 0): np.lib.format.read_array_header_2_0}


def plain_arrays(content: bytes, where: str, wanted: Iterable[str]) -> dict[str, Any]:
    """Those of the arrays that are there, of which nothing else is read; `where` names the file in messages.

    None of them may be larger than `LARGEST`, and what would run code to be read is refused.
    """
    with _opened(content, where) as archive:
        try:
            there = set(archive.namelist())
            return {name: _read(archive, name, where) for name in wanted if f"{name}.npy" in there}
        except SearnnError:
            raise
        except Exception as error:  # a damaged archive fails in many ways, and all mean the same
            raise SearnnError(f"{where} is damaged or cut short ({one_line(error)})") from error


def names_of(content: bytes, where: str) -> list[str]:
    """What the arrays of an `.npz` are called."""
    with _opened(content, where) as archive:
        return sorted(name.removesuffix(".npy") for name in archive.namelist())


def _opened(content: bytes, where: str) -> zipfile.ZipFile:
    """The archive, of which nothing but its directory is read."""
    if content.count(MEMBER) > MEMBERS:
        raise SearnnError(f"{where} has more than {MEMBERS} arrays: it cannot be what is asked for")
    try:
        return zipfile.ZipFile(io.BytesIO(content))
    except Exception as error:
        raise SearnnError(f"{where} is damaged or cut short ({one_line(error)})") from error


def _read(archive: zipfile.ZipFile, name: str, where: str) -> Any:
    """One array, of which the directory, the header and the bytes must say the same."""
    about = archive.getinfo(f"{name}.npy")
    if about.compress_type not in PACKED:
        raise SearnnError(f"{where}: {name} is packed in an unusual way, expected {' or '.join(PACKED.values())}")
    with archive.open(about) as member:
        start = io.BytesIO(member.read(HEADER))
        if not start.getvalue().startswith(np.lib.format.MAGIC_PREFIX):
            raise SearnnError(f"{where}: {name} is no array but something else, as a pickle: nothing of it was read")
        version = np.lib.format.read_magic(start)
        if version not in HEADERS:
            raise SearnnError(f"{where}: {name} has a header of version {version}, expected one of plain numbers")
        shape, by_columns, kind = HEADERS[version](start)
        told = f"{where}: {name} is {one_line(kind)} {one_line(list(shape))}"
        if kind.kind not in "biuf":
            objects = "Python objects" if kind.hasobject else one_line(kind)
            raise SearnnError(f"{where}: {name} holds {objects}, expected plain numbers: nothing of it was read")
        size = math.prod(shape) * kind.itemsize  # in Python's numbers, which do not wrap
        if min(shape, default=0) < 0 or size > LARGEST:
            raise SearnnError(f"{told}, expected at most {LARGEST:,} bytes: cut it into several files")
        begun = start.read()
        # One byte more than there should be: so the end is reached, where the archive's own check is made.
        content = bytearray(begun)  # which, unlike bytes, makes an array that can be written to, as torch wants it
        content += member.read(max(0, size - len(begun)) + 1)
    if len(content) != size or about.file_size != start.tell() - len(begun) + size:
        raise SearnnError(f"{told}, which is not what is there: the file is damaged")
    return np.frombuffer(content, kind).reshape(shape, order="F" if by_columns else "C")
