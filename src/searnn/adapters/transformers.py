"""The old place of `searnn.hf`. Deprecated: say `searnn.hf.wrap(model)`."""

from __future__ import annotations

import warnings

from torch import nn

from searnn.hf import EncoderDecoder
from searnn.types import Vocabulary


class HuggingFace(EncoderDecoder):
    """An encoder-decoder of transformers, without the check. Deprecated: say `searnn.hf.wrap(model)`."""

    def __init__(self, model: nn.Module, vocab: Vocabulary | None = None) -> None:
        told = "searnn.adapters.transformers.HuggingFace(model) is deprecated: say searnn.hf.wrap(model)"
        warnings.warn(told, DeprecationWarning, stacklevel=2)
        super().__init__(model, vocab)
