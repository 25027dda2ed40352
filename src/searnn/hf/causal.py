"""Causal language models of transformers: the prompt is the input, what follows it is the output."""

from __future__ import annotations

from contextlib import nullcontext
from inspect import signature
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from searnn import tree
from searnn.hf import caches
from searnn.hf.caches import HuggingFaceMemory, aligned_at_end
from searnn.hf.decoder import Decoder
from searnn.hf.inputs import read
from searnn.hf.positions import embedding_of, given_positions
from searnn.hf.vocabulary import needed, own_vocabulary, positions_of, scored_tokens, special
from searnn.models.multihead import Heads
from searnn.types import SearnnError, Vocabulary


class CausalLM(Decoder):
    """A causal language model as a `Model`: an input is a prompt, its last token is fed as BOS.

    Prompts may be padded on either side; they need an `attention_mask`, or must be of one length. PAD and BOS lie
    beyond the vocabulary, PAD where the model has none or where it is EOS.
    """

    def __init__(self, model: nn.Module, vocab: Vocabulary | None = None) -> None:
        super().__init__(model)
        size = scored_tokens(model, "a causal language model of transformers, such as GPT2LMHeadModel")
        pad, eos = special(model, "pad_token_id"), needed(model, "eos_token_id")
        self.vocab = vocab if vocab is not None else own_vocabulary(size, pad, None, eos)
        if self.vocab.size > size:
            told = f"the vocabulary has {self.vocab.size} tokens, the model scores {size}"
            raise SearnnError(f"{told}: give config.vocab_size at least {self.vocab.size}")
        self._filling = eos if pad is None else pad
        self._by_id = "position_ids" in signature(self.model.forward).parameters
        self._module = None if self._by_id else embedding_of(self.model)
        self.longest: int | None = positions_of(self.model.config)

    @property
    def filling(self) -> int:
        """The id that is fed for PAD."""
        return self._filling

    def encode(self, inputs: Any) -> HuggingFaceMemory:
        """Run the model on the prompts, and move what it keeps of them to the end of their padding."""
        named = read(inputs, self.filling)
        ids = named.get("input_ids")
        if ids is None:
            raise SearnnError(f"the inputs have {', '.join(named)}: a causal language model needs input_ids")
        mask = named.get("attention_mask")
        places = torch.arange(ids.shape[1], device=ids.device).expand_as(ids)
        last = torch.full_like(ids[:, 0], ids.shape[1] - 1) if mask is None else mask.sum(1) - 1
        # With padding behind them no token is without anything to see, of which some models make NaN.
        _, written = self._run(HuggingFaceMemory((), last, last), (), ids, places, mask)
        before = places < last.unsqueeze(1)
        begun = tree.map_leaves(
            lambda leaf: aligned_at_end(leaf.transpose(1, 2), before)[:, 1:].transpose(1, 2), written
        )
        return HuggingFaceMemory(begun, last, ids.gather(1, last.unsqueeze(1)).squeeze(1))

    def _run(
        self,
        memory: HuggingFaceMemory,
        own: tuple[Heads, ...],
        tokens: Int[Tensor, "N Q"],
        places: Int[Tensor, "N Q"],
        visible: Tensor | None,
    ) -> tuple[Float[Tensor, "N Q V"], tuple[Heads, ...]]:
        cache = caches.own_cache(own)
        length = tokens.shape[1] + cache.get_seq_length()
        self._check_call(length)
        more: dict[str, Any] = {"position_ids": places} if self._by_id else {}
        with nullcontext() if self._module is None else given_positions(self._module, places, length):
            found = self.model(
                input_ids=tokens,
                attention_mask=visible,
                past_key_values=cache,
                use_cache=True,
                return_dict=True,
                **more,
            )
        return found.logits[..., : self.vocab.size], caches.kept(found.past_key_values)
