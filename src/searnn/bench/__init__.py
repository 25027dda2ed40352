"""How fast it is: every way of training timed side by side, taken apart, and set against what the machine could do."""

from searnn.bench.running import Plan, run
from searnn.bench.settings import SETTINGS, Setting, on_device
from searnn.bench.watching import Silent, Watch

__all__ = ["SETTINGS", "Plan", "Setting", "Silent", "Watch", "on_device", "run"]
