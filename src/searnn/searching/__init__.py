"""Search: no gradient, and the only loops over time besides decoding."""

from searnn.searching.collect import collect, search
from searnn.searching.waves import Wave, advance_branches

__all__ = ["Wave", "advance_branches", "collect", "search"]
