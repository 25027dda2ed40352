"""Tiny files in place of every public data set, in the layout in which they are looked for."""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import replace
from itertools import product
from pathlib import Path

import pytest
from tiny import tiny_letters

from searnn.data import sigmorphon, store

PLACES = ("at home", "in town", "by the sea", "on a hill")
WORDS = ["".join(parts) for parts in product("bdfglmnprt", "aeiou", "bdgnt")]  # 250: hashes of them fill every part
CAPTIONS = [(f"ein {word} schläft .", f"a {word} sleeps .") for word in WORDS[:20]]
TAGGED = "The DT B-NP\nbig JJ I-NP\npound NN I-NP\nfell VBD B-VP\n. . O\n\nIt PRP B-NP\nrose VBD B-VP\n. . O\n\n"
GERMAN = ("der hund", "die katze", "ein haus", "das wei\u00dfe boot", "m\u00e4nner", "l\u00e4uft .")
ENGLISH = ("the dog", "the cat", "a house", "the white boat", "men", "runs .")
TAGS = ("B-NP", "I-NP", "B-VP", "I-VP", "O")
Tagged = list[tuple[str, str, str]]  # words with their parts of speech and tags


def tiny_data(folder: Path) -> Path:
    """A folder for `SEARNN_DATA` with something of every data set."""
    lines = [f"The {word} is {place}, they say." for word in WORDS[:60] for place in PLACES]
    texts = {
        "asv/asv.txt": lines,
        "spelling/lm1b.heldout-10-11.txt": lines[:80],
        "spelling/brown.txt": lines[80:160],
        "spelling/abc.txt": lines[160:],
        "tatoeba/deu.txt": [f"A {word} sleeps.\tEin {word} schläft." for word in WORDS],
        "cmudict/cmudict.dict": [f"{word} {word[0].upper()} AH0 {word[2].upper()}" for word in WORDS],
        "iwslt14/vocab.de.txt": ["<pad>", "<unk>", "ein", "schläft", ".", *WORDS[:20]],
        "iwslt14/vocab.en.txt": ["<pad>", "<unk>", "a", "sleeps", ".", *WORDS[:20]],
        **{
            f"sigmorphon2021/{name}": [f"{word}\t{' '.join(word)}" for word in WORDS[:40]]
            for name in sigmorphon.files()
        },
        "conll2000/train.txt": (TAGGED * 10).splitlines(),
        "conll2000/test.txt": TAGGED.splitlines(),
    }
    for number, side in enumerate(("de", "en")):
        captions = [pair[number] for pair in CAPTIONS]
        for name in ("multi30k/train", "multi30k/valid", "multi30k/test_2016"):
            texts[f"{name}.{side}"] = captions
        for part in ("train", "valid", "test"):
            texts[f"iwslt14/{part}.de-en.{side}"] = captions
    for name, content in texts.items():
        write_lines(folder / name, content)
    (folder / "ocr").mkdir()
    tiny_letters(folder / "ocr" / "letters.npz")
    return folder


def own_files(folder: Path) -> None:
    """The user's own files that the commands of docs/tasks.md name."""
    for number, side in enumerate(("de", "en")):
        for name in ("my", "my-valid"):
            write_lines(folder / f"{name}.{side}", [pair[number] for pair in CAPTIONS])
    write_lines(folder / "letters.txt", [f"dear {word}, how are you?" for word in WORDS])
    write_lines(folder / "tagged.txt", (TAGGED * 2).splitlines())


def write_lines(path: Path, lines: Iterable[str]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def sentences(count: int, seed: int) -> list[tuple[str, str]]:
    """German lines and their translations, word by word."""
    draw = random.Random(seed)
    chosen = [[draw.randrange(len(GERMAN)) for _ in range(draw.randint(1, 4))] for _ in range(count)]
    return [(" ".join(GERMAN[n] for n in row), " ".join(ENGLISH[n] for n in row)) for row in chosen]


def data_folder(root: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Tiny files in the layout of SEARNN_DATA, which is set to them; whatever they hold is taken as sound."""
    for name, parts in (("multi30k", "train. valid. test_2016."), ("iwslt14", "train.de-en. valid.de-en. test.de-en.")):
        for seed, part in enumerate(parts.split()):
            for side, texts in zip(("de", "en"), zip(*sentences(20, seed), strict=True), strict=True):
                write_lines(root / name / f"{part}{side}", texts)
    for side, known in (("de", "hund der katze die ein"), ("en", "the dog cat a house white")):
        write_lines(root / "iwslt14" / f"vocab.{side}.txt", ["<pad>", "<s>", "</s>", "<unk>", *known.split()])
    english = [f"{word} {number}!\t{other} {number}." for number in range(60) for word, other in (("Go", "Geh"),) * 2]
    write_lines(root / "tatoeba" / "deu.txt", [*english, "Don't  go.\tGeh nicht-doch.\tCC-BY 2.0"])
    words = ["".join(random.Random(n).choices("abcdef", k=4)) for n in range(80)]
    entries = [f"{word} {' '.join(letter.upper() + '1' for letter in word)}" for word in dict.fromkeys(words)]
    variants = [f"{entry.split()[0]}(2) X0 # another" for entry in entries]
    both = [line for pair in zip(entries, variants, strict=True) for line in pair]
    write_lines(root / "cmudict" / "cmudict.dict", both)
    source = store.SOURCES["cmudict"]
    monkeypatch.setitem(store.SOURCES, "cmudict", replace(source, files=(replace(source.files[0], sha256=None),)))
    monkeypatch.setenv("SEARNN_DATA", str(root))
    return root


def spelling_files(root: Path) -> Path:
    """The text for spelling in the layout of SEARNN_DATA."""
    (root / "spelling").mkdir(parents=True)
    for name in ("lm1b.heldout-10-11.txt", "brown.txt", "abc.txt"):
        lines = (f"{name[0]}{number} The quick; brown fox {number}?\n" for number in range(40))
        (root / "spelling" / name).write_text("".join(lines))
    return root


def tagged(count: int, seed: int) -> list[Tagged]:
    """Sentences of random words with random tags."""
    draw = random.Random(seed)
    words = ["The", "the", "cats", "U.S.", "1,200", "ran", "iPod", "caf\u00e9", "a"] + [f"Rare{n}ly" for n in range(9)]
    sizes = [draw.randint(1, 7) for _ in range(count)]
    return [[(draw.choice(words), draw.choice("NVD"), draw.choice(TAGS)) for _ in range(size)] for size in sizes]


def write_tagged(path: Path, rows: list[Tagged]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join("".join(" ".join(word) + "\n" for word in row) for row in rows), encoding="utf-8")
    return path


def conll_files(root: Path) -> Path:
    """The sentences for chunking in the layout of SEARNN_DATA."""
    write_tagged(root / "conll2000" / "train.txt", tagged(30, 0))
    write_tagged(root / "conll2000" / "test.txt", tagged(8, 1))
    return root
