"""The test errors of whole data sets: edits, outputs that are wrong, BLEU and chrF, by libraries made for them."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

from rapidfuzz.distance import Levenshtein

from searnn.types import SearnnError

Tokens = Sequence[Hashable]

NAMES = ("wer", "per", "error", "sequence_error", "exact", "bleu", "chrf")  # of tasks on pairs of texts
IN_PERCENT = ("wer", "per", "exact")
HIGHER = frozenset({"exact", "bleu", "chrf"})  # is better


def rates(outputs: Sequence[Tokens], targets: Sequence[Tokens]) -> Mapping[str, float]:
    """`error` and `sequence_error` as shares, and in per cent `per`, `wer` and `exact`, what is not wrong."""
    error, wrong = edit_error(outputs, targets), sequence_error(outputs, targets)
    return {"error": error, "sequence_error": wrong, "per": 100 * error, "wer": 100 * wrong, "exact": 100 * (1 - wrong)}


def edit_error(outputs: Sequence[Tokens], targets: Sequence[Tokens]) -> float:
    """The edit distance of all outputs over the length of all targets, where an empty one counts as 1."""
    check_counts(outputs, targets)
    distance = sum(Levenshtein.distance(output, target) for output, target in zip(outputs, targets, strict=True))
    return distance / sum(max(1, len(target)) for target in targets)


def sequence_error(outputs: Sequence[Tokens], targets: Sequence[Tokens]) -> float:
    """The share of outputs that are not exactly their target."""
    check_counts(outputs, targets)
    return sum(list(a) != list(b) for a, b in zip(outputs, targets, strict=True)) / len(targets)


def corpus_bleu(outputs: Sequence[str], targets: Sequence[str]) -> tuple[float, str]:
    """BLEU of a whole data set by sacrebleu, tokenised as given, from 0 to 100, and its signature."""
    from sacrebleu.metrics.bleu import BLEU  # imported here, since it takes long and most tasks do without

    # force: not to be warned that the text is tokenised
    return _by_sacrebleu(BLEU(tokenize="none", force=True), outputs, targets)


def corpus_chrf(outputs: Sequence[str], targets: Sequence[str]) -> tuple[float, str]:
    """chrF of a whole data set by sacrebleu, of n-grams of characters, from 0 to 100, and its signature."""
    from sacrebleu.metrics.chrf import CHRF

    return _by_sacrebleu(CHRF(), outputs, targets)


def _by_sacrebleu(metric: Any, outputs: Sequence[str], targets: Sequence[str]) -> tuple[float, str]:
    """A score of sacrebleu, and its signature."""
    check_counts(outputs, targets)
    return float(metric.corpus_score(list(outputs), [list(targets)]).score), str(metric.get_signature())


def check_counts(outputs: Sequence[object], targets: Sequence[object]) -> None:
    """Refuse outputs without their targets."""
    if len(outputs) != len(targets) or not targets:
        raise SearnnError(f"{len(outputs)} outputs for {len(targets)} targets: expected one each, at least one")
