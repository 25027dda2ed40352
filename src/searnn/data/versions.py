"""Which versions of a file are taken: those known here and, where its source changes, the one that the user accepted.

What was accepted in the cache is recorded beside the file, in the form of `sha256sum`, so that a later change is seen.
"""

from __future__ import annotations

import re
from pathlib import Path

from searnn.data.sources import File, Source
from searnn.files import replace_file
from searnn.types import SearnnError

DIGEST = re.compile("[0-9a-f]{64}")


class UntrustedError(SearnnError):
    """A file is sound as far as its form goes; whether its content is to be trusted only the user can say."""


def verify(file: File, content: bytes, where: str, path: Path, wanted: str | None = None) -> None:
    """Refuse content, called `where`, that does not hold together or is of no version that may stand at `path`.

    `wanted` is the one version that will do of a file that changes, whatever is known or was accepted. The folder of
    the path is called like the data set.
    """
    found = file.digest(content, where)
    right = {wanted} if wanted and file.changes else {file.sha256, accepted_at(path)} - {None}
    if found in right or not (right or file.changes):
        return
    if file.changes:
        expected = " or ".join(sorted(map(str, right))) or "one that was accepted"
        advice = f"if you trust this version, take it with `searnn data get {path.parent.name} --sha256 {found}`"
        raise UntrustedError(f"{where} has the SHA-256 {found}, expected {expected}: its source changes; {advice}")
    told = f"its content has the SHA-256 {found[:16]}..., expected {str(file.sha256)[:16]}..."
    raise SearnnError(f"{where} is damaged or another version: {told}")


def check_wanted(source: Source, sha256: str) -> None:
    """Refuse to choose a version of what has but one, and what is no SHA-256."""
    if not any(file.changes and file.ways for file in source.files):
        raise SearnnError(
            f"--sha256 does not apply here: {source.name} is not fetched, or in the one version known here"
        )
    if not DIGEST.fullmatch(sha256):
        raise SearnnError(f"--sha256 is {sha256!r}, expected 64 digits of 0 to 9 and a to f")


def accepted_at(path: Path) -> str | None:
    """The SHA-256 of the version that was accepted for this file; None where none was."""
    try:
        found = DIGEST.match(_record(path).read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError):
        return None
    return found and found[0]


def accept(path: Path, sha256: str) -> None:
    """Record that this version of the file is trusted from now on."""
    replace_file(_record(path), f"{sha256}  {path.name}\n".encode())


def _record(path: Path) -> Path:
    return path.with_name(f"{path.name}.sha256")
