"""Settings that several tasks take."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Literal

from searnn.settings import Setting

Paths = Sequence[str | Path]
Level = Literal["chars", "words", "sentencepiece"]
Form = Literal["nfc", "nfd", "jamo", "none"]
ALIKE = "files, likewise"
Train = Annotated[Paths, Setting("training files; pairs: one with tabs, or sources and targets", kind="files")]
Valid = Annotated[Paths, Setting(f"validation {ALIKE}", kind="files")]
Test = Annotated[Paths, Setting(f"test {ALIKE}", kind="files")]
TokenLevel = Annotated[Level, Setting("what a token is")]
Normalise = Annotated[Form, Setting("Unicode form of the text; jamo: Korean syllables as their letters")]
MinCount = Annotated[int, Setting("fewest times that a unit of the vocabulary is in the training data", ge=1)]
MaxVocab = Annotated[int | None, Setting("most units of the vocabulary, or none for no limit", ge=2, none="none")]
Pieces = Annotated[int, Setting("number of subwords that sentencepiece learns", ge=1)]
SkipBadLines = Annotated[bool, Setting("leave bad lines out instead of refusing them")]
Metric = Annotated[str, Setting("what decides which model is best", kind="metric", section="optimisation")]
Seed = Annotated[int, Setting("seed of the data's split, strings or noise, apart from --seed", ge=0, name="data_seed")]
