"""Models that can be stepped over rows; a user's own needs `encode`, `start` and `step` alone."""

from searnn.models.encoder_decoder import EncoderDecoder
from searnn.models.stepping import Stepped, with_trace

__all__ = ["EncoderDecoder", "Stepped", "with_trace"]
