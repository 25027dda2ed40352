"""Train sequence models on the metric you care about: SEARNN (Leblond et al., 2018) and its relatives."""

from typing import TYPE_CHECKING, Any

from searnn.algorithms import Mle, Searnn
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
from searnn.search import search
from searnn.types import Batch, Branches, Inputs, SearchResult, SearnnError, Update, Vocabulary

if TYPE_CHECKING:
    from searnn.config.runs import load

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
]


def __getattr__(name: str) -> Any:
    """`load` reads files and settings, which the core does without: it is imported when it is asked for."""
    if name == "load":
        from searnn.config.runs import load

        return load
    raise AttributeError(f"module 'searnn' has no attribute {name!r}")
