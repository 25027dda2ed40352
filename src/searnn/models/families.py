"""The families of models by name, each with the settings that apply to it."""

from __future__ import annotations

from functools import wraps
from typing import Any

import torch

from searnn.models.encoder_decoder import EncoderDecoder
from searnn.types import Vocabulary


def gru(
    vocab: Vocabulary,
    *,
    features: int | None = None,
    source_size: int | None = None,
    width: int = 128,
    layers: int = 1,
    bidirectional: bool = False,
    attention: str = "none",
    embedding: int | None = None,
    dropout: float = 0.0,
    rng: torch.Generator | None = None,
    cell: str = "gru",
) -> EncoderDecoder:
    """Recurrent encoder and decoder with GRU cells: the paper's models."""
    return EncoderDecoder(
        vocab, features=features, source_size=source_size, width=width, layers=layers, bidirectional=bidirectional,
        attention=attention, embedding=embedding, dropout=dropout, rng=rng, cell=cell,
    )  # fmt: skip


@wraps(gru, assigned=())  # the same arguments
def lstm(vocab: Vocabulary, **settings: Any) -> EncoderDecoder:
    """Recurrent encoder and decoder with LSTM cells."""
    return gru(vocab, **settings, cell="lstm")


def conv_gru(
    vocab: Vocabulary,
    *,
    features: int | None = None,
    source_size: int | None = None,
    width: int = 128,
    layers: int = 1,
    embedding: int | None = None,
    window: int = 5,
    dropout: float = 0.0,
    rng: torch.Generator | None = None,
) -> EncoderDecoder:
    """The convolutional encoder of Ranzato et al. (2016) with additive attention and a GRU decoder."""
    return EncoderDecoder(
        vocab, features=features, source_size=source_size, width=width, layers=layers, attention="additive",
        embedding=embedding, dropout=dropout, encoder="convolutional", window=window, rng=rng,
    )  # fmt: skip
