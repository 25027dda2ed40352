"""Oracles (the paper's reference policies): they see the truth, and never run the model."""

from searnn.oracles.best_suffix import BestSuffix
from searnn.oracles.chunk_oracle import ChunkOracle
from searnn.oracles.copying import CopyTarget, OptimalEdit

__all__ = ["BestSuffix", "ChunkOracle", "CopyTarget", "OptimalEdit"]
