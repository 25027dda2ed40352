"""Models of Hugging Face's transformers, made into models that can be searched, and checked when they are."""

from searnn.hf.causal import CausalLM
from searnn.hf.encoder_decoder import EncoderDecoder
from searnn.hf.wrapping import wrap

__all__ = ["CausalLM", "EncoderDecoder", "wrap"]
