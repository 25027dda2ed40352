"""Cost-sensitive losses: `losses [B, C]` from the scores and the costs of each cell's candidates.

On the K candidates of a sampler they are the paper's subsampled losses; on all tokens they are the full ones.
"""

from searnn.losses.consistent import ConsistentLoss
from searnn.losses.hinge import HingeLoss
from searnn.losses.js import JSLoss
from searnn.losses.kl import KLLoss, ReverseKLLoss
from searnn.losses.log import CostAugmentedLogLoss, LogLoss
from searnn.losses.squared import SquaredLoss

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
