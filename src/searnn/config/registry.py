"""The names of what can be chosen, axis by axis; `package.module:Name` stands for the user's own everywhere."""

from __future__ import annotations

import importlib
import inspect
import sys
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any

from searnn.algorithms import (
    ActorCritic,
    Aggrevate,
    Aggrevated,
    BanditLols,
    Bso,
    Dagger,
    Laso,
    Lols,
    Mixer,
    Mle,
    Mrt,
    Ocd,
    Raml,
    Reinforce,
    ScheduledSampling,
    Searn,
    Searnn,
    SelfCritical,
)
from searnn.costs import ChunkF1, EditDistance, ExactMatch, Gleu, Hamming, SentenceBleu
from searnn.interfaces import Algorithm, CellSampler, Cost, Loss, Oracle, RollIn, RollOut, Stepper, Task, TokenSampler
from searnn.losses import (
    ConsistentLoss,
    CostAugmentedLogLoss,
    HingeLoss,
    JSLoss,
    KLLoss,
    LogLoss,
    ReverseKLLoss,
    SquaredLoss,
)
from searnn.models import Transformer, conv_gru, gru, lstm
from searnn.oracles import BestSuffix, ChunkOracle, CopyTarget, OptimalEdit
from searnn.policies import Focused, Learned, Mixed, Reference, Sampled
from searnn.samplers import (
    AllCells,
    AllTokens,
    BiasedTokens,
    EndToken,
    NeighbourTokens,
    PolicyTokens,
    TargetedTokens,
    TopTokens,
    UncertainCells,
    UniformCells,
    UniformTokens,
)
from searnn.tasks import Chunking, Copy, Ocr, Pairs, Pronunciation, Spelling, Translation
from searnn.types import SearnnError

Maker = Callable[..., Any]

AXES: dict[str, dict[str, Maker]] = {
    "task": {
        "pairs": Pairs,
        "ocr": Ocr,
        "spelling": Spelling,
        "translation": Translation,
        "chunking": Chunking,
        "g2p": Pronunciation,
        "copy": Copy,
    },
    "model": {"gru": gru, "lstm": lstm, "transformer": Transformer, "conv-gru": conv_gru},
    "algorithm": {
        "searnn": Searnn,
        "mle": Mle,
        "scheduled-sampling": ScheduledSampling,
        "searn": Searn,
        "lols": Lols,
        "bandit-lols": BanditLols,
        "dagger": Dagger,
        "aggrevate": Aggrevate,
        "aggrevated": Aggrevated,
        "bso": Bso,
        "laso": Laso,
        "reinforce": Reinforce,
        "mixer": Mixer,
        "self-critical": SelfCritical,
        "mrt": Mrt,
        "actor-critic": ActorCritic,
        "raml": Raml,
        "ocd": Ocd,
    },
    "roll_in": {"reference": Reference, "learned": Learned, "sampled": Sampled, "mixed": Mixed},
    "roll_out": {"reference": Reference, "learned": Learned, "mixed": Mixed, "focused": Focused},
    "oracle": {
        "copy": CopyTarget,
        "optimal-edit": OptimalEdit,
        "best-suffix": BestSuffix,
        "chunk-f1": ChunkOracle,
    },
    "cost": {
        "hamming": Hamming,
        "edit": EditDistance,
        "exact": ExactMatch,
        "bleu": SentenceBleu,
        "gleu": Gleu,
        "chunk-f1": ChunkF1,
    },
    "tokens": {
        "all": AllTokens,
        "uniform": UniformTokens,
        "policy": PolicyTokens,
        "biased": BiasedTokens,
        "top": TopTokens,
        "neighbours": NeighbourTokens,
        "targeted": TargetedTokens,
        "end": EndToken,
    },
    "cells": {"all": AllCells, "uniform": UniformCells, "uncertain": UncertainCells},
    "loss": {
        "ll": LogLoss,
        "kl": KLLoss,
        "llcas": CostAugmentedLogLoss,
        "hinge": HingeLoss,
        "consistent": ConsistentLoss,
        "reverse-kl": ReverseKLLoss,
        "js": JSLoss,
        "l2": SquaredLoss,
    },
}

SEAMS: dict[str, tuple[type, str]] = {  # what a member of an axis must be, and the method of it that is called there
    "task": (Task, "train"),
    "model": (Stepper, "step"),
    "algorithm": (Algorithm, "__call__"),
    "roll_in": (RollIn, "roll_in"),
    "roll_out": (RollOut, "roll_out"),
    "oracle": (Oracle, "complete"),
    "cost": (Cost, "__call__"),
    "tokens": (TokenSampler, "__call__"),
    "cells": (CellSampler, "__call__"),
    "loss": (Loss, "__call__"),
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


@cache
def parameters(maker: Maker) -> Mapping[str, inspect.Parameter]:
    """The arguments that a class or function takes, by name; those too that a class hands on to its base."""
    try:
        own = inspect.signature(maker).parameters
    except (TypeError, ValueError):  # some builtin functions do not say
        return {}
    hands_on = any(part.kind is part.VAR_KEYWORD for part in own.values())
    if not inspect.isclass(maker) or not hands_on or maker.__base__ in (None, object):
        return own
    base = parameters(maker.__base__)
    return {**{name: part for name, part in base.items() if part.default is not part.empty}, **own}


def takes(axis: str, name: str, argument: str) -> bool:
    """Whether the member of an axis takes an argument: this decides whether the setting of that name applies."""
    maker = find(axis, name)
    if axis == "cost" and not inspect.isclass(maker):  # a plain function is the cost itself
        return False
    return argument in parameters(maker)


def takers(axis: str, argument: str) -> list[str]:
    """The members of an axis that take an argument."""
    return [name for name in AXES[axis] if takes(axis, name, argument)]


def make(axis: str, name: str, **arguments: Any) -> Any:
    """A member of an axis, made with those of the arguments that it takes."""
    maker = find(axis, name)
    known = parameters(maker)
    for needed in known.values():
        plain = needed.kind in (needed.POSITIONAL_ONLY, needed.POSITIONAL_OR_KEYWORD, needed.KEYWORD_ONLY)
        if plain and needed.default is needed.empty and needed.name not in arguments:
            raise SearnnError(f"{flag(axis)} {name} needs {needed.name!r}, which no setting gives: add a default")
    chosen = {key: value for key, value in arguments.items() if key in known}
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
    protocol, used = SEAMS[axis]
    what = f"{flag(axis)} {name} gives a {type(made).__name__}, which is no {protocol.__name__} of searnn.interfaces"
    if not isinstance(made, protocol):
        members = [*protocol.__annotations__, *vars(protocol)]
        needs = [member for member in members if member == "__call__" or not member.startswith("_")]
        raise SearnnError(f"{what}: it needs {', '.join(needs)}")
    _, *wanted = inspect.signature(getattr(protocol, used)).parameters  # without self
    if not _can_take(getattr(made, used), len(wanted)):
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
