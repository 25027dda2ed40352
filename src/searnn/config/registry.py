"""What can be chosen, axis by axis, found in the axis's folder; `package.module:Name` is the user's own everywhere."""

from __future__ import annotations

import importlib
import inspect
import pkgutil
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from searnn.interfaces import Algorithm, CellSampler, Cost, Loss, Oracle, RollIn, RollOut, Stepper, Task, TokenSampler
from searnn.searching import as_roll_in, as_roll_out
from searnn.settings import Maker, arguments
from searnn.types import SearnnError


@dataclass(frozen=True)
class Axis:
    """Where the members of an axis stand, what each must be, and the setting that chooses one."""

    folder: str
    protocol: type
    used: str  # the method of a member that is called there
    section: str  # of the settings, those of its members too
    help: str
    order: str = ""  # of the members in the help; others come after these, by name
    leaves_out: tuple[str, ...] = ()  # what has the method but does not serve


SEAMS: dict[str, Axis] = {
    "task": Axis(
        "tasks", Task, "train", "task", "the task", "pairs ocr spelling translation chunking g2p copy",
    ),
    "model": Axis("models", Stepper, "step", "model", "the family of the model", "gru lstm transformer conv-gru"),
    "algorithm": Axis(
        "algorithms", Algorithm, "__call__", "method", "the training algorithm, one of those above",
        "searnn mle scheduled-sampling searn lols bandit-lols dagger aggrevate aggrevated bso laso reinforce mixer "
        "self-critical mrt actor-critic raml ocd",
    ),
    "roll_in": Axis(
        "policies", RollIn, "roll_in", "search", "policy that makes the prefix", "reference learned sampled mixed",
        leaves_out=("focused",),  # it says where it belongs
    ),
    "roll_out": Axis(
        "policies", RollOut, "roll_out", "search", "policy that ends the output",
        "reference learned sampled mixed focused",
    ),
    "cost": Axis(
        "costs", Cost, "__call__", "search", "test error that the search minimises",
        "hamming edit exact bleu gleu chunk-f1",
    ),
    "oracle": Axis(
        "oracles", Oracle, "complete", "search", "how the reference ends an output",
        "copy optimal-edit best-suffix chunk-f1",
    ),
    "tokens": Axis(
        "samplers", TokenSampler, "__call__", "search", "candidates",
        "all uniform policy biased top neighbours targeted end",
    ),
    "cells": Axis("samplers", CellSampler, "__call__", "search", "cells that are costed", "all uniform uncertain"),
    "loss": Axis(
        "losses", Loss, "__call__", "loss", "cost-sensitive loss of a cell",
        "ll kl llcas hinge consistent reverse-kl js l2",
    ),
}  # fmt: skip


def members(axis: str) -> dict[str, Maker]:
    """The classes and functions in an axis's folder that have a name to be chosen by."""
    seam, found = SEAMS[axis], {thing.name: thing for thing in _named(SEAMS[axis].folder) if _serves(thing, axis)}
    order = seam.order.split()
    known = [name for name in order if name in found]
    others = sorted(name for name in found if name not in (*order, *seam.leaves_out))
    return {name: found[name] for name in (*known, *others)}


def _named(folder: str) -> Iterator[Any]:
    """What is defined in the modules of a folder with a `name`."""
    package = importlib.import_module(f"searnn.{folder}")
    for info in pkgutil.iter_modules(package.__path__):
        module = importlib.import_module(f"{package.__name__}.{info.name}")
        for thing in vars(module).values():
            defined = callable(thing) and inspect.getmodule(thing) is module
            if defined and isinstance(vars(thing).get("name"), str):
                yield thing


def _serves(thing: Any, axis: str) -> bool:
    """Whether what stands in a folder that serves two axes, as policies do, has what this one calls."""
    seam = SEAMS[axis]
    if sum(other.folder == seam.folder for other in SEAMS.values()) == 1:
        return True
    wanted = inspect.signature(getattr(seam.protocol, seam.used)).parameters
    own = getattr(thing, seam.used, None)
    return own is not None and set(wanted) <= set(inspect.signature(own).parameters)


AXES: dict[str, dict[str, Maker]] = {axis: members(axis) for axis in SEAMS}


def suggestion(word: str, words: list[str]) -> str:
    """`, did you mean x?` where something known is close, else nothing."""
    close = get_close_matches(word, words, n=1)
    return f"; did you mean {close[0]}?" if close else ""


