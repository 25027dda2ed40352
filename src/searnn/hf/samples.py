"""Random inputs of the kind that a model of transformers reads: two, of which one is padded."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from searnn.hf.decoder import Decoder
from searnn.types import SearnnError

WORDS = (7, 4)  # lengths of the two texts
SOUND = 8000  # samples of a wave
FRAMES = 64


def sample_inputs(model: Decoder, rng: torch.Generator) -> dict[str, Tensor]:
    """By the names that the model's `forward` gives them."""
    name = model.model.main_input_name
    config: Any = model.model.config
    encoder = getattr(config, "encoder", None) or config
    kind = next(iter(model.model.parameters())).dtype
    if name == "input_ids":
        return _text(model, rng)
    if name == "pixel_values":
        size = encoder.image_size
        height, width = size if isinstance(size, (tuple, list)) else (size, size)
        return {name: torch.randn(2, encoder.num_channels, height, width, generator=rng).to(kind)}
    if name == "input_values" or (name == "inputs" and encoder is not config):
        return {"input_values": torch.randn(2, SOUND, generator=rng).to(kind)}
    if name == "input_features":
        mel = getattr(encoder, "num_mel_bins", None)
        if mel is not None and getattr(encoder, "max_source_positions", None) is not None and mel_first(model):
            return {name: torch.randn(2, mel, 2 * encoder.max_source_positions, generator=rng).to(kind)}
        width = getattr(encoder, "input_feat_per_channel", None) or mel
        if width is not None:
            mask = (torch.arange(FRAMES) < torch.tensor([[FRAMES], [FRAMES // 2]])).long()
            return {name: torch.randn(2, FRAMES, width, generator=rng).to(kind), "attention_mask": mask}
    told = f"{type(model.model).__name__} reads {name}, of which no sample is known to check it by"
    raise SearnnError(f"{told}: compare it yourself and say check=False")


def mel_first(model: Decoder) -> bool:
    """Whether features stand before time, as in Whisper."""
    return getattr(model.model.config, "input_feat_per_channel", None) is None


def _text(model: Decoder, rng: torch.Generator) -> dict[str, Tensor]:
    """Ids without any special one, so that only the mask tells what is padding."""
    embeddings = model.model.get_input_embeddings().weight.shape[0]
    special = {model.filling, model.vocab.eos}
    free = torch.tensor([token for token in range(min(embeddings, 1000)) if token not in special])
    ids = free[torch.randint(len(free), (2, max(WORDS)), generator=rng)]
    mask = (torch.arange(max(WORDS)) < torch.tensor(WORDS).unsqueeze(1)).long()
    return {"input_ids": ids.masked_fill(mask == 0, model.filling), "attention_mask": mask}
