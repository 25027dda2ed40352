"""The units that text is cut into: characters as a reader sees them, words, or pieces of a trained model."""

from __future__ import annotations

import io
import re
import unicodedata
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

import regex  # type: ignore[import-untyped,unused-ignore]

from searnn.types import SearnnError

LEVELS = ("chars", "words", "sentencepiece")
UNKNOWN = "<unk>"
SAMPLE = 2_000_000  # lines that pieces are learned from: the trainer holds them all
AT_ONCE = 1000  # characters given to the trainer at once: it drops lines of more than 4192 bytes without a word

_clusters = regex.compile(r"\X").findall
# In normal form every Latin, Greek, Cyrillic and Han letter stands for itself, and a list of them is ten times faster
# than the search for clusters. Of what is below, CR LF alone is one.
_joining = re.compile("[^\0-\u02ff\u0370-\u0482\u4e00-\u9fff]|\r").search


def normal(text: str) -> str:
    """The text in the normal form NFC."""
    return text if text.isascii() else unicodedata.normalize("NFC", text)


def split_chars(text: str) -> list[str]:
    """The characters as a reader sees them: an accent or a joined emoji stays with what it belongs to."""
    text = normal(text)
    return _clusters(text) if _joining(text) else list(text)


def split_words(text: str) -> list[str]:
    """What stands between whitespace."""
    return normal(text).split()


def join(units: Sequence[str], level: str) -> str:
    """The text that characters or words make."""
    return (" " if level == "words" else "").join(units)


def train_pieces(texts: Iterable[str], size: int) -> bytes:
    """Learn `size` pieces or as many as there are, the unknown among them as number 0; the model as bytes.

    It is learned from the first lines where there are more than `SAMPLE`.
    """
    trainer = _package().SentencePieceTrainer
    model = io.BytesIO()
    failures: list[Exception] = []
    try:
        trainer.train(
            sentence_iterator=_watched(texts, failures),
            model_writer=model,
            model_type="unigram",
            vocab_size=size,
            normalization_rule_name="identity",
            character_coverage=1.0,
            hard_vocab_limit=False,  # fewer where the text has no more: two sides share one number
            num_threads=1,  # more would make the result depend on their order
            unk_id=0,
            bos_id=-1,
            eos_id=-1,
            pad_id=-1,
            unk_surface=UNKNOWN,
            minloglevel=3,
        )
    except RuntimeError as error:
        if failures:  # the trainer keeps nothing of it but its text
            raise failures[0] from None
        raise SearnnError(_refusal(str(error), size)) from error
    return model.getvalue()


def pieces_of(model: bytes) -> Any:
    """The processor of a trained model, which splits and joins."""
    try:
        return _package().SentencePieceProcessor(model_proto=model)
    except RuntimeError as error:
        raise SearnnError("the model of pieces is damaged: learn it again") from error


def _watched(texts: Iterable[str], failures: list[Exception]) -> Iterator[str]:
    """The texts to learn from; what goes wrong in reading them is kept."""
    try:
        for text in map(normal, islice(texts, SAMPLE)):
            start = 0
            while len(text) - start > AT_ONCE:
                # Pieces do not cross a space, so that nothing is lost by a cut there.
                cut = text.rfind(" ", start + 1, start + AT_ONCE)
                cut = cut if cut > 0 else start + AT_ONCE
                yield text[start:cut]
                start = cut
            yield text[start:]
    except Exception as error:
        failures.append(error)
        raise


def _refusal(told: str, size: int) -> str:
    """The trainer's message in our words."""
    if least := re.search(r"required_chars\. \d+ vs (\d+)", told):
        return f"{size} pieces were asked for, the characters of the text alone need {least[1]}: ask for more"
    if size < 1:
        return f"{size} pieces were asked for, expected at least 1"
    return f"no pieces can be learned from the text ({told.strip()}): expected lines that are not empty"


def _package() -> Any:
    """The package that does the work."""
    try:
        import sentencepiece
    except ImportError as error:
        told = "the level 'sentencepiece' needs a package that is not installed"
        raise SearnnError(f"{told}: pip install 'searnn[sentencepiece]'") from error
    return sentencepiece
