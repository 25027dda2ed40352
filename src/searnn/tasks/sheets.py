"""Deprecated: this is `searnn.data.sheets`."""

from typing import Any
from warnings import warn

from searnn.data import sheets


def __getattr__(name: str) -> Any:
    if name not in vars(sheets):
        raise AttributeError(f"module 'searnn.tasks.sheets' has no attribute {name!r}")
    warn("searnn.tasks.sheets is deprecated: it is searnn.data.sheets", DeprecationWarning, stacklevel=2)
    return vars(sheets)[name]
