"""A tiny random model of every family of transformers that is searched, made from a configuration."""

from __future__ import annotations

from typing import Any

import torch
from hugging_face_cases import transformers

SIZE, PAD, EOS, FIRST = 40, 1, 2, 2
IDS = {"vocab_size": SIZE, "pad_token_id": PAD, "eos_token_id": EOS, "bos_token_id": 0, "decoder_start_token_id": FIRST}
PLAIN = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24}
GROUPED = {**PLAIN, "num_key_value_heads": 1, "head_dim": 8, "max_position_embeddings": 64}
BOTH = {
    "d_model": 16, "encoder_layers": 1, "decoder_layers": 2, "encoder_attention_heads": 2, "decoder_attention_heads": 2,
    "encoder_ffn_dim": 24, "decoder_ffn_dim": 24, "max_position_embeddings": 64, "encoder_layerdrop": 0.0,
    "decoder_layerdrop": 0.0,
}  # fmt: skip
T5 = {"d_model": 16, "d_kv": 8, "d_ff": 24, "num_layers": 2, "num_heads": 2, "relative_attention_num_buckets": 6,
      "relative_attention_max_distance": 5}  # fmt: skip
SOUND = {**PLAIN, "conv_dim": [8, 8], "conv_stride": [20, 16], "conv_kernel": [20, 16], "num_feat_extract_layers": 2,
         "num_conv_pos_embeddings": 8, "num_conv_pos_embedding_groups": 2, "feat_extract_norm": "layer"}  # fmt: skip
PICTURE = {**PLAIN, "image_size": 8, "patch_size": 4}

SEQ2SEQ: dict[str, tuple[str, dict[str, Any]]] = {
    "T5": ("T5ForConditionalGeneration", T5),
    "MT5": ("MT5ForConditionalGeneration", T5),
    "UMT5": ("UMT5ForConditionalGeneration", T5),
    "LongT5": ("LongT5ForConditionalGeneration", {**T5, "local_radius": 3}),
    "SwitchTransformers": (
        "SwitchTransformersForConditionalGeneration",
        {**T5, "num_experts": 2, "expert_capacity": 64, "num_sparse_encoder_layers": 1, "num_sparse_decoder_layers": 1},
    ),
    "Bart": ("BartForConditionalGeneration", BOTH),
    "MBart": ("MBartForConditionalGeneration", BOTH),
    "Marian": ("MarianMTModel", BOTH),
    "Pegasus": ("PegasusForConditionalGeneration", BOTH),
    "PegasusX": ("PegasusXForConditionalGeneration", {**BOTH, "num_global_tokens": 2, "block_size": 8}),
    "PLBart": ("PLBartForConditionalGeneration", BOTH),
    "Blenderbot": ("BlenderbotForConditionalGeneration", BOTH),
    "BlenderbotSmall": ("BlenderbotSmallForConditionalGeneration", BOTH),
    "BigBirdPegasus": ("BigBirdPegasusForConditionalGeneration", {**BOTH, "attention_type": "original_full"}),
    "M2M100": ("M2M100ForConditionalGeneration", BOTH),
    "LED": (
        "LEDForConditionalGeneration",
        {**BOTH, "attention_window": 4, "max_encoder_position_embeddings": 64, "max_decoder_position_embeddings": 64},
    ),
    "ProphetNet": (
        "ProphetNetForConditionalGeneration",
        {"hidden_size": 16, "num_encoder_layers": 1, "num_decoder_layers": 2, "num_encoder_attention_heads": 2,
         "num_decoder_attention_heads": 2, "encoder_ffn_dim": 24, "decoder_ffn_dim": 24, "max_position_embeddings": 64},
    ),
    "Whisper": (
        "WhisperForConditionalGeneration",
        {**BOTH, "num_mel_bins": 8, "max_source_positions": 16, "max_target_positions": 64},
    ),
    "Speech2Text": (
        "Speech2TextForConditionalGeneration",
        {**BOTH, "input_feat_per_channel": 8, "input_channels": 1, "conv_channels": 16, "max_source_positions": 64,
         "max_target_positions": 64},
    ),
    "Moonshine": (
        "MoonshineForConditionalGeneration",
        {"hidden_size": 16, "intermediate_size": 24, "encoder_num_hidden_layers": 1, "decoder_num_hidden_layers": 2,
         "encoder_num_attention_heads": 2, "decoder_num_attention_heads": 2, "max_position_embeddings": 64},
    ),
}  # fmt: skip

