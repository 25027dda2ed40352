"""Files of the CoNLL shared tasks: a line for each word, columns divided by spaces, a blank line after a sentence."""

from __future__ import annotations

from pathlib import Path

from searnn.data.lines import read_lines
from searnn.types import SearnnError


def read_columns(path: Path) -> list[list[tuple[str, ...]]]:
    """The sentences of a file, plain or packed, each a list of words, each a tuple of its columns.

    Only ASCII spaces divide columns: the no-break space and its kind may stand inside a word.
    """
    sentences: list[list[tuple[str, ...]]] = [[]]
    columns = 0
    for number, line, reason in read_lines(path):
        if line is None:
            raise SearnnError(f"{path}, line {number} is bad: {reason}; mend the line, or get the file again")
        word = tuple(field.decode() for field in line.encode().split())
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
