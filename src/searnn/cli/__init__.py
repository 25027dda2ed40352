"""The command line: `searnn train`, `eval`, `predict` and `data`."""

from searnn.cli.main import main

__all__ = ["main"]
