"""The command line: `searnn train`, `eval`, `predict`, `bench` and `data`."""

from searnn.cli.main import main

__all__ = ["main"]
