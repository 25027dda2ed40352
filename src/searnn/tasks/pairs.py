"""Any pairs of lines from files: what most users have."""

from __future__ import annotations

from typing import Annotated, Any

from searnn.data.lexicon import Lexicon
from searnn.data.store import Progress, quiet
from searnn.settings import Setting
from searnn.tasks.common.text import Split, TextTask, file_splits, learn
from searnn.tasks.settings import Level, MaxVocab, MinCount, Pieces, Test, TokenLevel, Train, Valid


class Pairs(TextTask):
    """Pairs of lines from your own files: one file with a tab between source and target, or two parallel files.

    Files may be packed by gzip or xz. `level` says what a token is: a character ("chars"), a word ("words"), or a piece
    that is learned from the training side ("sentencepiece", as many as `pieces`); `target_level` where the targets
    differ. Units that come fewer than `min_count` times in the training data, or beyond the `max_vocab` most frequent,
    are unknown. A bad line (no tab, an empty side, not UTF-8, NUL, longer than `max_length` units) is refused with its
    number; with `skip_bad_lines` it is left out and counted.
    """

    name = "pairs"

    def __init__(
        self,
        train: Train,
        valid: Valid,
        test: Test | None = None,
        *,
        level: TokenLevel = "chars",
        target_level: Annotated[Level | None, Setting("what a token of the targets is, where it differs")] = None,
        min_count: MinCount = 1,
        max_vocab: MaxVocab = None,
        pieces: Pieces = 8000,
        progress: Progress = quiet,
        **settings: Any,
    ) -> None:
        splits = file_splits(train, valid, test)
        levels = (level, target_level or level)
        limits: dict[str, Any] = {"min_count": min_count, "max_size": max_vocab, "pieces": pieces}

        def lexicons(split: Split) -> tuple[Lexicon, Lexicon]:
            return learn(split, levels, progress, **limits)

        super().__init__(lambda: splits, lexicons, progress=progress, **settings)
