"""Encoder-decoders of transformers, of text, sound or pictures, as models that can be searched."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from inspect import signature
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from searnn.hf import caches
from searnn.hf.caches import HuggingFaceMemory
from searnn.hf.decoder import Decoder
from searnn.hf.inputs import read
from searnn.hf.positions import embedding_of, first_id, given_positions
from searnn.hf.vocabulary import needed, own_vocabulary, positions_of, scored_tokens, special
from searnn.models.multihead import Heads
from searnn.types import SearnnError, Vocabulary


class EncoderDecoder(Decoder):
    """An encoder-decoder of transformers as a `Model`: the parameters are its own, so it is fine-tuned in place.

    Without `vocab` the vocabulary is the model's. PAD, BOS and EOS must be three ids here, but T5 begins outputs with
    PAD and BART with EOS; BOS is then an id beyond the vocabulary, fed as the id that the model begins with. With a
    `vocab`, such as a task's, the model needs an embedding for each of its tokens.

    `prompt` is what the decoder reads before it writes: by default the token it starts with, and the one that it is
    forced to write first. Outputs and targets come after it.
    """

    def __init__(self, model: nn.Module, vocab: Vocabulary | None = None, prompt: Sequence[int] | None = None) -> None:
        super().__init__(model)
        size = scored_tokens(model, "an encoder-decoder of transformers that scores tokens, such as T5")
        if not getattr(self.model.config, "is_encoder_decoder", False):
            raise SearnnError(f"the model is a {type(model).__name__}: expected an encoder-decoder of transformers")
        for settings in (self.model.config, self.model.get_decoder().config):
            if getattr(settings, "decoder_layerdrop", 0):
                told = f"decoder_layerdrop is {settings.decoder_layerdrop}"
                raise SearnnError(f"{told}, it must be 0: rows need every layer")
        self._filling = needed(model, "pad_token_id")
        self.prompt = tuple(prompt or self._own_prompt())
        self.vocab = vocab if vocab is not None else self._own_vocabulary(size)
        self._check(size)
        decoder = self.model.get_decoder()
        arguments = signature(self.model.forward).parameters
        composed = "decoder_input_ids" in arguments and "kwargs" in arguments
        self._by_id = "decoder_position_ids" in arguments or (
            composed and "position_ids" in signature(decoder.forward).parameters
        )
        self._first_id = first_id(decoder) if self._by_id else 0
        self._module = None if self._by_id else embedding_of(decoder)
        absolute = self._by_id or self._module is not None
        self.longest: int | None = positions_of(decoder.config) if absolute else None

    @property
    def filling(self) -> int:
        """The id that is fed for PAD."""
        return self._filling

    def _own_prompt(self) -> tuple[int, ...]:
        forced = special(self.model, "forced_bos_token_id")
        first = needed(self.model, "decoder_start_token_id")
        return (first,) if forced is None else (first, forced)

    def _own_vocabulary(self, size: int) -> Vocabulary:
        first = self.prompt[0] if len(self.prompt) == 1 else None
        return own_vocabulary(size, self.filling, first, needed(self.model, "eos_token_id"))

    def _check(self, size: int) -> None:
        """Refuse a vocabulary that the model cannot write, or whose tokens it takes for its first."""
        if self.vocab.size > size:
            told = f"the vocabulary has {self.vocab.size} tokens, the model scores {size}"
            raise SearnnError(f"{told}: give config.vocab_size at least {self.vocab.size}")
        starts = (("decoder_start_token_id", self.prompt[-1]),) if len(self.prompt) == 1 else ()
        for name, token in (*starts, ("pad_token_id", self.filling)):
            if token in self.vocab.choosable and token != self.vocab.eos:
                free = f"config.{name} must be another id, such as {self.vocab.size}"
                raise SearnnError(f"the model's {name} is {token}, an ordinary token of the vocabulary: {free}")

    def encode(self, inputs: Any) -> HuggingFaceMemory:
        """Run the encoder, and the decoder on its prompt for the source's keys and values."""
        named = read(inputs, self.filling)
        examples = len(next(value for value in named.values() if isinstance(value, Tensor)))
        device = next(iter(self.model.parameters())).device
        prompt = torch.tensor(self.prompt, device=device).expand(examples, -1)
        self._check_call(len(self.prompt))
        empty = caches.crossed_cache((), ())
        found = self.model(**named, decoder_input_ids=prompt, past_key_values=empty, use_cache=True, return_dict=True)
        begun = len(self.prompt) - 1
        written = caches.kept(found.past_key_values.self_attention_cache)
        return HuggingFaceMemory(
            begun=tuple(Heads(*(part[:, :, :begun] for part in layer)) for layer in written),
            seen=torch.full((examples,), begun, device=device),
            first=prompt[:, -1],
            source=caches.kept(found.past_key_values.cross_attention_cache),
            mask=named.get("attention_mask"),
            hidden=tuple(found.encoder_last_hidden_state.shape[1:]),
        )

    def _run(
        self,
        memory: HuggingFaceMemory,
        own: tuple[Heads, ...],
        tokens: Int[Tensor, "N Q"],
        places: Int[Tensor, "N Q"],
        visible: Tensor | None,
    ) -> tuple[Float[Tensor, "N Q V"], tuple[Heads, ...]]:
        from transformers.modeling_outputs import BaseModelOutput

        cache = caches.crossed_cache(own, memory.source)
        length = tokens.shape[1] + cache.get_seq_length()
        self._check_call(length)
        # Once the cache holds the source, only the shape of this is looked at.
        hidden = next(iter(self.model.parameters())).new_zeros(1, 1, 1).expand(len(tokens), *memory.hidden)
        more: dict[str, Any] = {} if memory.mask is None else {"attention_mask": memory.mask}
        if self._by_id:
            more["decoder_position_ids"] = places + self._first_id
        with nullcontext() if self._module is None else given_positions(self._module, places, length):
            found = self.model(
                encoder_outputs=BaseModelOutput(last_hidden_state=hidden),
                decoder_input_ids=tokens,
                decoder_attention_mask=visible,
                past_key_values=cache,
                use_cache=True,
                return_dict=True,
                **more,
            )
        return found.logits[..., : self.vocab.size], caches.kept(found.past_key_values.self_attention_cache)
