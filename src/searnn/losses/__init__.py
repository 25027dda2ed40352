"""Cost-sensitive losses: `losses [B, C]` from the scores and the costs of each cell's candidates.

On the K candidates of a sampler they are the paper's subsampled losses; on all tokens they are the full ones.
"""

from searnn.losses.divergences import JSLoss, KLLoss, ReverseKLLoss
from searnn.losses.hinge import HingeLoss
from searnn.losses.log import CostAugmentedLogLoss, LogLoss
from searnn.losses.sums import ConsistentLoss, SquaredLoss

__all__ = [
    "ConsistentLoss",
    "CostAugmentedLogLoss",
    "HingeLoss",
    "JSLoss",
    "KLLoss",
    "LogLoss",
    "ReverseKLLoss",
    "SquaredLoss",
]
