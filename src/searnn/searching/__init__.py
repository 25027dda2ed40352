"""Search: a batch read, branched, finished and costed without gradient; roll-outs advance in lockstep, in waves."""

from searnn.searching.branching import bind, branch, cost_of, finish, sample_cells
from searnn.searching.older import as_roll_in, as_roll_out
from searnn.searching.reading import Reading
from searnn.searching.waves import Wave, advance_branches

__all__ = [
    "Reading",
    "Wave",
    "advance_branches",
    "as_roll_in",
    "as_roll_out",
    "bind",
    "branch",
    "cost_of",
    "finish",
    "sample_cells",
]
