"""Encoder-decoders of Hugging Face's transformers (T5, BART, Marian and their kin) as models that can be searched."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from inspect import signature
from typing import Any, NamedTuple, cast

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from searnn import tree
from searnn.devices import reads_are_free
from searnn.models.multihead import Heads
from searnn.models.stepping import shift_right
from searnn.types import Inputs, SearnnError, Vocabulary


class HuggingFaceMemory(NamedTuple):
    """What every layer of the decoder attends to in the source, and which positions are real."""

    source: tuple[Heads, ...]
    mask: Bool[Tensor, "B S"]


class HuggingFaceState(NamedTuple):
    """One row's cache in every layer: of the n positions the last `seen` are its own, those before them are filling."""

    cache: tuple[Heads, ...]
    seen: Int[Tensor, "B R"]


class HuggingFace(nn.Module):
    """An encoder-decoder of transformers as a `Model`: the parameters are its own, so it is fine-tuned in place.

    It must have a decoder with relative positions (T5, mT5, ByT5, UMT5) or one whose positions can be given row by row
    (BART, mBART, Marian, Pegasus, PLBart, Blenderbot). Rows forked at different cells have caches of different lengths:
    they are aligned at their ends, and what stands before a row's own is masked.

    Without `vocab` the vocabulary is the model's. PAD, BOS and EOS must be three ids here, but T5 begins outputs with
    PAD and BART with EOS; BOS is then an id beyond the vocabulary, fed as the id that the model begins with. With a
    `vocab`, such as a task's, the model needs an embedding for each of its tokens.
    """

    def __init__(self, model: nn.Module, vocab: Vocabulary | None = None) -> None:
        super().__init__()
        config: Any = getattr(model, "config", None)
        self.model: Any = cast(Any, model)
        if not getattr(config, "is_encoder_decoder", False) or self.model.get_output_embeddings() is None:
            told = "expected an encoder-decoder of transformers that scores tokens"
            raise SearnnError(f"the model is a {type(model).__name__}: {told}, such as T5ForConditionalGeneration")
        if getattr(config, "decoder_layerdrop", 0):
            raise SearnnError(f"decoder_layerdrop is {config.decoder_layerdrop}, it must be 0: rows need every layer")
        self.first, self.filling = _special(model, "decoder_start_token_id"), _special(model, "pad_token_id")
        size = len(self.model.get_output_embeddings().weight)
        self.vocab = vocab if vocab is not None else self._own_vocabulary(size)
        self._check(size)
        positions: Any = getattr(self.model.get_decoder(), "embed_positions", None)
        if positions is not None and "position_ids" not in signature(positions.forward).parameters:
            told = f"the positions of a {type(model).__name__} cannot be given row by row"
            raise SearnnError(f"{told}: take a model like T5, BART or Marian")
        self.longest: int | None = None if positions is None else config.max_position_embeddings

    def _own_vocabulary(self, size: int) -> Vocabulary:
        eos = _special(self.model, "eos_token_id")
        bos = size if self.first in (self.filling, eos) else self.first
        return Vocabulary(size, pad=self.filling, bos=bos, eos=eos)

    def _check(self, size: int) -> None:
        """Refuse a vocabulary that the model cannot write, or whose tokens it takes for its first."""
        if self.vocab.size > size:
            told = f"the vocabulary has {self.vocab.size} tokens, the model scores {size}"
            raise SearnnError(f"{told}: give config.vocab_size at least {self.vocab.size}")
        for name, token in (("decoder_start_token_id", self.first), ("pad_token_id", self.filling)):
            if token in self.vocab.choosable and token != self.vocab.eos:
                free = f"config.{name} must be another id, such as {self.vocab.size}"
                raise SearnnError(f"the model's {name} is {token}, an ordinary token of the vocabulary: {free}")

    def row_bytes(self, memory: HuggingFaceMemory, length: int) -> int:
        """About how many bytes one row takes in a step: its cache before and after, the source's, and scores."""
        keys = memory.source[0].keys  # [B, H, S, E]
        held = 2 * len(memory.source) * keys.shape[1] * keys.shape[3] * (3 * length + keys.shape[2])
        return keys.element_size() * (held + 4 * self.vocab.size)

    def encode(self, inputs: Inputs) -> HuggingFaceMemory:
        """Run the encoder, and one step of the decoder for the source's keys and values."""
        values, lengths = inputs
        # Of a source that is all padding one position stays visible; padding is one token, so that it tells nothing.
        visible = torch.arange(values.shape[1], device=values.device) < lengths.clamp(min=1).unsqueeze(1)
        real = visible & (lengths > 0).unsqueeze(1)
        if values.is_floating_point():
            read = {"inputs_embeds": values * real.unsqueeze(-1)}
        else:
            read = {"input_ids": values.masked_fill(~real, self.filling)}
        hidden = self.model.get_encoder()(**read, attention_mask=visible.long()).last_hidden_state
        begun = torch.full_like(lengths.unsqueeze(1), self.first)
        _, cache = self._decode(begun, hidden, visible, _cache((), ()))
        return HuggingFaceMemory(_kept(cache.cross_attention_cache), visible)

    def start(self, memory: HuggingFaceMemory) -> HuggingFaceState:
        """One row per example, BOS not yet consumed."""
        empty = tuple(Heads(*(part[:, None, :, :0] for part in kept)) for kept in memory.source)
        seen = torch.zeros(len(memory.mask), 1, dtype=torch.long, device=memory.mask.device)
        return HuggingFaceState(empty, seen)

    def step(
        self, memory: HuggingFaceMemory, state: HuggingFaceState, tokens: Int[Tensor, "B R"]
    ) -> tuple[Float[Tensor, "B R V"], HuggingFaceState]:
        """Consume one token per row; score the next. The library knows no rows, so each has a copy of the source."""
        examples, rows = tokens.shape
        past = state.cache[0].keys.shape[3]
        seen = torch.arange(past + 1, device=tokens.device) >= past - state.seen.unsqueeze(-1)  # [B, R, n + 1]
        own = tree.map_leaves(lambda leaf: leaf.flatten(0, 1), state.cache)
        source, mask = tree.map_leaves(lambda leaf: leaf.repeat_interleave(rows, dim=0), (memory.source, memory.mask))
        with self._positions(state.seen.flatten()):
            scores, cache = self._decode(
                tokens.reshape(-1, 1), None, mask, _cache(own if past else (), source), seen.flatten(0, 1).long()
            )
        written = _kept(cache.self_attention_cache)
        grown = tree.map_leaves(lambda leaf: leaf.view(examples, rows, *leaf.shape[1:]), written)
        return scores.view(examples, rows, -1), HuggingFaceState(grown, state.seen + 1)

    def trace(
        self, memory: HuggingFaceMemory, tokens: Int[Tensor, "B T"]
    ) -> tuple[Float[Tensor, "B T V"], tuple[Heads, ...]]:
        """Score a given sequence; the trail is every layer's keys and values of it."""
        reads = shift_right(tokens, self.vocab.bos)
        scores, cache = self._decode(reads, None, memory.mask, _cache((), memory.source))
        return scores, _kept(cache.self_attention_cache)

    def fork(
        self, memory: HuggingFaceMemory, trail: tuple[Heads, ...], cells: Int[Tensor, "B R"]
    ) -> tuple[HuggingFaceMemory, HuggingFaceState]:
        """A row before cell c takes the first c + 1 positions of the trail (BOS is one), aligned at their end."""
        longest = trail[0].keys.shape[2]
        if reads_are_free(cells.device) and cells.numel():
            longest = int(cells.max()) + 1
        places = torch.arange(longest, device=cells.device) - (longest - 1 - cells.unsqueeze(-1))  # [B, R, n]
        index = places.clamp(min=0).flatten(1)

        def take(leaf: Tensor) -> Tensor:
            taken = tree.take_rows(leaf.transpose(1, 2), index)  # [B, R n, H, E]
            return taken.view(*places.shape, *taken.shape[2:]).transpose(2, 3)  # type: ignore[no-any-return]

        return memory, HuggingFaceState(tree.map_leaves(take, trail), cells + 1)

    def _decode(
        self,
        tokens: Int[Tensor, "N Q"],
        hidden: Float[Tensor, "N S D"] | None,
        mask: Bool[Tensor, "N S"],
        cache: Any,
        seen: Int[Tensor, "N n"] | None = None,
    ) -> tuple[Float[Tensor, "N Q V"], Any]:
        """Run the decoder over the tokens after those in the cache."""
        from transformers.modeling_outputs import BaseModelOutput

        length = tokens.shape[1] + cache.get_seq_length()
        if self.longest is not None and length > self.longest:
            told = f"the model has positions for {self.longest} tokens, an output has {length}"
            raise SearnnError(f"{told}: shorten the targets, or take a model with more max_position_embeddings")
        if hidden is None:  # once the cache holds the source, only the shape of this is looked at
            hidden = next(iter(self.model.parameters())).new_zeros(1, 1, 1).expand(*mask.shape, 1)
        fed = tokens.masked_fill(tokens == self.vocab.pad, self.filling)
        found = self.model(
            encoder_outputs=BaseModelOutput(last_hidden_state=hidden),
            attention_mask=mask.long(),
            decoder_input_ids=fed.masked_fill(tokens == self.vocab.bos, self.first),
            decoder_attention_mask=seen,
            past_key_values=cache,
            use_cache=True,
            return_dict=True,
        )
        return found.logits[..., : self.vocab.size], found.past_key_values

    @contextmanager
    def _positions(self, places: Int[Tensor, "N"]) -> Iterator[None]:
        """Have every row read the embedding of its own position; a decoder with relative positions needs nothing."""
        module = getattr(self.model.get_decoder(), "embed_positions", None)

        def give(_: nn.Module, words: tuple[Any, ...], named: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
            return words, {**named, "position_ids": places}

        def shape(_: nn.Module, __: tuple[Any, ...], embedded: Tensor) -> Tensor:
            return embedded.reshape(len(places), 1, -1)  # the module takes them for positions of one row

        with ExitStack() as hooks:
            if module is not None:
                hooks.callback(module.register_forward_pre_hook(give, with_kwargs=True).remove)
                hooks.callback(module.register_forward_hook(shape).remove)
            yield


def _special(model: nn.Module, name: str) -> int:
    """A token id that the model's settings name; of several the first."""
    found = None
    for settings in (model.config, getattr(model, "generation_config", None)):
        found = getattr(settings, name, None) if found is None else found
    found = found[0] if isinstance(found, (list, tuple)) else found
    if found is None:
        raise SearnnError(f"the model's {name} is not set: set config.{name}")
    return int(found)


def _cache(own: tuple[Heads, ...], source: tuple[Heads, ...]) -> Any:
    """The library's cache with what rows have written and what they attend to in the source."""
    from transformers import DynamicCache, EncoderDecoderCache

    caches = []
    for held in (own, source):
        cache = DynamicCache()
        for layer, kept in enumerate(held):
            cache.update(kept.keys, kept.values, layer)
        caches.append(cache)
    return EncoderDecoderCache(*caches)


def _kept(cache: Any) -> tuple[Heads, ...]:
    return tuple(Heads(layer.keys, layer.values) for layer in cache.layers)
