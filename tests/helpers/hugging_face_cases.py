"""Tiny random encoder-decoders of transformers, made from a configuration: nothing is downloaded."""

from __future__ import annotations

from typing import Any

import pytest
import torch

transformers = pytest.importorskip("transformers", reason="the adapter needs transformers")

SIZES = {
    "t5": {"d_model": 8, "d_kv": 4, "d_ff": 12, "num_layers": 2, "num_heads": 2, "relative_attention_num_buckets": 6,
           "relative_attention_max_distance": 5, "dropout_rate": 0.1},
    "bart": {"d_model": 8, "encoder_layers": 1, "decoder_layers": 2, "encoder_attention_heads": 2,
             "decoder_attention_heads": 2, "encoder_ffn_dim": 12, "decoder_ffn_dim": 12, "max_position_embeddings": 24},
}  # fmt: skip
SIZES["marian"] = {**SIZES["bart"], "scale_embedding": True}
FAMILIES = {
    "t5": ("T5Config", "T5ForConditionalGeneration"),
    "bart": ("BartConfig", "BartForConditionalGeneration"),
    "marian": ("MarianConfig", "MarianMTModel"),
}


def tiny(family: str, size: int = 9, seed: int = 0, spread: float = 1.0, **settings: Any) -> torch.nn.Module:
    """A model that reads and writes `size` tokens; its last id is PAD and, like T5's, begins outputs."""
    config, model = (getattr(transformers, name) for name in FAMILIES[family])
    special = {"pad_token_id": size - 1, "decoder_start_token_id": size - 1, "eos_token_id": 0, "bos_token_id": None}
    given = {"vocab_size": size, **SIZES[family], **special, "forced_eos_token_id": None, **settings}
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        made = model(config(**given)).double().eval()
        with torch.no_grad():
            for parameter in made.parameters():
                if parameter.requires_grad and parameter.ndim > 1:  # norms as they are, or their shifts decide all
                    parameter.copy_(spread * torch.randn(parameter.shape) / 2)
    return made
