"""The door to models of transformers: one function, which chooses by the model's kind and checks what it makes."""

from __future__ import annotations

from collections.abc import Sequence

from torch import nn

from searnn.hf.causal import CausalLM
from searnn.hf.checking import check_model
from searnn.hf.decoder import Decoder
from searnn.hf.encoder_decoder import EncoderDecoder
from searnn.types import SearnnError, Vocabulary


def wrap(
    model: nn.Module, vocab: Vocabulary | None = None, *, prompt: Sequence[int] | None = None, check: bool = True
) -> Decoder:
    """A model of transformers as a `Model` that can be searched and trained in place.

    With `check` a random batch of two is scored in every way and generated from; what differs from the model's own
    results is refused. `vocab` is a task's, for a model made for it; `prompt` the ids that a decoder with an encoder
    reads before it writes, such as Whisper's language and task.
    """
    config = getattr(model, "config", None)
    if getattr(config, "is_encoder_decoder", False):
        made: Decoder = EncoderDecoder(model, vocab, prompt)
    elif prompt is not None:
        raise SearnnError("prompt is given, but a causal language model has its prompts as inputs: leave it out")
    else:
        made = CausalLM(model, vocab)
    if check:
        check_model(made)
    return made