CAUSAL: dict[str, tuple[str, dict[str, Any]]] = {
    "GPT2": ("GPT2LMHeadModel", {"n_embd": 16, "n_layer": 2, "n_head": 2, "n_positions": 64}),
    "Llama": ("LlamaForCausalLM", GROUPED),
    "Qwen2": ("Qwen2ForCausalLM", GROUPED),
    "Qwen3": ("Qwen3ForCausalLM", GROUPED),
    "Gemma": ("GemmaForCausalLM", GROUPED),
    "Gemma2": ("Gemma2ForCausalLM", {**GROUPED, "sliding_window": 4, "query_pre_attn_scalar": 8}),
    "Gemma3": ("Gemma3ForCausalLM", {**GROUPED, "sliding_window": 4, "query_pre_attn_scalar": 8}),
    "Mistral": ("MistralForCausalLM", {**GROUPED, "sliding_window": 4}),
    "Phi": ("PhiForCausalLM", {**PLAIN, "max_position_embeddings": 64}),
    "Phi3": ("Phi3ForCausalLM", {**PLAIN, "max_position_embeddings": 64}),
    "GPTNeoX": ("GPTNeoXForCausalLM", {**PLAIN, "max_position_embeddings": 64}),
    "OPT": (
        "OPTForCausalLM",
        {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "ffn_dim": 24,
         "max_position_embeddings": 64, "word_embed_proj_dim": 16},
    ),
    "Bloom": ("BloomForCausalLM", {"hidden_size": 16, "n_layer": 2, "n_head": 2}),
    "Olmo2": ("Olmo2ForCausalLM", {**PLAIN, "max_position_embeddings": 64}),
    "SmolLM3": ("SmolLM3ForCausalLM", GROUPED),
    "Mamba": ("MambaForCausalLM", {"hidden_size": 16, "num_hidden_layers": 2, "state_size": 4}),
}  # fmt: skip

# Composed of an encoder and a decoder of their own.
COMPOSED = {
    "BERT2BERT": ("EncoderDecoder", "BertConfig", PLAIN, "BertConfig", {**PLAIN, "max_position_embeddings": 64}),
    "BERT2GPT2": ("EncoderDecoder", "BertConfig", PLAIN, "GPT2Config", CAUSAL["GPT2"][1]),
    "RoBERTa2RoBERTa": (
        "EncoderDecoder", "RobertaConfig", PLAIN, "RobertaConfig", {**PLAIN, "max_position_embeddings": 64},
    ),
    "TrOCR": (
        "VisionEncoderDecoder", "ViTConfig", PICTURE, "TrOCRConfig",
        {"hidden_size": 16, "decoder_layers": 2, "decoder_attention_heads": 2, "decoder_ffn_dim": 24,
         "max_position_embeddings": 64, "cross_attention_hidden_size": 16},
    ),
    "ViT2GPT2": ("VisionEncoderDecoder", "ViTConfig", PICTURE, "GPT2Config", CAUSAL["GPT2"][1]),
    "Wav2Vec2ToBERT": (
        "SpeechEncoderDecoder", "Wav2Vec2Config", SOUND, "BertConfig", {**PLAIN, "max_position_embeddings": 64},
    ),
}  # fmt: skip
FAMILIES = (*SEQ2SEQ, *COMPOSED, "T5Gemma", *CAUSAL)


def made(family: str, seed: int = 0, **settings: Any) -> torch.nn.Module:
    """In doubles, with weights large enough that wrong positions and masks show."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = _made(family, settings).double().eval()
        with torch.no_grad():
            for parameter in model.parameters():
                if parameter.requires_grad and parameter.ndim > 1:
                    parameter.copy_(torch.randn(parameter.shape) / 3)
    model.generation_config.forced_eos_token_id = None  # Bart's own forces the end
    return model


def _made(family: str, settings: dict[str, Any]) -> torch.nn.Module:
    if family in COMPOSED:
        kind, reader, reading, writer, writing = COMPOSED[family]
        parts = {"vocab_size": SIZE, "pad_token_id": PAD, "bos_token_id": 0, "eos_token_id": EOS}
        first = getattr(transformers, reader)(**reading, **({} if kind != "EncoderDecoder" else parts))
        second = getattr(transformers, writer)(**writing, **parts, is_decoder=True, add_cross_attention=True)
        config = getattr(transformers, f"{kind}Config").from_encoder_decoder_configs(first, second)
        for name in ("pad_token_id", "eos_token_id", "decoder_start_token_id"):
            setattr(config, name, settings.get(name, IDS[name]))
        return getattr(transformers, f"{kind}Model")(config)
    if family == "T5Gemma":
        part = transformers.T5GemmaModuleConfig(**GROUPED, sliding_window=4, query_pre_attn_scalar=8, **IDS)
        config = transformers.T5GemmaConfig(encoder=part, decoder=part, **IDS)
        return transformers.T5GemmaForConditionalGeneration(config)
    name, sizes = (SEQ2SEQ | CAUSAL)[family]
    model = getattr(transformers, name)
    return model(model.config_class(**{**IDS, **sizes, **settings}))
