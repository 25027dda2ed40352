"""Kernels in place of the plain functions of token sequences: costs, their closed forms, oracles and counts."""

from __future__ import annotations

import torch
from jaxtyping import Int
from torch import Tensor

from searnn.costs import EditDistance, Gleu, Hamming, SentenceBleu
from searnn.engine import announce
from searnn.fast.host import triton_applies
from searnn.oracles import BestSuffix, CopyTarget, OptimalEdit
from searnn.oracles.best_suffix import ORDERS, SAME
from searnn.sequences.ngrams import never_matching
from searnn.types import Batch, Branches, Vocabulary

WIDEST = 62  # positions of the truth that are kept in one word
MOST = 1 << 31  # a kernel compares tokens as 32-bit integers
LONGEST = 4  # the longest n-grams that a kernel counts


def kernel_applies(what: str, tokens: Tensor, vocab: Vocabulary, fits: bool = True) -> bool:
    """Whether to run a kernel on these tokens, and tell it: where Triton runs, if it `fits` and token ids are small."""
    if not triton_applies(tokens) or not tokens.numel():
        return False
    taken = fits and vocab.embeddings <= MOST
    announce(f"{what}: {'a kernel' if taken else 'the plain code, too long or too large for the kernel'}")
    return taken


def one_word(targets: Tensor) -> bool:
    """Whether a word has a bit for each position of the truth."""
    return 0 < targets.shape[1] <= WIDEST


def errors(cost: Hamming | EditDistance, outputs: Int[Tensor, "B *N T"], targets: Int[Tensor, "B T"]) -> Tensor | None:
    """The Hamming or the edit distance of finished outputs as a cost."""
    vocab, edits = cost.bound, isinstance(cost, EditDistance)
    what = "edit distance" if edits else "Hamming distance"
    if not kernel_applies(what, outputs, vocab, not edits or one_word(targets)):
        return None
    from searnn.fast.gpu.distances import count_errors

    return count_errors(outputs, targets, vocab, edits, cost.normalised, torch.get_default_dtype())


def errors_of_completions(cost: Hamming | EditDistance, oracle: str, branches: Branches, batch: Batch) -> Tensor | None:
    """The closed form of either after a copied truth, of the edit distance after the best completion too."""
    vocab, edits = cost.bound, isinstance(cost, EditDistance)
    if oracle not in (CopyTarget.name, OptimalEdit.name if edits else "") or vocab != batch.vocabulary:
        return None
    what = "edit distance of a completion" if edits else "Hamming distance of a completion"
    if not kernel_applies(what, branches.tokens, vocab, not edits or one_word(batch.targets)):
        return None
    from searnn.fast.gpu.completions import optimal_costs
    from searnn.fast.gpu.distances import copy_errors

    dtype = torch.get_default_dtype()
    if oracle == CopyTarget.name:
        return copy_errors(branches, batch, edits, cost.normalised, dtype)
    return optimal_costs(branches, batch, cost.normalised, dtype)


def shared_ngrams(
    cost: SentenceBleu | Gleu, outputs: Int[Tensor, "B *N T"], targets: Int[Tensor, "B T"]
) -> Tensor | None:
    """The BLEU or the GLEU cost of finished outputs."""
    vocab, measure, never = cost.bound, "gleu", None
    if isinstance(cost, SentenceBleu):
        measure, never = cost.definition, never_matching(cost.definition, cost.unknown)
    if not kernel_applies(cost.name.upper(), outputs, vocab, one_word(targets) and cost.order <= LONGEST):
        return None
    from searnn.fast.gpu.ngrams import ngram_costs

    return ngram_costs(outputs, targets, vocab, measure, cost.order, never, torch.get_default_dtype())


def completion(oracle: CopyTarget | OptimalEdit, branches: Branches, batch: Batch) -> Int[Tensor, "B C K T"] | None:
    """What `CopyTarget` or `OptimalEdit` completes."""
    copies, vocab = isinstance(oracle, CopyTarget), batch.vocabulary
    what = "copied truth" if copies else "optimal completion"
    if not kernel_applies(what, branches.tokens, vocab, copies or one_word(batch.targets)):
        return None
    from searnn.fast.gpu.completions import copy_target, optimal_edit

    return copy_target(branches, batch) if copies else optimal_edit(branches, batch, vocab.choosable[0])


def best_suffix(oracle: BestSuffix, branches: Branches, batch: Batch) -> Int[Tensor, "B C K T"] | None:
    """What `BestSuffix` completes; where outputs do not end by themselves the plain code says so."""
    vocab = batch.vocabulary
    if vocab.eos is None or not kernel_applies("best suffix", branches.tokens, vocab, one_word(batch.targets)):
        return None
    from searnn.fast.gpu import best_suffix as kernels

    measure = "gleu" if oracle.measure == "gleu" else oracle.definition
    return kernels.best_suffix(branches, batch, measure, ORDERS[oracle.measure], oracle.never(), SAME)


def edit_distance(
    outputs: Int[Tensor, "B *N T"], targets: Int[Tensor, "B L"], vocab: Vocabulary
) -> Int[Tensor, "B *N"] | None:
    """The edit distance of finished outputs as a count."""
    if not kernel_applies("edit distance", outputs, vocab, one_word(targets)):
        return None
    from searnn.fast.gpu.distances import count_errors

    return count_errors(outputs, targets, vocab, edits=True)


def count_matches(
    outputs: Int[Tensor, "B N T"], targets: Int[Tensor, "B T"], vocab: Vocabulary, order: int, never: int | None = None
) -> Int[Tensor, "O B N"] | None:
    """How many n-grams of each order an output shares with its target."""
    if not kernel_applies("n-grams", outputs, vocab, one_word(targets) and order <= LONGEST):
        return None
    from searnn.fast.gpu import ngrams as kernels

    return kernels.count_matches(outputs, targets, vocab, order, never)
