"""The names of what can be chosen, axis by axis; `package.module:Name` stands for the user's own everywhere."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from searnn import costs, losses, oracles, policies, samplers, tasks
from searnn.types import SearnnError

Maker = Callable[..., Any]

AXES: dict[str, dict[str, Maker]] = {
    "task": {"ocr": tasks.Ocr, "copy": tasks.Copy},
    "roll_in": {
        "reference": policies.Reference,
        "learned": policies.Learned,
        "sampled": policies.Sampled,
        "mixed": policies.Mixed,
    },
    "roll_out": {
        "reference": policies.Reference,
        "learned": policies.Learned,
        "mixed": policies.Mixed,
        "focused": policies.Focused,
    },
    "oracle": {"copy": oracles.CopyTarget, "optimal-edit": oracles.OptimalEdit},
    "cost": {"hamming": costs.Hamming, "edit": costs.EditDistance, "exact": costs.ExactMatch},
    "tokens": {
        "all": samplers.AllTokens,
        "uniform": samplers.UniformTokens,
        "policy": samplers.PolicyTokens,
        "biased": samplers.BiasedTokens,
        "top": samplers.TopTokens,
        "neighbours": samplers.NeighbourTokens,
        "targeted": samplers.TargetedTokens,
    },
    "cells": {"all": samplers.AllCells, "uniform": samplers.UniformCells, "uncertain": samplers.UncertainCells},
    "loss": {
        "ll": losses.LogLoss,
        "kl": losses.KLLoss,
        "llcas": losses.CostAugmentedLogLoss,
        "hinge": losses.HingeLoss,
        "consistent": losses.ConsistentLoss,
        "reverse-kl": losses.ReverseKLLoss,
        "js": losses.JSLoss,
        "l2": losses.SquaredLoss,
    },
}


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
    module_name, _, attribute = name.partition(":")
    here = str(Path.cwd())
    if here not in sys.path:  # a console script does not see the folder it is started in
        sys.path.append(here)
    try:
        found = getattr(importlib.import_module(module_name), attribute)
    except ModuleNotFoundError as error:
        raise SearnnError(f"{flag(axis)} {name}: there is no module called {error.name!r} to import") from error
    except AttributeError as error:
        raise SearnnError(f"{flag(axis)} {name}: the module {module_name} has no {attribute!r}") from error
    if not callable(found):
        raise SearnnError(f"{flag(axis)} {name} is a {type(found).__name__}: a class or a function is needed")
    return found  # type: ignore[no-any-return]


def parameters(maker: Maker) -> Mapping[str, inspect.Parameter]:
    """The arguments that a class or function takes, by name."""
    return inspect.signature(maker).parameters


def takes(axis: str, name: str, argument: str) -> bool:
    """Whether the member of an axis takes an argument: this decides whether the setting of that name applies."""
    return argument in parameters(find(axis, name))


def takers(axis: str, argument: str) -> list[str]:
    """The members of an axis that take an argument."""
    return [name for name in AXES[axis] if takes(axis, name, argument)]


def make(axis: str, name: str, **arguments: Any) -> Any:
    """A member of an axis, made with those of the arguments that it takes."""
    maker = find(axis, name)
    known = parameters(maker)
    for needed in known.values():
        if needed.default is needed.empty and needed.kind in (needed.POSITIONAL_OR_KEYWORD, needed.KEYWORD_ONLY):
            if needed.name not in arguments:
                raise SearnnError(f"{flag(axis)} {name} needs {needed.name!r}, which no setting gives: give it a default")
    return maker(**{key: value for key, value in arguments.items() if key in known})


def flag(name: str) -> str:
    """The flag of a setting."""
    return "--" + name.replace("_", "-")
