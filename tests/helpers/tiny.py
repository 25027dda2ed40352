"""Tiny data and runs for tests of the settings and the command line."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np

from searnn.data import letters

Refused = Callable[..., str]  # what the fixture `refused` gives: runs a command that must fail, returns its message
WORDS = ("abc", "bad", "cab", "dabb")


def tiny_letters(path: Path, words: int = 40) -> Path:
    """A file of letters like the real one: noisy pictures of few words, spread over the ten folds."""
    random = np.random.default_rng(0)
    shapes = random.random((26, 128)) < 0.5
    chosen = [WORDS[number % len(WORDS)] for number in range(words)]
    labels = np.array([ord(letter) - ord("a") for word in chosen for letter in word], dtype=np.uint8)
    pixels = shapes[labels] ^ (random.random((len(labels), 128)) < 0.05)
    lengths = np.array([len(word) for word in chosen], dtype=np.uint8)
    folds = (np.arange(words) % 10).astype(np.uint8)
    path.write_bytes(letters.as_npz(letters.Letters(np.packbits(pixels, axis=1), labels, lengths, folds)))
    return path


def ocr_flags(data: Path, run: Path) -> list[str]:
    """Flags that train on the tiny letters for three steps, or more when resumed."""
    sizes = ["--width", "8", "--batch-size", "4", "--steps", "3", "--eval-every", "2", "--device", "cpu"]
    return ["train", "ocr", "--data", str(data), "--run", str(run), "--schedule", "constant", *sizes]


def copy_flags(run: Path) -> list[str]:
    """Flags that train the toy task for three steps."""
    sizes = ["--symbols", "3", "--length", "3", "--examples", "20", "--width", "8", "--batch-size", "4"]
    return ["train", "copy", "--run", str(run), *sizes, "--steps", "3", "--eval-every", "2", "--device", "cpu"]


def pairs_files(folder: Path) -> list[str]:
    """Flags with files of pairs: short strings and the same backwards."""
    random = np.random.default_rng(1)
    strings = ["".join(random.choice(list("abc"), random.integers(1, 5))) for _ in range(24)]
    for name, part in (("train", strings), ("valid", strings[:6]), ("test", strings[6:10])):
        lines = [f"{' '.join(text)}\t{' '.join(reversed(text))}\n" for text in part]
        (folder / f"{name}.tsv").write_text("".join(lines))
    return [part for name in ("train", "valid", "test") for part in (f"--{name}", str(folder / f"{name}.tsv"))]


def pairs_flags(folder: Path, run: Path) -> list[str]:
    """Flags that train on such pairs, word by word, for three steps."""
    sizes = ["--width", "8", "--batch-size", "4", "--steps", "3", "--eval-every", "2", "--device", "cpu"]
    return ["train", "pairs", *pairs_files(folder), "--level", "words", "--run", str(run), *sizes]


def contents(folder: Path) -> dict[str, bytes]:
    """Every file of a folder: to see that nothing was changed."""
    return {str(path.relative_to(folder)): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def clone(folder: Path, to: Path) -> Path:
    """A copy of a run that may be damaged."""
    return Path(shutil.copytree(folder, to))
