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
FORMS = ("nfc", "nfd", "jamo", "none")
UNKNOWN = "<unk>"
FEATURES = "\ufdd0"  # stands after the features in front of a text: a code point that no text has
SAMPLE = 2_000_000  # lines that pieces are learned from: the trainer holds them all
AT_ONCE = 1000  # characters given to the trainer at once: it drops lines of more than 4192 bytes without a word

_clusters = regex.compile(r"\X").findall
# In normal form every Latin, Greek, Cyrillic and Han letter stands for itself, and a list of them is ten times faster
# than the search for clusters. Of what is below, CR LF alone is one.
_joining = re.compile("[^\0-\u02ff\u0370-\u0482\u4e00-\u9fff]|\r").search
_syllables = re.compile("[\uac00-\ud7a3]+")
_jamo = re.compile("[\u1100-\u11ff\ua960-\ua97f\ud7b0-\ud7ff]").search


def normal(text: str, form: str = "nfc") -> str:
    """The text in a normal form: NFC, NFD, NFC with the syllables of Korean taken apart ("jamo"), or as it is."""
    if form == "none" or text.isascii():
        return text
    text = unicodedata.normalize("NFD" if form == "nfd" else "NFC", text)
    return _syllables.sub(lambda found: unicodedata.normalize("NFD", found[0]), text) if form == "jamo" else text


def composed(text: str, form: str) -> str:
    """A text whose units were taken apart, as a reader writes it."""
    return unicodedata.normalize("NFC", text) if form in ("nfd", "jamo") and not text.isascii() else text


def split_chars(text: str, form: str = "nfc") -> list[str]:
    """The characters as a reader sees them: an accent or a joined emoji stays with what it belongs to.

    What the form takes apart are units of their own: all code points of NFD, the letters of Korean syllables of "jamo".
    """
    text = normal(text, form)
    if form == "nfd" or not _joining(text):
        return list(text)
    clusters: list[str] = _clusters(text)
    return clusters if form != "jamo" else [unit for one in clusters for unit in (one if _jamo(one) else (one,))]


def split_words(text: str, form: str = "nfc") -> list[str]:
    """What stands between whitespace."""
    return normal(text, form).split()


def split(text: str, level: str, form: str = "nfc") -> list[str]:
    """The characters or words of a text, after the features in front of it, where it has some: `V;PST` is two units."""
    features, _, plain = text.rpartition(FEATURES)
    units = split_chars(plain, form) if level == "chars" else split_words(plain, form)
    return [*(f"[{one.strip()}]" for one in normal(features).split(";") if one.strip()), *units] if features else units


def join(units: Sequence[str], level: str, form: str = "nfc") -> str:
    """The text that characters or words make."""
    return composed((" " if level == "words" else "").join(units), form)


def train_pieces(texts: Iterable[str], size: int, form: str = "nfc") -> bytes:
    """Learn `size` pieces or as many as there are, the unknown among them as number 0; the model as bytes.

    It is learned from the first lines where there are more than `SAMPLE`.
    """
    trainer = _package().SentencePieceTrainer
    model = io.BytesIO()
    failures: list[Exception] = []
    try:
        trainer.train(
            sentence_iterator=_watched(texts, form, failures),
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


def _watched(texts: Iterable[str], form: str, failures: list[Exception]) -> Iterator[str]:
    """The texts to learn from; what goes wrong in reading them is kept."""
    try:
        for text in (normal(text, form) for text in islice(texts, SAMPLE)):
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
