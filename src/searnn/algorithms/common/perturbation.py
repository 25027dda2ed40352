"""Perturbed targets, drawn by how many edits they are away from the truth."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor

from searnn.rng import uniform
from searnn.sequences import before_end, seal
from searnn.types import Batch, Vocabulary


def usual_tau(vocab: Vocabulary) -> float:
    """1 / (3 + ln n) for n tokens that can be written: about as many edits whatever n is.

    `C(T, e) (n - 1)^e` targets are e substitutions away, so that each of the T tokens is replaced with the odds
    `(n - 1) exp(-1 / tau)`, and about as many are inserted. A fixed tau makes the odds grow with n; this one makes them
    `exp(-3) (n - 1) / n`: one token in about twenty is replaced.
    """
    return 1 / (3 + math.log(max(1, vocab.size - len(_special(vocab)))))


def perturb(
    batch: Batch, tau: float, rng: torch.Generator, *, lengths: bool
) -> tuple[Int[Tensor, "B T"], Int[Tensor, "B"]]:
    """Targets with edits drawn in proportion to exp(-edits / tau), and how many; `lengths` may change or may not."""
    vocab = batch.vocabulary
    truth = seal(batch.targets, batch.lengths, vocab)
    special = _special(vocab)
    count = vocab.size - len(special)  # how many tokens there are to write
    inside = before_end(truth, vocab)
    draws = uniform(truth.shape, rng, truth.device)
    turn = 1 + (draws * (count - 1)).long()  # to another token
    other = _token((_number(truth, special) + turn) % count, special)
    keys = uniform(truth.shape, rng, truth.device)
    if not lengths:
        odds = (count - 1) * math.exp(-1 / tau)
        wrong = inside & (keys < odds / (1 + odds))
        return torch.where(wrong, other, truth), wrong.sum(1)
    counts = draw_counts(batch, inside.sum(1), count, tau, rng)
    ranks = keys.masked_fill(~inside, math.inf).argsort(1).argsort(1)
    kept, substituted = ranks < counts.kept, (ranks >= counts.kept) & (ranks < counts.kept + counts.substituted)
    slots = _kept_slots(counts, truth.shape[1], rng)
    before = kept.cumsum(1) - kept.long()
    # What is inserted goes before a token that is kept, or to the end: after a substituted one, it would be another
    # name for the same edits. So a substituted token follows what was inserted before the last token kept.
    last = torch.where(kept, before, before - 1)
    inserted = torch.where(last < 0, 0, slots.gather(1, last.clamp(min=0)) - last)
    stays = kept | substituted
    place = torch.where(stays, stays.cumsum(1) - 1 + inserted, truth.shape[1] + 1)
    # Everything is written over with new tokens, then what stays is put in its place: the rest is what was inserted.
    fresh = (uniform((len(truth), truth.shape[1] + 2), rng, truth.device) * count).long()
    output = _token(fresh, special).scatter(1, place, torch.where(kept, truth, other))
    columns = torch.arange(output.shape[1], device=truth.device)
    end = stays.sum(1, keepdim=True) + counts.inserted
    if vocab.eos is not None:
        output = torch.where(columns == end, vocab.eos, output)
    output = torch.where(columns < end + (vocab.eos is not None), output, vocab.pad)
    return output[:, : truth.shape[1]], counts.edits


class Counts(NamedTuple):
    """How many tokens of the truth are kept, substituted and deleted, and how many are inserted, each `[B, 1]`."""

    kept: Int[Tensor, "B 1"]
    substituted: Int[Tensor, "B 1"]
    deleted: Int[Tensor, "B 1"]
    inserted: Int[Tensor, "B 1"]

    @property
    def edits(self) -> Int[Tensor, "B"]:
        """All edits together."""
        return (self.substituted + self.deleted + self.inserted).squeeze(1)


def draw_counts(batch: Batch, lengths: Int[Tensor, "B"], count: int, tau: float, rng: torch.Generator) -> Counts:
    """How many edits of each kind: by the number of ways to make them, times exp(-edits / tau).

    Of L tokens, k kept, s substituted by one of `count` - 1 others and d deleted, with i of `count` inserted before
    those kept or at the end: L! / (k! s! d!) · C(k + i, i) · (count - 1)^s · count^i ways.
    What has no room is left out.
    """
    width, device = batch.targets.shape[1], lengths.device
    numbers = torch.arange(width + 1, device=device, dtype=torch.float64)
    kept, others = numbers.unsqueeze(1), numbers  # others: deletions, or insertions
    length = lengths.view(-1, 1, 1)
    substituted = length - kept - others  # [B, T+1, T+1]
    kinds = _log_factorial(length) - _log_factorial(kept) - _log_factorial(others)
    kinds = kinds - _log_factorial(substituted) - (length - kept) / tau
    kinds = kinds + torch.special.xlogy(substituted, count - 1.0)
    kinds = kinds.masked_fill(substituted < 0, -torch.inf)  # [B, kept, deleted]
    placed = _log_factorial(kept + others) - _log_factorial(kept) - _log_factorial(others)
    placed = placed + others * (math.log(count) - 1 / tau)  # [kept, inserted]
    first, second = uniform((len(lengths), 2), rng, device).unbind(1)
    if batch.vocabulary.eos is None:  # as many deletions as insertions
        chosen = _draw((kinds + placed).flatten(1), first)
        deletions = chosen % (width + 1)
    else:
        spare = ((batch.lengths - 1).clamp(max=width) - lengths).clamp(min=0).view(-1, 1, 1)
        least = (others - spare).clamp(min=0).long()  # deletions that as many insertions need
        tails = kinds.flip(-1).logcumsumexp(-1).flip(-1)  # of at least so many deletions
        chosen = _draw((placed + tails.gather(2, least.expand_as(tails))).flatten(1), first)
        row = kinds[torch.arange(len(lengths), device=device), chosen // (width + 1)]
        enough = others >= least[:, 0].gather(1, (chosen % (width + 1)).unsqueeze(1))
        deletions = _draw(row.masked_fill(~enough, -torch.inf), second)
    kept_, inserted, deleted = chosen // (width + 1), chosen % (width + 1), deletions
    return Counts(*(part.unsqueeze(1) for part in (kept_, lengths - kept_ - deleted, deleted, inserted)))


def _kept_slots(counts: Counts, width: int, rng: torch.Generator) -> Int[Tensor, "B M"]:
    """Where the kept tokens stand, in order, among themselves and the inserted ones: all ways are as likely."""
    slots = torch.arange(2 * width, device=counts.kept.device)
    used = slots < counts.kept + counts.inserted
    ranks = uniform(used.shape, rng, used.device).masked_fill(~used, math.inf).argsort(1).argsort(1)
    return (ranks >= counts.kept).long().argsort(stable=True)


def _special(vocab: Vocabulary) -> list[int]:
    """The scored tokens that are not written: what ends an output or stands outside."""
    return [token for token in (vocab.pad, vocab.bos, vocab.eos) if token is not None and token < vocab.size]


def _log_factorial(numbers: Tensor) -> Float[Tensor, "..."]:
    return torch.lgamma(numbers.to(torch.float64) + 1)


def _draw(log_weights: Float[Tensor, "B N"], draws: Float[Tensor, "B"]) -> Int[Tensor, "B"]:
    """An index with a probability in proportion to its weight; never one of no weight."""
    sums = log_weights.softmax(1).cumsum(1)
    return (sums <= draws.unsqueeze(1) * sums[:, -1:]).sum(1)


def _number(tokens: Int[Tensor, "B N"], special: list[int]) -> Int[Tensor, "B N"]:
    """The place of each token among those that can be written."""
    return tokens - sum((tokens > one).long() for one in special)


def _token(numbers: Int[Tensor, "B N"], special: list[int]) -> Int[Tensor, "B N"]:
    """The token of each place."""
    for one in sorted(special):
        numbers = numbers + (numbers >= one)
    return numbers
