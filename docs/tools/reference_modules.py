"""The reference of the library, read out of its signatures and docstrings."""

from __future__ import annotations

import importlib
import inspect
from typing import Any, ForwardRef

from reference_commands import cell

from searnn.settings import Argument, arguments

MODULES = (
    "searnn", "searnn.runs", "searnn.interfaces", "searnn.types", "searnn.algorithms", "searnn.policies",
    "searnn.oracles", "searnn.costs", "searnn.samplers", "searnn.losses", "searnn.models", "searnn.decoding",
    "searnn.tasks", "searnn.training", "searnn.schedules", "searnn.settings", "searnn.defaults", "searnn.sequences",
    "searnn.tree", "searnn.engine", "searnn.hf",
)  # fmt: skip


def annotation(kind: Any) -> str:
    """A type as it is written."""
    if isinstance(kind, ForwardRef):
        kind = kind.__forward_arg__
    if isinstance(kind, str):
        return kind.strip("'")
    return (
        kind.__name__ if inspect.isclass(kind) and not hasattr(kind, "__args__") else str(kind).replace("typing.", "")
    )


def setting_type(argument: Argument) -> str:
    """The type of an argument that is a setting, without what is said of it for the command line."""
    kind = f"Literal[{', '.join(map(repr, argument.choices))}]" if argument.choices else annotation(argument.type)
    schedule = any(setting.schedule for setting in argument.settings)
    return " | ".join([kind, *(["Schedule"] if schedule else []), *(["None"] if argument.optional else [])])


def default_of(value: Any) -> str:
    """A default as it is written; a made-up one in short."""
    shown = repr(value)
    if "<factory>" in shown:
        return "..."
    return getattr(value, "__name__", "...") if shown.startswith("<") else shown


def signature(name: str, thing: Any) -> str:
    """`name(argument: type = default, ...) -> type`, over several lines where it is long."""
    try:
        known = inspect.signature(thing)
    except (TypeError, ValueError):
        return name
    parts: list[str] = []
    declared = arguments(thing).values() if inspect.isclass(thing) or inspect.isfunction(thing) else ()
    kinds = {one.name: setting_type(one) for one in declared if one.settings}
    for part in known.parameters.values():
        if part.name == "self":
            continue
        if part.kind is part.KEYWORD_ONLY and not any(p.startswith("*") for p in parts):
            parts.append("*")
        text = {part.VAR_POSITIONAL: "*", part.VAR_KEYWORD: "**"}.get(part.kind, "") + part.name
        text += f": {kinds.get(part.name) or annotation(part.annotation)}" if part.annotation is not part.empty else ""
        parts.append(text + (f" = {default_of(part.default)}" if part.default is not part.empty else ""))
    returned = known.return_annotation
    end = "" if inspect.isclass(thing) or returned in (known.empty, "None", None) else f" -> {annotation(returned)}"
    line = f"{name}({', '.join(parts)}){end}"
    return line if len(line) <= 100 else f"{name}(\n" + "".join(f"    {part},\n" for part in parts) + f"){end}"


def documented(thing: Any) -> str:
    """A docstring as Markdown; one that a dataclass or a protocol made up is none."""
    text = inspect.cleandoc(thing.__doc__ or "") if not isinstance(thing, property) else inspect.getdoc(thing) or ""
    return "" if text.startswith(f"{getattr(thing, '__name__', '')}(") else text


def public(module: Any) -> list[str]:
    """The names that a module offers: its `__all__`, else what it defines itself."""
    if hasattr(module, "__all__"):
        return [name for name in module.__all__ if not inspect.ismodule(getattr(module, name))]
    found = [name for name, thing in vars(module).items() if getattr(thing, "__module__", "") == module.__name__]
    return [name for name in found if not name.startswith("_") and callable(getattr(module, name))]


def entry(name: str, thing: Any) -> str:
    """A class or a function with its signature, its docstring and its methods."""
    if not callable(thing):
        return f"## `{name}`\n\n`{annotation(thing)}`\n\n"
    text = f"## `{name}`\n\n```python\n{signature(name, thing)}\n```\n\n{documented(thing)}\n\n"
    if not inspect.isclass(thing):
        return text
    for label, method in vars(thing).items():
        if isinstance(method, property) and not label.startswith("_"):
            text += f"**`{label}`** {documented(method)}\n\n"
        elif (
            inspect.isfunction(method)
            and (about := documented(method))
            and (label == "__call__" or not label.startswith("_"))
        ):
            shown = name.lower() if label == "__call__" else f".{label}"
            text += f"```python\n{signature(shown, method)}\n```\n\n{about}\n\n"
    return text


def module_pages() -> dict[str, str]:
    """A page for each public module, and one that lists them."""
    listing = "# The library\n\nWhat each module offers, from the docstrings. "
    listing += "[library.md](../library.md) shows how it is used.\n\n"
    listing += "| module | what |\n| --- | --- |\n"
    pages = {}
    for name in MODULES:
        module = importlib.import_module(name)
        about = inspect.cleandoc(module.__doc__ or "")
        listing += f"| [`{name}`]({name}.md) | {cell(about.splitlines()[0])} |\n"
        pages[f"{name}.md"] = f"# `{name}`\n\n{about}\n\n" + "".join(
            entry(key, getattr(module, key)) for key in public(module)
        )
    return {"modules.md": listing, **pages}
