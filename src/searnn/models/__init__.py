"""Models that can be stepped over rows; a user's own needs `encode`, `start` and `step` alone."""

from searnn.models.encoder_decoder import EncoderDecoder
from searnn.models.ensemble import Ensemble
from searnn.models.families import conv_gru, gru, lstm
from searnn.models.stepping import Stepped, with_trace
from searnn.models.transformer import Transformer

__all__ = ["EncoderDecoder", "Ensemble", "Stepped", "Transformer", "conv_gru", "gru", "lstm", "with_trace"]
