"""What pydantic found, said in one plain line that names the flag or the key of the file."""

from __future__ import annotations

from collections.abc import Callable

from pydantic import ValidationError

from searnn.config.registry import suggestion
from searnn.config.schema import SECTIONS, Config


def sentence(error: ValidationError, say: Callable[[str], str], kind: type[Config] = Config) -> str:
    """The first thing wrong, in one line; `say` turns a setting's name into what the user wrote: a flag or a key."""
    first = error.errors(include_url=False)[0]
    section, *rest = [str(part) for part in first["loc"]]
    if not rest:
        return _misplaced(section, kind)
    name = rest[0]
    if name not in kind.declared or first["type"] == "extra_forbidden":
        return _unknown(section, name, kind)
    if first["type"] == "value_error":
        return f"{say(name)} {first['ctx']['error']}"
    item, given = kind.declared[name], first["input"]
    close = suggestion(given, list(item.choices)) if isinstance(given, str) else ""
    return f"{say(name)} must be {item.expected}, got {given!r}{close}"


def _misplaced(name: str, kind: type[Config]) -> str:
    """A key outside of a section, or a section that does not exist."""
    if name in SECTIONS:
        return f"[{name}] must be a section with settings"
    if name in kind.declared:
        return f"{name!r} belongs in the section [{kind.declared[name].section}]"
    return f"there is no section [{name}]{suggestion(name, list(SECTIONS))}"


def _unknown(section: str, name: str, kind: type[Config]) -> str:
    """A key that its section does not have."""
    if name in kind.declared:
        return f"{name!r} belongs in the section [{kind.declared[name].section}], not in [{section}]"
    return f"[{section}] has no setting {name!r}{suggestion(name, list(kind.declared))}"
