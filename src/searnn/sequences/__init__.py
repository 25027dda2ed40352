"""Plain functions of token sequences `[..., T]`: where they end, what stands before the end, how far two differ."""

from searnn.sequences.ends import (
    at_cells,
    before_end,
    forbid,
    join_suffix,
    output_lengths,
    reference_tokens,
    seal,
    strip,
    true_tokens,
    valid_cells,
)

__all__ = [
    "at_cells",
    "before_end",
    "forbid",
    "join_suffix",
    "output_lengths",
    "reference_tokens",
    "seal",
    "strip",
    "true_tokens",
    "valid_cells",
]
