"""Tiny files in place of every public data set, in the layout in which they are looked for."""

from __future__ import annotations

from itertools import product
from pathlib import Path

from tiny import tiny_letters

PLACES = ("at home", "in town", "by the sea", "on a hill")
WORDS = ["".join(parts) for parts in product("bdfglmnprt", "aeiou", "bdgnt")]  # 250: hashes of them fill every part
CAPTIONS = [(f"ein {word} schläft .", f"a {word} sleeps .") for word in WORDS[:20]]
TAGGED = "The DT B-NP\nbig JJ I-NP\npound NN I-NP\nfell VBD B-VP\n. . O\n\nIt PRP B-NP\nrose VBD B-VP\n. . O\n\n"


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


def write_lines(path: Path, lines: list[str]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
