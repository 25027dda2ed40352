"""The test errors of whole data sets: edit distance, exact match and BLEU, by libraries made for them."""

from __future__ import annotations

from collections.abc import Hashable, Sequence

from rapidfuzz.distance import Levenshtein

from searnn.types import SearnnError

Tokens = Sequence[Hashable]


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
    check_counts(outputs, targets)
    from sacrebleu.metrics.bleu import BLEU  # imported here, since it takes long and most tasks do without

    metric = BLEU(tokenize="none", force=True)  # force: not to be warned that the text is tokenised
    return float(metric.corpus_score(list(outputs), [list(targets)]).score), str(metric.get_signature())


def check_counts(outputs: Sequence[object], targets: Sequence[object]) -> None:
    """Refuse outputs without their targets."""
    if len(outputs) != len(targets) or not targets:
        raise SearnnError(f"{len(outputs)} outputs for {len(targets)} targets: expected one each, at least one")
