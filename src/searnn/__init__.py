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
`Stepper`), `Policy`, `Oracle`, `Cost`, `TokenSampler`, `CellSampler`, `Loss`, `Algorithm`, `Task`.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from searnn import waiting  # noqa: F401  # before torch is loaded
from searnn.interfaces import (
    Algorithm,
    CellSampler,
    Cost,
    Loss,
    Model,
    Oracle,
    Policy,
    Stepper,
    Task,
    TokenSampler,
)
from searnn.searching import search  # not later: the package of that name would stand in its place
from searnn.types import Batch, Branches, Inputs, SearchResult, SearnnError, Update, Vocabulary

if TYPE_CHECKING:
    from searnn.algorithms import Mle, Searnn
    from searnn.runs import Run, load, train

__version__ = "0.1.0"

__all__ = [
    "Algorithm",
    "Batch",
    "Branches",
    "CellSampler",
    "Cost",
    "Inputs",
    "Loss",
    "Mle",
    "Model",
    "Oracle",
    "Policy",
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

# What takes long to import, or needs files and settings, comes when it is first asked for.
_LATER = {"Mle": "algorithms", "Searnn": "algorithms", "Run": "runs", "load": "runs", "train": "runs"}
_PARTS = (
    "adapters", "algorithms", "costs", "decoding", "losses", "models", "oracles", "policies", "samplers", "schedules",
    "tasks", "training",
)  # fmt: skip


def __getattr__(name: str) -> Any:
    if name in _PARTS:
        return import_module(f"searnn.{name}")
    if name not in _LATER:
        raise AttributeError(f"module 'searnn' has no attribute {name!r}")
    found = getattr(import_module(f"searnn.{_LATER[name]}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted([*__all__, *_PARTS, "__doc__", "__version__"])
