"""The paper's reference policy for translation: the suffix of the truth that scores best after what is written."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, ClassVar, Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from searnn.engine import replaceable
from searnn.sequences.ends import join_suffix, output_lengths
from searnn.sequences.ngrams import (
    BITS,
    Definition,
    bleu,
    count_bits,
    gleu,
    grow,
    lowest,
    never_matching,
    places,
    position_bits,
    shift,
)
from searnn.settings import Setting, checked
from searnn.types import Batch, Branches, SearnnError

ORDERS = {"bleu-1": 1, "bleu-4": 4, "gleu": 4}
SAME = 1e-9  # scores this near are equal but for rounding: every device then takes the same suffix
BLOCK = 1 << 20  # branches times suffixes that are scored at once


@checked
class BestSuffix:
    """Completes with the suffix of the truth, cut to the room, that makes the measure of the whole output best.

    Of suffixes as good, the shortest is taken. `definition` and `unknown` are those of the cost `SentenceBleu`; "gleu"
    reads neither. Outputs must end by themselves.

    Deviation: the authors' release takes the fourth root of the smoothed unigram precision for BLEU-1, which gives the
    brevity penalty more weight; here it is the precision itself. They try the suffixes that fit, here longer ones are
    tried too, and cut.
    """

    measure: Annotated[Literal["bleu-1", "bleu-4", "gleu"], Setting("what the best suffix is best by")] = "bleu-1"
    definition: Definition = "bahdanau"
    unknown: int | None = None
    name: ClassVar[str] = "best-suffix"

    @replaceable
    def complete(self, branches: Branches, batch: Batch) -> Int[Tensor, "B C K T"]:
        if batch.vocabulary.eos is None:
            raise SearnnError("BestSuffix needs outputs that end by themselves, vocab.eos is None: use CopyTarget")
        starts = torch.cat([self._starts(*part) for part in _parts(branches, batch)])
        starts = starts.masked_fill((branches.cells < 0).unsqueeze(-1), 0)  # nothing is written yet: the whole truth
        return join_suffix(branches.prefix, branches.cells, branches.tokens, starts, batch)

    def _starts(self, branches: Branches, batch: Batch) -> Int[Tensor, "B C K"]:
        """Where the best suffix of each branch starts in the truth."""
        targets, vocab, cells, tokens = batch.targets, batch.vocabulary, branches.cells, branches.tokens
        length = output_lengths(targets, vocab).view(-1, 1, 1)
        starts = torch.arange(targets.shape[1] + 1, device=targets.device)  # M of them
        room = (batch.lengths.unsqueeze(1) - cells - 1).clamp(min=0).unsqueeze(-1)
        copied = (length - starts).clamp(min=0).minimum(room)  # [B, C, M]
        never = self.never()
        masks = places(torch.cat([branches.prefix, targets, tokens.flatten(1)], 1), targets, vocab, never)
        written, truth, chosen = torch.tensor_split(masks, (targets.shape[1], 2 * targets.shape[1]), -1)
        chosen = chosen.view(len(masks), *tokens.shape)
        real = position_bits(targets, vocab, never).sum(-1)  # [W, B]
        matches = _count_shared(cells, written, chosen, truth, real, copied, ORDERS[self.measure])
        total = (cells.unsqueeze(-1) + 1 + copied).unsqueeze(2)
        scores = self._score(matches, total, length.unsqueeze(-1))
        scores = scores.masked_fill((starts > length).unsqueeze(2), -torch.inf)
        return torch.where(scores >= scores.amax(-1, keepdim=True) - SAME, starts, 0).amax(-1)

    def never(self) -> int | None:
        """The token whose n-grams match nothing by the measure."""
        return None if self.measure == "gleu" else never_matching(self.definition, self.unknown)

    def _score(self, matches: Tensor, lengths: Tensor, references: Tensor) -> Float[Tensor, "B C K M"]:
        if self.measure == "gleu":
            return gleu(matches, lengths, references, torch.float64)
        return bleu(matches, lengths, references, self.definition, torch.float64)


def _parts(branches: Branches, batch: Batch) -> Iterator[tuple[Branches, Batch]]:
    """A few examples at a time, which bounds the memory."""
    step = max(1, BLOCK // max(1, branches.tokens[0].numel() * (batch.targets.shape[1] + 1)))
    for first in range(0, len(batch.targets), step):
        some = slice(first, first + step)
        part = Branches(branches.prefix[some], branches.cells[some], branches.tokens[some], branches.valid[some])
        yield part, Batch(None, batch.targets[some], batch.lengths[some], vocab=batch.vocab)


def _count_shared(
    cells: Int[Tensor, "B C"],
    written: Int[Tensor, "W B T"],
    chosen: Int[Tensor, "W B C K"],
    truth: Int[Tensor, "W B T"],
    real: Int[Tensor, "W B"],
    copied: Int[Tensor, "B C M"],
    order: int,
) -> Int[Tensor, "O B C K M"]:
    """The n-grams that `prefix[:cell]`, the token and `copied` tokens of the truth from each start on share with it.

    An n-gram inside the copy serves itself. The others take, one after another, what the truth has outside the copy:
    those of the prefix (for all its tokens at once), that which the token ends, and those that run into the copy.
    """
    grams = _grams(real, order)
    left = grams[..., None, None] & ~_inside(copied, len(real), order)  # [W, O, B, C, M]
    runs = written.new_zeros(len(written), order, len(cells))
    trail = [runs]
    for cell in range(written.shape[-1]):
        runs = grow(runs, written[..., cell])
        trail.append(runs)
        before = torch.where(cell < cells, runs.unsqueeze(-1), 0)  # [W, O, B, C]
        left ^= lowest(before.unsqueeze(-1) & left)
    shared = (count_bits(grams)[..., None, None] - count_bits(left)).sum(0).unsqueeze(3)  # [O, B, C, 1, M]
    ends = torch.stack(trail, -1)  # [W, O, B, T+1]
    ends = ends.gather(-1, cells.clamp(0, written.shape[-1]).expand(*ends.shape[:2], -1, -1))
    ends = grow(ends.unsqueeze(-1), chosen).unsqueeze(-1)  # [W, O, B, C, K, 1]
    follow = _follow(truth, copied, order)
    return torch.stack([shared[last] + _take(left[:, last], ends[:, : last + 1], follow) for last in range(order)])


def _take(
    left: Int[Tensor, "W B C M"], ends: Int[Tensor, "W N B C K 1"], follow: list[Tensor]
) -> Int[Tensor, "B C K M"]:
    """How many n-grams of N tokens that hold the chosen token find a place among those `left`."""
    free = left.unsqueeze(3)
    found = torch.zeros_like(ends[0, 0])
    for copied in range(ends.shape[1]):
        grams = ends[:, -1 - copied]
        if copied:
            grams = shift(grams, copied) & follow[copied - 1]
        place = lowest(grams & free)
        found = found + (place != 0).any(0)
        free = free ^ place
    return found


def _grams(real: Int[Tensor, "W B"], order: int) -> Int[Tensor, "W O B"]:
    """Where n-grams of each order end in the truth."""
    grams = [real]
    for _ in range(1, order):
        grams.append(shift(grams[-1], 1) & real)
    return torch.stack(grams, 1)


def _inside(copied: Int[Tensor, "B C M"], words: int, order: int) -> Int[Tensor, "W O B C M"]:
    """The places at which n-grams inside the copied part of the truth end."""
    starts = torch.arange(copied.shape[-1], device=copied.device)
    first = starts + torch.arange(order, device=copied.device).view(-1, 1, 1, 1)  # [O, 1, 1, M]
    return _below(starts + copied, words).unsqueeze(1) & ~_below(first, words)


def _below(places: Int[Tensor, "*N"], words: int) -> Int[Tensor, "W *N"]:
    """All bits below a place."""
    return torch.stack([(1 << (places - word * BITS).clamp(0, BITS)) - 1 for word in range(words)])


def _follow(truth: Int[Tensor, "W B T"], copied: Int[Tensor, "B C M"], order: int) -> list[Tensor]:
    """Where the truth has the first 1 to `order - 1` tokens that are copied from each start on: `[W, B, C, 1, M]`."""
    padded = torch.nn.functional.pad(truth, (0, order))
    starts, follow = copied.shape[-1], []
    runs = padded[..., :starts]
    for size in range(1, order):
        follow.append(torch.where(copied >= size, runs.unsqueeze(2), 0).unsqueeze(3))
        runs = shift(runs, 1) & padded[..., size : size + starts]
    return follow
