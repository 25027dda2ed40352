"""The command line: a file for each command of `searnn`."""

from searnn.cli.main import main

__all__ = ["main"]
