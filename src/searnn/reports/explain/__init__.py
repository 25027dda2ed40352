"""One example under the lens: what every token costs at every cell, as a page to play with or as a picture."""

from searnn.reports.explain.describing import ALPHAS, LOSSES, Start, describe
from searnn.reports.explain.searching import Choices, Moment, explore
from searnn.reports.explain.showing import draw, make_page
from searnn.reports.naming import read_target

__all__ = ["ALPHAS", "LOSSES", "Choices", "Moment", "Start", "describe", "draw", "explore", "make_page", "read_target"]
