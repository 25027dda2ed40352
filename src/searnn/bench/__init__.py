"""How fast it is: every way of training timed side by side, and taken apart."""

from searnn.bench.running import Benchmark, measuring, run
from searnn.bench.settings import SETTINGS, Setting, on_device
from searnn.bench.timing import Watch

__all__ = ["SETTINGS", "Benchmark", "Setting", "Watch", "measuring", "on_device", "run"]
