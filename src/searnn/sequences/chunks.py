"""Chunks of tagged sequences: what B-x, I-x and O mark, by the rules of conlleval.

A chunk is a run of cells of one type. B-x starts one always, I-x after anything but a tag of the same type; it stops
before the next start, before O and at the sequence's end.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from jaxtyping import Bool, Int
from torch import Tensor
from torch.nn.functional import pad

from searnn.sequences.ends import before_end
from searnn.types import SearnnError, Vocabulary


class Chunks(NamedTuple):
    """The chunks by cell: the type (0: none), whether one starts here, and the cell after the last of this one.

    Where there is no chunk, `stops` means nothing.
    """

    types: Int[Tensor, "*N T"]
    starts: Bool[Tensor, "*N T"]
    stops: Int[Tensor, "*N T"]


def check_tags(name: str, tags: tuple[str, ...]) -> None:
    """Refuse what is no tuple of O, B-x and I-x; an empty one is refused where tags are used."""
    if not isinstance(tags, tuple):
        raise SearnnError(f"{name} got tags={tags!r}, expected a tuple of strings, one for each token id")
    for token, tag in enumerate(tags):
        if not isinstance(tag, str) or not (tag == "O" or (tag[:2] in ("B-", "I-") and tag[2:])):
            told = "expected O, B-x or I-x with a type x: rename it (a token that is no tag, as EOS, takes O)"
            raise SearnnError(f"{name} got the tag {tag!r} for token {token}, {told}")


def tag_codes(tags: tuple[str, ...], vocab: Vocabulary, device: torch.device) -> Int[Tensor, "V"]:
    """A number for each token id: 0 for O and what is no tag, 2n - 1 for I and 2n for B of the n-th type."""
    if not tags:
        raise SearnnError("chunks need to know the tags, got none: give tags=(...), one string for each token id")
    last = max((token for token in vocab.choosable if token != vocab.eos), default=0)
    if not last < len(tags) <= vocab.embeddings:
        raise SearnnError(f"got {len(tags)} tags for {vocab}: give one tag for each token id, 0 to {last}")
    types = {name: number for number, name in enumerate(dict.fromkeys(tag[2:] for tag in tags if tag != "O"), 1)}
    codes = torch.zeros(vocab.embeddings, dtype=torch.int32, device=device)
    for token, tag in enumerate(tags):
        if tag != "O":  # one by one: a list would be copied from the host, which a device graph cannot hold
            codes[token].fill_(2 * types[tag[2:]] - (tag[0] == "I"))
    return codes


def find_chunks(codes: Int[Tensor, "*N T"]) -> Chunks:
    """The chunks of sequences of `tag_codes`."""
    width = codes.shape[-1]
    types = (codes + 1) >> 1
    inside = types > 0
    starts = inside & ((codes & 1 == 0) | (types != pad(types[..., :-1], (1, 0))))
    followed = pad((inside & ~starts)[..., 1:], (0, 1))
    following = torch.arange(1, width + 1, dtype=torch.int32, device=codes.device)
    stops = torch.where(followed, width, following).flip(-1).cummin(-1).values.flip(-1)
    return Chunks(types, starts, stops)


def chunk_counts(
    outputs: Int[Tensor, "B *N T"], targets: Int[Tensor, "B T"], vocab: Vocabulary, tags: tuple[str, ...]
) -> tuple[Int[Tensor, "B *N"], Int[Tensor, "B *N"], Int[Tensor, "B *N"]]:
    """How many chunks are in both at the same cells with the same type, how many the output has, how many the truth.

    Summed over a corpus they make its F1: 2 correct / (predicted + true).
    """
    table = tag_codes(tags, vocab, outputs.device)
    ours = find_chunks(table[outputs] * before_end(outputs, vocab))
    truth = targets.view(len(targets), *[1] * (outputs.ndim - 2), -1)
    theirs = find_chunks(table[truth] * before_end(truth, vocab))
    same = ours.starts & theirs.starts & (ours.types == theirs.types) & (ours.stops == theirs.stops)
    predicted = ours.starts.sum(-1)
    return same.sum(-1), predicted, theirs.starts.sum(-1).expand_as(predicted)
