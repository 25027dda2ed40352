"""Deprecated: this is `searnn.data.batching`."""

from typing import Any
from warnings import warn

from searnn.data import batching


def __getattr__(name: str) -> Any:
    if name not in vars(batching):
        raise AttributeError(f"module 'searnn.tasks.batching' has no attribute {name!r}")
    warn("searnn.tasks.batching is deprecated: it is searnn.data.batching", DeprecationWarning, stacklevel=2)
    return vars(batching)[name]
