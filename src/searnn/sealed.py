"""Records in JSON that carry a checksum, and are read with every field checked, as settings are.

Records of versions before this one have no checksum. They are read all the same, their fields checked like the others.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import stat
import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Annotated, Any, NoReturn, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from searnn.types import SearnnError

CHECKSUM = "checksum"
LARGEST = 256_000_000  # bytes of a record
RESTORE = "restore it from a copy, or train anew"


class Checked(BaseModel):
    """The fields of a record: none unknown, none converted, every number finite."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


def _plain(value: Any) -> Any:
    if isinstance(value, (list, dict)):
        raise ValueError("expected a number, a text, true, false or null")
    return value


def _number(value: Any) -> Any:
    if not isinstance(value, (int, float)) or abs(value) > sys.float_info.max:
        raise ValueError("expected a number")
    return value


Whole = Annotated[int, Field(ge=0, le=2**53)]
Number = Annotated[Any, AfterValidator(_number)]  # of either kind: what is not finite is refused before
Value = Annotated[Any, AfterValidator(_plain)]
Kind = TypeVar("Kind")
_adapter: Callable[[Any], Any] = cache(TypeAdapter)


def text_of(record: Mapping[str, Any], **how: Any) -> str:
    """The record with its checksum, as `json.dumps` writes it; what is a dataclass becomes an object."""
    digest = _digest(json.dumps(dict(record), allow_nan=False, default=asdict))
    return json.dumps({**record, CHECKSUM: digest}, allow_nan=False, default=asdict, **how)


def parse(text: bytes, kind: type[Kind], where: str, advice: str = RESTORE) -> Kind:
    """The record of a text; `where` says in messages where it stands, and `advice` what to do where it is damaged."""
    try:
        content = json.loads(text, parse_constant=_refuse)
        if not isinstance(content, dict):
            raise ValueError("it is no object")
        sealed, digest = CHECKSUM in content, content.pop(CHECKSUM, None)
        plain = json.dumps(content, allow_nan=False)
        if sealed and digest != _digest(plain):
            raise ValueError("its checksum is that of another content")
        found: Kind = _adapter(kind).validate_json(plain, strict=True)
        return found
    except (ValueError, RecursionError) as error:
        raise SearnnError(f"{where} is damaged ({_reason(error)}): {advice}") from None


def read(path: Path, kind: type[Kind], advice: str = RESTORE) -> Kind:
    """The record in a file."""
    return parse(read_bytes(path), kind, str(path), advice)


def read_bytes(path: Path, most: int = LARGEST) -> bytes:
    """What a regular file of at most so many bytes holds: a device or a pipe may have no end."""
    about = path.stat()
    if stat.S_ISDIR(about.st_mode):
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR), str(path))
    if not stat.S_ISREG(about.st_mode):
        raise SearnnError(f"{path} is a device or a pipe, expected a regular file: restore it from a copy")
    if about.st_size > most:
        raise SearnnError(f"{path} is damaged (it has more than {most:,} bytes): restore it from a copy")
    with path.open("rb") as file:
        return file.read(about.st_size)


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"it has {constant}, which is no number")


def _reason(error: ValueError | RecursionError) -> str:
    """What is wrong, on one line of bearable length."""
    if isinstance(error, RecursionError):
        return "it is nested too deeply"
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))[:80]
        told = first["msg"].removeprefix("Value error, ")
        return f"{place}{': ' if place else ''}{told[:1].lower()}{told[1:]}"[:200]
    return " ".join(str(error).split())[:200]