def is_own(name: str) -> bool:
    """Whether a name has the form `package.module:Name`."""
    module, colon, attribute = name.partition(":")
    return bool(colon) and attribute.isidentifier() and all(part.isidentifier() for part in module.split("."))


def find(axis: str, name: str) -> Maker:
    """The class or function of that name on an axis; the user's own is imported."""
    if name in AXES[axis]:
        return AXES[axis][name]
    if not is_own(name):
        raise SearnnError(f"no {flag(axis)} is called {name!r}{suggestion(name, list(AXES[axis]))}")
    return imported(axis, name)


def imported(setting: str, name: str) -> Maker:
    """The user's own class or function `package.module:Name`, given as this setting."""
    module_name, _, attribute = name.partition(":")
    here = str(Path.cwd())
    if here not in sys.path:  # a console script does not see the folder it is started in
        sys.path.append(here)
    try:
        module = importlib.import_module(module_name)
        found = getattr(module, attribute, None)
    except ModuleNotFoundError as error:
        raise SearnnError(f"{flag(setting)} {name}: there is no module called {error.name!r} to import") from error
    except (Exception, SystemExit) as error:  # the user's code runs here: whatever it does wrong
        raise SearnnError(f"{flag(setting)} {name}: importing {module_name} failed: {_reason(error)}") from error
    if found is None:
        known = suggestion(attribute, list(vars(module)))
        raise SearnnError(f"{flag(setting)} {name}: the module {module_name} has no {attribute!r}{known}")
    if not callable(found):
        raise SearnnError(f"{flag(setting)} {name} is a {type(found).__name__}: a class or a function is needed")
    return found  # type: ignore[no-any-return]


def takes(axis: str, name: str, argument: str) -> bool:
    """Whether the member of an axis takes an argument: this decides whether the setting of that name applies."""
    maker = find(axis, name)
    if axis == "cost" and not inspect.isclass(maker):  # a plain function is the cost itself
        return False
    return argument in arguments(maker)


def takers(axis: str, argument: str) -> list[str]:
    """The members of an axis that take an argument."""
    return [name for name in AXES[axis] if takes(axis, name, argument)]


def make(axis: str, name: str, **given: Any) -> Any:
    """A member of an axis, made with those of the arguments that it takes."""
    maker = find(axis, name)
    known = arguments(maker)
    for needed in known.values():
        if needed.needed and needed.name not in given:
            raise SearnnError(f"{flag(axis)} {name} needs {needed.name!r}, which no setting gives: add a default")
    chosen = {key: value for key, value in given.items() if key in known}
    if name in AXES[axis]:
        return maker(**chosen)
    try:
        made = maker(**chosen)
    except Exception as error:
        raise SearnnError(f"{flag(axis)} {name}: making it failed: {_reason(error)}") from error
    check_fits(axis, name, made)
    return made


def check_fits(axis: str, name: str, made: Any) -> None:
    """Refuse what cannot be used on the axis: a method of the protocol is missing or takes other arguments."""
    protocol, used = SEAMS[axis].protocol, SEAMS[axis].used
    what = f"{flag(axis)} {name} gives a {type(made).__name__}, which is no {protocol.__name__} of searnn.interfaces"
    if not isinstance(made, protocol):
        members = [*protocol.__annotations__, *vars(protocol)]
        needs = [member for member in members if member == "__call__" or not member.startswith("_")]
        raise SearnnError(f"{what}: it needs {', '.join(needs)}")
    _, *wanted = inspect.signature(getattr(protocol, used)).parameters  # without self
    called = {"roll_in": as_roll_in, "roll_out": as_roll_out}.get(axis, lambda whole: whole)(made)
    if not _can_take(getattr(called, used), len(wanted)):
        raise SearnnError(f"{what}: its {used} must take ({', '.join(wanted)})")


def check_cost_function(setting: str, name: str, function: Maker) -> None:
    """Refuse a plain function that is no error of an output and a target."""
    if not _can_take(function, 2):
        raise SearnnError(f"{flag(setting)} {name} cannot take (output, target): expected a function of two lists")


def _can_take(function: Callable[..., Any], count: int) -> bool:
    try:
        inspect.signature(function).bind(*range(count))
    except TypeError:
        return False
    except ValueError:  # some builtin functions do not say
        return True
    return True


def _reason(error: BaseException) -> str:
    """An error of the user's own code in one line."""
    return " ".join(f"{type(error).__name__}: {error}".split())


def flag(name: str) -> str:
    """The flag of a setting."""
    return "--" + name.replace("_", "-")
