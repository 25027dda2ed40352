"""Acceleration: Triton kernels, passes compiled by Numba, CUDA graphs, and what they need to know of the host.

Nothing imports this package but `searnn.engine`, which asks for the faster ways of a plain function by its name. Each
way takes the function's arguments and gives its result up to rounding, or None where it does not apply.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from typing import Any

WAYS: dict[str, tuple[str, ...]] = {  # of the functions marked `replaceable`, as module:function in this package
    "searnn.engine.has_kernels": ("host:has_kernels",),
    "searnn.costs.hamming.Hamming.__call__": ("tokens:errors",),
    "searnn.costs.hamming.Hamming.closed_form": ("tokens:errors_of_completions",),
    "searnn.costs.edit_distance.EditDistance.__call__": ("tokens:errors",),
    "searnn.costs.edit_distance.EditDistance.closed_form": ("tokens:errors_of_completions",),
    "searnn.costs.ngrams.SentenceBleu.__call__": ("tokens:shared_ngrams",),
    "searnn.costs.ngrams.Gleu.__call__": ("tokens:shared_ngrams",),
    "searnn.oracles.copying.CopyTarget.complete": ("tokens:completion",),
    "searnn.oracles.copying.OptimalEdit.complete": ("tokens:completion",),
    "searnn.oracles.best_suffix.BestSuffix.complete": ("tokens:best_suffix",),
    "searnn.sequences.edit.edit_distance": ("tokens:edit_distance",),
    "searnn.sequences.ngrams.count_matches": ("tokens:count_matches",),
    "searnn.searching.waves.open_rows": ("cpu.decoder:open_rows",),
    "searnn.models.attention.additive_scores": ("decoding:additive_scores",),
    "searnn.models.encoder_decoder.shared_products": ("decoding:no_products",),
    "searnn.decoding.loop.unroll": ("decoding:unroll",),
    "searnn.policies.learned.finish_greedily": ("cpu.decoder:finish_greedily",),
    "searnn.training.recording.records_steps": ("graphs:records_steps",),
    "searnn.training.recording.recorder": ("graphs:recorder",),
}


def ways_of(name: str) -> tuple[Callable[..., Any], ...]:
    """The faster ways of a plain function, the first to be tried first."""
    return tuple(_way(place) for place in WAYS.get(name, ()))


def _way(place: str) -> Callable[..., Any]:
    module, _, function = place.partition(":")
    way: Callable[..., Any] = vars(import_module(f"searnn.fast.{module}"))[function]
    return way
