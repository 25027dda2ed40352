"""Training algorithms: each turns a batch into one loss."""

from searnn.algorithms.diagnosis import diagnose
from searnn.algorithms.mle import Mle
from searnn.algorithms.searnn import Searnn

__all__ = ["Mle", "Searnn", "diagnose"]
