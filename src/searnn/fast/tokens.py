"""Whether a kernel takes over from the plain code on token sequences."""

from __future__ import annotations

from torch import Tensor

from searnn.engine import announce, triton_applies
from searnn.types import Vocabulary

WIDEST = 62  # positions of the truth that are kept in one word
MOST = 1 << 31  # a kernel compares tokens as 32-bit integers


def one_word(targets: Tensor) -> bool:
    """Whether a word has a bit for each position of the truth."""
    return 0 < targets.shape[1] <= WIDEST


def kernel_applies(what: str, tokens: Tensor, vocab: Vocabulary, fits: bool = True) -> bool:
    """Whether to run a kernel on these tokens, and tell it: where Triton runs, if it `fits` and token ids are small."""
    if not triton_applies(tokens) or not tokens.numel():
        return False
    taken = fits and vocab.embeddings <= MOST
    announce(f"{what}: {'a kernel' if taken else 'the plain code, too long or too large for the kernel'}")
    return taken
