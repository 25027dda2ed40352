"""Any pairs of lines from files: what most users have."""

from __future__ import annotations

from typing import Annotated, Any

from searnn.data.batching import Examples
from searnn.data.lexicon import Lexicon
from searnn.data.store import Progress, quiet
from searnn.data.units import FEATURES
from searnn.settings import Setting, check
from searnn.tasks.common.text import Split, TextTask, file_splits, learn
from searnn.tasks.settings import Form, Level, MaxVocab, MinCount, Normalise, Pieces, Test, TokenLevel, Train, Valid
from searnn.types import SearnnError

SEEN = 100_000  # tokens of the targets that are looked at
SPACED = 0.4  # spaces for a character where words are short symbols; English text has 0.2


class Pairs(TextTask):
    """Pairs of lines from your own files: one file with a tab between source and target, or two parallel files.

    Files may be packed by gzip or xz. `level` says what a token is: a character ("chars"), a word ("words"), or a piece
    that is learned from the training side ("sentencepiece", as many as `pieces`); `target_level` where the targets
    differ. `normalise` is the Unicode form that the text is brought to, `target_normalise` that of the targets: "nfd"
    takes accents off their letters and "jamo" Korean syllables apart, and outputs are put together again. Where files
    have three columns, `feature_column` is the one with features of the source, such as V;PST, which are units in front
    of it. Units that come fewer than `min_count` times in the training data, or beyond the `max_vocab` most frequent,
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
        normalise: Normalise = "nfc",
        target_normalise: Annotated[Form | None, Setting("that of the targets, where it differs")] = None,
        feature_column: Annotated[
            int | None,
            Setting("column of features, with ; between, that stand before the source", ge=1, le=3, name="features"),
        ] = None,
        min_count: MinCount = 1,
        max_vocab: MaxVocab = None,
        pieces: Pieces = 8000,
        progress: Progress = quiet,
        **settings: Any,
    ) -> None:
        check(Pairs, locals())
        self.feature_column = feature_column
        splits = file_splits(train, valid, test, feature_column)
        levels = (level, target_level or level)
        if feature_column is not None and level == "sentencepiece":
            raise SearnnError("features are units beside characters or words: give --level chars or words with them")
        forms = (normalise, target_normalise or normalise)
        limits: dict[str, Any] = {"min_count": min_count, "max_size": max_vocab, "pieces": pieces, "forms": forms}

        def lexicons(split: Split) -> tuple[Lexicon, Lexicon]:
            return learn(split, levels, progress, **limits)

        super().__init__(lambda: splits, lexicons, progress=progress, **settings)

    def prepare(self, line: str) -> str:
        """A line in the form of the training data; features stand in their column, where the target is left out."""
        if self.feature_column is None:
            return super().prepare(line)
        fields = [field.strip() for field in line.split("\t")]
        if len(fields) != 2:
            raise SearnnError(f"it has {len(fields)} columns: expected the source and its features, in their order")
        front = fields.pop(min(self.feature_column, 2) - 1)
        return front + FEATURES + fields[0]

    def make(self, split: str) -> Examples:
        """Encode a split; targets that look like units with spaces between, learned with their spaces, are told."""
        examples = super().make(split)
        space = self.target.ids.get(" ")
        if split == "train" and self.target.level == "chars" and space is not None:
            tokens = examples.targets.values[:SEEN]
            spaces = int((tokens == space).sum())
            if spaces > SPACED * int(((tokens != space) & (tokens != self.vocab.eos)).sum()):
                told = "the targets look like units with spaces between, and their spaces are learned too"
                self.notes.append(f"{told}: --target-level words takes what stands between spaces as a unit")
        return examples
