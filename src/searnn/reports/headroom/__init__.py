"""How much better a run could be by its metric, by what, and what SEARNN would gain of it."""

from searnn.reports.headroom.headroom import headroom
from searnn.reports.headroom.measuring import Plan
from searnn.reports.headroom.records import NAME, Forecast, Headroom, Prefixes, Way, keep, kept

__all__ = ["NAME", "Forecast", "Headroom", "Plan", "Prefixes", "Way", "headroom", "keep", "kept"]
