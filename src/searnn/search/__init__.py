"""Search: no gradient, and the only loops over time besides decoding."""

from searnn.search.collect import collect, search
from searnn.search.engine import Wave, advance_branches

__all__ = ["Wave", "advance_branches", "collect", "search"]
