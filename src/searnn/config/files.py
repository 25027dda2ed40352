"""Configurations read from flags, TOML and YAML files, all checked by the one schema; what is wrong, in one line."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import tomli_w
import yaml
from pydantic import ValidationError

from searnn import files, sealed
from searnn.config.registry import SEAMS, flag, suggestion
from searnn.config.schema import GROUP_OF, SECTIONS, Config, May, own_parts, schema, validated
from searnn.data.reading import read_most
from searnn.types import SearnnError

SETTINGS = "config.toml"  # in the folder of a run
LARGEST = 1_000_000  # bytes of it
NOTHING: Mapping[str, Any] = {}


def from_flags(
    values: Mapping[str, Any], say: Callable[[str], str] = flag, *, beside: Mapping[str, Any] = NOTHING
) -> Config:
    """Settings given as text, by name; a part of the user's own may be named `beside` them."""
    given = {name: value for name, value in values.items() if value is not None}
    own = own_parts(beside)
    kind = schema(given, own)
    for name in given:
        if name not in kind.declared:
            raise SearnnError(f"there is no setting {name!r}{suggestion(name, list(kind.declared))}")
    try:
        return validated(given, own)
    except ValidationError as error:
        raise SearnnError(sentence(error, say, kind)) from error


def every_part(axis: str, name: str) -> bool:
    """Of a file of the user's own all parts may be imported."""
    del axis, name
    return True


def no_part(axis: str, name: str) -> bool:
    """A file is only looked at: nothing is imported."""
    del axis, name
    return False


def read(path: Path, *, beside: Mapping[str, Any] = NOTHING, may: May = every_part) -> Config:
    """Settings of a TOML or a YAML file, each in the section of its group.

    Parts that it names and that may not be imported stay closed: settings that they alone could have are passed over.
    """
    content = _content(path)
    sections = [section for section in content.values() if isinstance(section, dict)]
    values = {name: value for section in sections for name, value in section.items()}
    closed = tuple(part for part in own_parts(values) if not may(*part))
    kind = schema(values, own_parts(beside), closed)
    for section in {SEAMS[axis].section for axis, _ in closed} & {*content}:
        content[section] = {name: value for name, value in content[section].items() if name in kind.declared}
    try:
        # A file has types of its own, so nothing is converted: k = "5" is as wrong as k = true.
        return kind.model_validate(content, strict=True)
    except ValidationError as error:
        raise SearnnError(
            f"{path}: {sentence(error, lambda name: f'{kind.declared[name].section}.{name}', kind)}"
        ) from error


def _content(path: Path) -> dict[str, Any]:
    """What a file holds, its sections not yet checked."""
    is_yaml = path.suffix in (".yaml", ".yml")
    try:
        text = _bytes(path).decode()
        content = yaml.load(text, _Yaml) if is_yaml else tomllib.loads(text)
    except FileNotFoundError as error:
        raise SearnnError(f"there is no file {path}") from error
    except OSError as error:
        raise SearnnError(f"cannot read {path}: {(error.strerror or str(error)).lower()}") from error
    except (tomllib.TOMLDecodeError, yaml.YAMLError, UnicodeDecodeError, ValueError, RecursionError) as error:
        told = " ".join(str(error).split())
        raise SearnnError(f"{path} is not a {'YAML' if is_yaml else 'TOML'} file: {told}") from error
    if content is not None and not isinstance(content, dict):
        raise SearnnError(f"{path} is not a YAML file of settings: expected sections, got {type(content).__name__}")
    return {str(section): _named(held) for section, held in (content or {}).items()}


def _bytes(path: Path) -> bytes:
    """What the file holds; one of the user's own may be a pipe, that of a run not."""
    if path.name == SETTINGS:
        return sealed.read_bytes(path, LARGEST)
    with path.open("rb") as stream:
        return read_most(stream.read, str(path), LARGEST)


def _named(held: Any) -> Any:
    """What a section holds, under texts: YAML has numbers as keys, too."""
    return {str(name): value for name, value in held.items()} if isinstance(held, dict) else held


class _Yaml(yaml.SafeLoader):  # type: ignore[misc]  # the library has no types
    """Plain data alone, with numbers and truth values as in YAML 1.2: `1e-3` is a number, `on` is a word."""

    yaml_implicit_resolvers = {  # noqa: RUF012  as its base has it
        first: [(tag, pattern) for tag, pattern in known if not tag.endswith((":bool", ":float", ":timestamp"))]
        for first, known in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


_Yaml.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile("(true|True|TRUE|false|False|FALSE)$"), list("tTfF"))
_NUMBER = re.compile(r"[-+]?(\.\d+|\d+\.\d*([eE][-+]?\d+)?|\d+[eE][-+]?\d+)$|[-+]?\.(inf|nan)$")
_Yaml.add_implicit_resolver("tag:yaml.org,2002:float", _NUMBER, list("-+.0123456789"))


def key(name: str) -> str:
    """A setting as it stands in a file."""
    return f"{GROUP_OF[name]}.{name}" if name in GROUP_OF else name


def write(config: Config, path: Path) -> None:
    """Write the settings that are set; the file appears whole or not at all."""
    files.write(path, tomli_w.dumps(config.model_dump(exclude_none=True)).encode())


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
