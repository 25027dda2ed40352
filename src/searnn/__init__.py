"""Train sequence models on the metric you care about: SEARNN (Leblond et al., 2018) and its relatives.

From the outside in:

    run = searnn.train("pairs", train="train.tsv", valid="valid.tsv")     as `searnn train pairs` does
    run = searnn.load("runs/pairs-searnn-1")                              what was trained, by its folder
    run.predict(["helo wrld"]); run.evaluate("test"); run.plot()

    update = searnn.Searnn(roll_in=..., roll_out=..., cost=..., loss=...)(model, batch, rng)     a loss for your loop
    found = searnn.search(model, batch, roll_in=..., roll_out=..., cost=..., rng=...)            the costs alone

The parts to choose from are in `searnn.algorithms`, `policies`, `oracles`, `costs`, `samplers`, `losses`, `models`,
`tasks`, `schedules` and `decoding`; the training loop is in `searnn.training`, models of other libraries in
`searnn.adapters`. A part of your own needs the methods of its protocol, nothing to inherit: `Model` (or the smaller
`Stepper`), `RollIn`, `RollOut`, `Oracle`, `Cost`, `TokenSampler`, `CellSampler`, `Loss`, `Algorithm`, `Task`.
"""

import os
from importlib import import_module
from typing import TYPE_CHECKING, Any
from warnings import warn

# How long idle threads wait for work by spinning: briefly, set before torch loads the library that reads it. GNU's
# OpenMP lets them spin for milliseconds; where another program, or our own compiled passes, wants the cores meanwhile,
# every step then waits for its turn: on two busy cores a step of OCR took 2 s instead of 0.15 (docs/performance.md).
if "OMP_WAIT_POLICY" not in os.environ:  # which says it in another way
    os.environ.setdefault("GOMP_SPINCOUNT", "3000")  # some 10 microseconds

if TYPE_CHECKING:
    from searnn.algorithms import Mle, Searnn, search
    from searnn.interfaces import (
        Algorithm,
        CellSampler,
        Cost,
        Encoded,
        Loss,
        Model,
        Oracle,
        RollIn,
        RollOut,
        Stepper,
        Task,
        TokenSampler,
    )
    from searnn.runs import Run, load, train
    from searnn.types import Batch, Branches, Inputs, SearchResult, SearnnError, Update, Vocabulary

__version__ = "0.1.0"

__all__ = [
    "Algorithm",
    "Batch",
    "Branches",
    "CellSampler",
    "Cost",
    "Encoded",
    "Inputs",
    "Loss",
    "Mle",
    "Model",
    "Oracle",
    "RollIn",
    "RollOut",
    "Run",
    "SearchResult",
    "Searnn",
    "SearnnError",
    "Stepper",
    "Task",
    "TokenSampler",
    "Update",
    "Vocabulary",
    "load",
    "search",
    "train",
]

# Everything comes when it is first asked for: torch alone takes seconds to import, in which Ctrl-C is to end a command
# in silence (searnn.cli), and what needs files and settings takes longer.
_LATER = {
    **dict.fromkeys(
        (
            "Algorithm", "CellSampler", "Cost", "Encoded", "Loss", "Model", "Oracle", "RollIn", "RollOut", "Stepper",
            "Task", "TokenSampler",
        ), "interfaces"
    ),
    **dict.fromkeys(("Batch", "Branches", "Inputs", "SearchResult", "SearnnError", "Update", "Vocabulary"), "types"),
    "Mle": "algorithms", "Searnn": "algorithms", "search": "algorithms",
    "Run": "runs", "load": "runs", "train": "runs",
    "Policy": "interfaces",
}  # fmt: skip
_DEPRECATED = {"Policy": "RollIn or RollOut, whichever is meant", "adapters": "hf"}
_PACKAGES = (
    "adapters", "algorithms", "costs", "decoding", "hf", "interfaces", "losses", "models", "oracles", "policies",
    "samplers", "schedules", "tasks", "training", "types",
)  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _PACKAGES:
        return import_module(f"searnn.{name}")
    if name not in _LATER:
        raise AttributeError(f"module 'searnn' has no attribute {name!r}")
    found = vars(import_module(f"searnn.{_LATER[name]}"))[name]
    if name in _DEPRECATED:
        warn(f"searnn.{name} is deprecated: take {_DEPRECATED[name]}", DeprecationWarning, stacklevel=2)
        return found
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted([*__all__, *({*_PACKAGES} - {*_DEPRECATED}), "__doc__", "__version__"])
