"""The families of models by name, each with the settings that apply to it."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

import torch

from searnn.models.encoder_decoder import Cell, EncoderDecoder
from searnn.models.sizes import Attention, Bidirectional, Dropout, Embedding, Layers, Width, Window
from searnn.settings import Maker
from searnn.types import Vocabulary

Made = TypeVar("Made", bound=Maker)


def named(name: str) -> Callable[[Made], Made]:
    """Give a function the name that it is chosen by, as `name` in the body of a class does."""

    def decorate(function: Made) -> Made:
        vars(function)["name"] = name
        return function

    return decorate


@named("gru")
def gru(
    vocab: Vocabulary,
    *,
    features: int | None = None,
    source_size: int | None = None,
    width: Width = 128,
    layers: Layers = 1,
    bidirectional: Bidirectional = False,
    attention: Attention = "none",
    embedding: Embedding = None,
    dropout: Dropout = 0.0,
    rng: torch.Generator | None = None,
    cell: Cell = "gru",
) -> EncoderDecoder:
    """Recurrent encoder and decoder with GRU cells: the paper's models."""
    return EncoderDecoder(
        vocab, features=features, source_size=source_size, width=width, layers=layers, bidirectional=bidirectional,
        attention=attention, embedding=embedding, dropout=dropout, rng=rng, cell=cell,
    )  # fmt: skip


@named("lstm")
@wraps(gru, assigned=())  # the same arguments
def lstm(vocab: Vocabulary, **settings: Any) -> EncoderDecoder:
    """Recurrent encoder and decoder with LSTM cells."""
    return gru(vocab, **settings, cell="lstm")


@named("conv-gru")
def conv_gru(
    vocab: Vocabulary,
    *,
    features: int | None = None,
    source_size: int | None = None,
    width: Width = 128,
    layers: Layers = 1,
    embedding: Embedding = None,
    window: Window = 5,
    dropout: Dropout = 0.0,
    rng: torch.Generator | None = None,
) -> EncoderDecoder:
    """The convolutional encoder of Ranzato et al. (2016) with additive attention and a GRU decoder."""
    return EncoderDecoder(
        vocab, features=features, source_size=source_size, width=width, layers=layers, attention="additive",
        embedding=embedding, dropout=dropout, encoder="convolutional", window=window, rng=rng,
    )  # fmt: skip
