"""Small sets of letters in each of the forms that are read, for tests."""

import io
import pickle

import numpy as np

from searnn.data import letters


def small() -> letters.Letters:
    draw = np.random.default_rng(0)
    lengths = draw.integers(1, 6, 20).astype(np.uint8)
    count = int(lengths.sum())
    pixels = draw.integers(0, 256, (count, 16)).astype(np.uint8)
    labels = draw.integers(0, 26, count).astype(np.uint8)
    return letters.Letters(pixels, labels, lengths, (np.arange(20) % 10).astype(np.uint8))


def as_text(data: letters.Letters) -> bytes:
    lines, letter = [], 0
    for word, (length, fold) in enumerate(zip(data.word_lengths, data.folds, strict=True)):
        for place in range(length):
            following = letter + 2 if place + 1 < length else -1
            pixels = [str(bit) for bit in np.unpackbits(data.pixels_packed[letter])]
            fields = [letter + 1, chr(97 + data.labels[letter]), following, word + 1, place + 1, fold, *pixels]
            lines.append("\t".join(str(field) for field in fields) + "\t")  # the published file ends its lines so
            letter += 1
    return "\n".join(lines).encode() + b"\n"


def as_pickle(data: letters.Letters) -> bytes:
    cuts = data.word_lengths.astype(int).cumsum()[:-1]
    pixels = np.split(np.unpackbits(data.pixels_packed, axis=1), cuts)
    words = {"data": pixels, "labels": np.split(data.labels.astype(np.int64), cuts), "folds": data.folds.astype(int)}
    return pickle.dumps(words, protocol=3)


def npz(**arrays: np.ndarray) -> bytes:
    stream = io.BytesIO()
    np.savez_compressed(stream, **arrays)
    return stream.getvalue()
