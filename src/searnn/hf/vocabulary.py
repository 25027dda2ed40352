"""Which ids of a model of transformers are PAD, BOS and EOS, and how many positions it has."""

from __future__ import annotations

from typing import Any

from searnn.types import SearnnError, Vocabulary

LIMITS = ("max_target_positions", "max_decoder_position_embeddings", "max_position_embeddings")


def special(model: Any, name: str) -> int | None:
    """A token id that the model's settings name; of several the first, of none None."""
    found = None
    for settings in (model.config, getattr(model, "generation_config", None)):
        found = getattr(settings, name, None) if found is None else found
    found = found[0] if isinstance(found, (list, tuple)) else found
    return None if found is None else int(found)


def needed(model: Any, name: str) -> int:
    """The same, where the model cannot do without."""
    found = special(model, name)
    if found is None:
        raise SearnnError(f"the model's {name} is not set: set config.{name}")
    return found


def own_vocabulary(size: int, pad: int | None, first: int | None, eos: int) -> Vocabulary:
    """PAD, BOS and EOS must be three ids here: one that another has, or that is not set, lies beyond the vocabulary."""
    free = iter((size, size + 1))
    pad = next(free) if pad in (None, eos) else pad
    bos = next(free) if first in (None, pad, eos) else first
    assert pad is not None
    assert bos is not None
    return Vocabulary(size, pad=pad, bos=bos, eos=eos)


def scored_tokens(model: Any, expected: str) -> int:
    """How many tokens the model scores; what scores none is refused."""
    embeddings = model.get_output_embeddings() if has_config(model) else None
    if embeddings is None:
        raise SearnnError(f"the model is a {type(model).__name__}: expected {expected}")
    return len(embeddings.weight)


def has_config(model: Any) -> bool:
    """Whether it is a model of transformers."""
    return getattr(model, "config", None) is not None


def positions_of(config: Any) -> int | None:
    """The most positions that outputs can have, where the configuration says."""
    found = (getattr(config, name, None) for name in LIMITS)
    return next((limit for limit in found if limit is not None), None)
