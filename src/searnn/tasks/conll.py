"""Files of the CoNLL shared tasks: a line for each word, columns parted by spaces, a blank line after a sentence."""

from __future__ import annotations

import codecs
import gzip
import lzma
import zlib
from pathlib import Path

from searnn.types import SearnnError


def read_columns(path: Path) -> list[list[tuple[str, ...]]]:
    """The sentences of a file, each a list of words, each a tuple of its columns; `.gz` and `.xz` are unpacked.

    Only ASCII spaces part columns: the no-break space and its kind may stand inside a word.
    """
    sentences: list[list[tuple[str, ...]]] = [[]]
    columns = 0
    for number, line in enumerate(_content(path).removeprefix(codecs.BOM_UTF8).split(b"\n"), 1):
        if b"\0" in line:
            raise SearnnError(f"{path}, line {number}: holds a NUL byte, expected text: get the file again")
        try:
            word = tuple(field.decode() for field in line.split())
        except UnicodeDecodeError as error:
            raise SearnnError(f"{path}, line {number}: is not UTF-8 ({error.reason}): convert the file") from error
        if not word:
            if sentences[-1]:
                sentences.append([])
            continue
        columns = columns or len(word)
        if len(word) != columns:
            told = f"{len(word)} columns, the first line has {columns}"
            raise SearnnError(f"{path}, line {number}: {told}: mend the line, or get the file again")
        sentences[-1].append(word)
    if not sentences[-1]:
        sentences.pop()
    if not sentences:
        raise SearnnError(f"{path} is empty, expected a line for each word: get the file again")
    return sentences


def _content(path: Path) -> bytes:
    """What the file holds, unpacked by its name."""
    try:
        packed = path.read_bytes()
    except OSError as error:
        raise SearnnError(f"{path} cannot be read ({error.strerror}): give the name of a CoNLL file") from error
    try:
        return {".gz": gzip.decompress, ".xz": lzma.decompress}.get(path.suffix, bytes)(packed)
    except (OSError, EOFError, zlib.error, lzma.LZMAError) as error:
        raise SearnnError(f"{path} is damaged or no {path.suffix} file ({error}): get it again") from error
