"""Runs: trained with the settings of the command line, opened by their folder, used and looked at."""

from searnn.runs.python import train
from searnn.runs.run import Run, load

__all__ = ["Run", "load", "train"]
