"""Letters given by a user: as arrays in an `.npz`, or as a sheet of letters in a PNG."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from jaxtyping import Float32

from searnn.data.arrays import LARGEST, names_of, plain_arrays
from searnn.data.reading import one_line, read_file, read_most
from searnn.types import SearnnError

HEIGHT, WIDTH = 16, 8
MOST = 1_000_000  # letters of a file
NPZ, PNG = b"PK", b"\x89PNG"  # how such files begin


def read_letters(
    source: str | Path | BinaryIO | io.BufferedIOBase, where: str = "the input"
) -> list[Float32[np.ndarray, "_ 128"]]:
    """Words to be read, each an array of letters `[S, 128]` with ink 1 and paper 0.

    They stand in a file, whose name says which kind it is, or come from a stream of bytes, whose beginning says it;
    `where` names the stream in messages.

    An `.npz` holds `pixels`, `[N, 16, 8]` or `[N, 128]` with values 0 to 1, or `pixels_packed` `[N, 16]` as in the
    data set; `word_lengths` cuts the letters into words, without it they are one.

    A `.png` is a sheet of tiles 8 wide and 16 high without gaps: a row of tiles is a word, which blank tiles may
    follow, and rows without a letter are skipped. Ink may be dark on white or white on black: the shade that most
    pixels of the sheet have is the paper. Shades are cut in the middle.
    """
    if not isinstance(source, (str, Path)):
        content = read_most(source.read, where, LARGEST)
        if not content.startswith((NPZ, PNG)):
            found = "neither an .npz nor a PNG" if content else "empty"
            raise SearnnError(f"{where} is {found}: give an .npz or a .png file with letters")
        return _read_arrays(content, where) if content.startswith(NPZ) else _read_sheet(content, where)
    path = Path(source)
    if path.suffix.lower() not in (".npz", ".png"):
        raise SearnnError(f"{path} cannot be read as letters: expected an .npz or a .png file")
    if not path.is_file():
        raise SearnnError(f"{path} is not there: give an .npz or a .png file with letters")
    read = _read_arrays if path.suffix.lower() == ".npz" else _read_sheet
    return read(read_file(path, LARGEST), str(path))


def write_sheet(words: Sequence[Float32[np.ndarray, "_ 128"]], path: str | Path) -> None:
    """Write words as a sheet that `read_letters` reads: a row of tiles per word, dark ink on white."""
    if not words or not all(len(word) for word in words):
        raise SearnnError("a sheet needs at least one word, and each word at least one letter")
    sheet = np.zeros((len(words), HEIGHT, max(len(word) for word in words), WIDTH), dtype=np.float32)
    for row, word in zip(sheet, words, strict=True):
        row[:, : len(word)] = word.reshape(-1, HEIGHT, WIDTH).transpose(1, 0, 2)
    flat = sheet.reshape(len(words) * HEIGHT, -1)
    picture = _pillow().fromarray(np.where(flat >= 0.5, 0, 255).astype(np.uint8))
    try:
        picture.save(path, format="PNG")
    except OSError as error:
        raise SearnnError(f"{path} cannot be written ({error.strerror}): give another place") from error


def _read_arrays(content: bytes, where: str) -> list[Float32[np.ndarray, "_ 128"]]:
    """Words of an `.npz`."""
    arrays = plain_arrays(content, where, ("pixels", "pixels_packed", "word_lengths"))
    letters = _pixels(where, arrays, content)
    lengths, count = arrays.get("word_lengths", np.array([len(letters)])), len(letters)
    told = f"{where}: word_lengths is {lengths.dtype} {list(lengths.shape)}"
    expected = f"expected positive integers that add up to the {count} letters"
    if lengths.ndim != 1 or lengths.dtype.kind not in "iu":
        raise SearnnError(f"{told}, {expected}")
    # Each is bounded before they are added up: a sum of large ones would begin again at 0.
    if len(lengths) > count or not ((lengths >= 1) & (lengths <= count)).all():
        span = f" from {lengths.min()} to {lengths.max()}" if len(lengths) else ""
        raise SearnnError(f"{told}{span}, {expected}")
    if (total := int(lengths.sum())) != count:
        raise SearnnError(f"{told} and adds up to {total}, {expected}")
    return np.split(letters, lengths.astype(np.int64).cumsum()[:-1])


def _pixels(where: str, arrays: dict[str, Any], content: bytes) -> Float32[np.ndarray, "N 128"]:
    """The letters of an `.npz`, ink 1."""
    for name, array in arrays.items():
        if array.ndim and len(array) > MOST:
            told = f"{name} holds {len(array):,} entries, expected at most {MOST:,}"
            raise SearnnError(f"{where}: {told}: cut it into several files")
    if "pixels" in arrays:
        pixels = arrays["pixels"]
        if pixels.shape[1:] not in ((HEIGHT, WIDTH), (HEIGHT * WIDTH,)) or not len(pixels):
            raise SearnnError(f"{where}: pixels is {list(pixels.shape)}, expected [N, 16, 8] or [N, 128]")
        if pixels.dtype.kind not in "biuf" or not ((pixels >= 0) & (pixels <= 1)).all():
            raise SearnnError(f"{where}: pixels must be numbers from 0 (paper) to 1 (ink), got {_extent(pixels)}")
    elif "pixels_packed" in arrays:
        packed = arrays["pixels_packed"]
        if packed.dtype != np.uint8 or packed.shape[1:] != (HEIGHT,) or not len(packed):
            raise SearnnError(f"{where}: pixels_packed is {packed.dtype} {list(packed.shape)}, expected uint8 [N, 16]")
        pixels = np.unpackbits(packed, axis=1)
    else:
        names = one_line(", ".join(names_of(content, where)) or "none")
        raise SearnnError(f"{where} has the arrays {names}, expected 'pixels' [N, 16, 8] or 'pixels_packed' [N, 16]")
    return np.ascontiguousarray(pixels.reshape(len(pixels), -1), dtype=np.float32)


def _read_sheet(content: bytes, where: str) -> list[Float32[np.ndarray, "_ 128"]]:
    """Words of a sheet."""
    image = _pillow()
    try:
        with image.open(io.BytesIO(content), formats=["PNG"]) as picture:
            if picture.mode.startswith(("I", "F")):
                raise SearnnError(f"{where} has 16 bits per pixel, expected 8: save it with 8")
            if picture.width * picture.height > MOST * HEIGHT * WIDTH:
                size = f"{picture.width} wide and {picture.height} high"
                raise SearnnError(f"{where} is {size}, more than {MOST:,} letters: cut it into several sheets")
            over = image.new("RGBA", picture.size, "white")  # what is transparent is paper
            over.alpha_composite(picture.convert("RGBA"))
            shades = np.asarray(over.convert("L"))
    except SearnnError:
        raise
    except Exception as error:  # a damaged picture fails in many ways, and all mean the same
        raise SearnnError(f"{where} cannot be read as a PNG ({one_line(error)}): save it again") from error
    height, width = shades.shape
    if height % HEIGHT or width % WIDTH:
        expected = f"a multiple of {WIDTH} wide and of {HEIGHT} high"
        raise SearnnError(f"{where} is {width} wide and {height} high, expected {expected}: tiles without gaps")
    bright = shades >= 128
    ink = ~bright if bright.mean() >= 0.5 else bright
    rows, columns = height // HEIGHT, width // WIDTH
    tiles = ink.reshape(rows, HEIGHT, columns, WIDTH).transpose(0, 2, 1, 3).reshape(rows, columns, -1)
    words = []
    for number, row in enumerate(tiles.astype(np.float32), 1):
        inked = np.asarray(row.any(axis=1))
        letters = int(inked.sum())
        if not inked[:letters].all():
            gap = int(inked.argmin()) + 1
            raise SearnnError(f"{where}: tile {gap} of row {number} is blank, letters follow: use a row for each word")
        if letters:
            words.append(row[:letters])
    if not words:
        raise SearnnError(f"{where} has no letters: every tile is blank")
    return words


def _extent(pixels: Any) -> str:
    """What an array of numbers spans."""
    return f"{pixels.min()} to {pixels.max()}" if pixels.dtype.kind in "biuf" else str(pixels.dtype)


def _pillow() -> Any:
    """Pillow's image module, which only sheets need."""
    try:
        from PIL import Image
    except ImportError as error:
        raise SearnnError("a sheet needs Pillow: install it with pip install 'searnn[plots]'") from error
    return Image
