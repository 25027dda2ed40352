"""Settings that several models take."""

from __future__ import annotations

from typing import Annotated, Literal

from searnn.settings import Setting

Width = Annotated[int, Setting("units of the encoder (each direction) and of the decoder", ge=1)]
Layers = Annotated[int, Setting("layers of the encoder and of the decoder", ge=1)]
Attention = Annotated[Literal["none", "additive", "aligned"], Setting("how the decoder reads the encoder's states")]
Bidirectional = Annotated[bool, Setting("read the input in both directions")]
Embedding = Annotated[int | None, Setting("width of the token embeddings", ge=1)]  # None: that of the model
Dropout = Annotated[float, Setting("dropout of the gradient pass; of the search by --search-dropout", ge=0, lt=1)]
Window = Annotated[int, Setting("source positions that a convolution sees", ge=1)]
HeadCount = Annotated[int, Setting("attention heads of a transformer", ge=1)]
Feedforward = Annotated[int | None, Setting("units of a transformer's inner layers", ge=1)]  # None: 4 x the width
