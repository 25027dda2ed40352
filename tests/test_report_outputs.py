"""What a report says of outputs, against counting by hand and against plain loops."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import pytest
import torch

from searnn.reports.outputs import Outputs, Written, collect, numbered, scattered
from searnn.reports.page import describe
from searnn.tasks import Copy, Ocr
from searnn.types import Vocabulary

TEXT = "abcdefgh"


class Words(Copy):
    """A task whose tokens are letters."""

    def __init__(self) -> None:
        super().__init__(symbols=8, examples=10)

    def show(self, tokens: Sequence[int]) -> str:
        return "".join(TEXT[token] for token in tokens)


def tokens(text: str) -> list[int]:
    return [TEXT.index(letter) for letter in text]


def made(*pairs: tuple[str, str]) -> Outputs:
    written = tuple(Written(tokens(ours), tokens(true), None, number) for number, (ours, true) in enumerate(pairs))
    return Outputs("test", written, {"error": 0.5}, whole=True)


def distance(ours: Sequence[int], true: Sequence[int]) -> int:
    """The edit distance by its definition."""
    if not ours or not true:
        return len(ours) + len(true)
    near = distance(ours[1:], true[1:]) + (ours[0] != true[0])
    return min(near, distance(ours[1:], true) + 1, distance(ours, true[1:]) + 1)


@pytest.mark.parametrize("fixed", [False, True])
def test_edits_lead_from_the_truth_to_the_output(fixed: bool) -> None:
    draw = random.Random(0)
    for _ in range(150):
        true = [draw.randrange(3) for _ in range(draw.randrange(6))]
        ours = [draw.randrange(3) for _ in range(len(true) if fixed else draw.randrange(6))]
        edits = Written(ours, true, None, 0).edits(fixed)
        assert [token for _, token, _ in edits if token is not None] == ours
        assert [token for _, _, token in edits if token is not None] == true
        assert all((kind == "=") == (a == b) for kind, a, b in edits)
        assert all((kind == "+") == (b is None) and (kind == "-") == (a is None) for kind, a, b in edits)
        wrong = sum(a != b for a, b in zip(ours, true, strict=True)) if fixed else distance(ours, true)
        assert sum(kind != "=" for kind, _, _ in edits) == wrong


def test_examples_are_the_best_and_the_worst() -> None:
    found = describe(made(("abc", "abc"), ("abcdef", "abcdef"), ("ahh", "abc"), ("ab", "abc")), Words())
    assert (found["count"], found["right"], found["joint"]) == (4, 2, True)
    assert [example["number"] for example in found["worst"]] == [2]  # of one truth, one is shown
    assert [example["number"] for example in found["best"]] == [1, 0]  # the longer of the right ones first
    assert found["worst"][0]["edits"] == [["=", "a", "a"], ["~", "h", "b"], ["~", "h", "c"]]
    assert found["worst"][0]["error"] == pytest.approx(2 / 3)


def test_confusion_counts_pairs() -> None:
    pairs = [("abd", "abc"), ("abd", "abc"), ("bb", "ab"), ("ab", "abc"), ("abce", "abc")]
    found = describe(made(*pairs), Words())["confusion"]
    # By hand: c became d twice, a became b once, c was left out once, e was too many once.
    assert Counter({(true, ours): count for true, ours, count in found["pairs"]}) == {
        ("c", "d"): 2, ("a", "b"): 1, ("c", ""): 1, ("", "e"): 1,
    }  # fmt: skip
    at = {name: number for number, name in enumerate(found["tokens"])}
    assert list(at) == ["a", "b", "c", "d", "e", ""]
    assert found["counts"][at["c"]][at["d"]] == 2
    assert found["counts"][at["b"]][at["b"]] == 5
    assert found["counts"][at["c"]][at[""]] == found["counts"][at[""]][at["e"]] == 1
    assert found["hidden"] == 0


def test_rare_confusions_are_counted_as_hidden() -> None:
    """With more tokens than the table shows, what it does not show is said."""

    class Many(Words):
        def __init__(self) -> None:
            super().__init__()
            self.vocab = Vocabulary(size=100, pad=100, bos=101)

        def show(self, tokens: Sequence[int]) -> str:
            return "".join(chr(0x100 + token) for token in tokens)

    written = tuple(Written([2 * n + 1], [2 * n], None, n) for n in range(20))
    found = describe(Outputs("test", written, {}, whole=True), Many())["confusion"]
    shown = sum(count for i, row in enumerate(found["counts"]) for j, count in enumerate(row) if i != j)
    assert shown + found["hidden"] == 20
    assert found["hidden"] > 0


def test_errors_by_position_and_length() -> None:
    found = describe(made(("ab", "ab"), ("hb", "ab"), ("abch", "abcd"), ("abc", "abcd")), Words())
    rows = {row["name"]: (row["error"], row["count"]) for row in found["positions"]}
    assert rows == {"1": (0.25, 4), "2": (0.0, 4), "3": (0.0, 2), "4": (1.0, 2)}
    rows = {row["name"]: (row["error"], row["count"]) for row in found["lengths"]}
    assert rows == {"2": (0.25, 2), "4": (0.25, 2)}


def test_many_lengths_are_put_together() -> None:
    written = tuple(Written([0] * n, [0] * n, None, n) for n in range(1, 101))
    rows = describe(Outputs("test", written, {}, whole=True), Words())["lengths"]
    assert len(rows) <= 12
    assert sum(row["count"] for row in rows) == 100
    assert rows[0]["name"] == "1\u20139"


def test_an_unknown_word_of_the_truth_is_never_right() -> None:
    task = Words()
    task.knowledge = {"unknown": 7}
    assert (
        describe(
            made(
                ("ah", "ah"),
            ),
            task,
        )["right"]
        == 0
    )
    assert (
        describe(
            made(
                ("ah", "ah"),
            ),
            Words(),
        )["right"]
        == 1
    )


def test_batches_from_all_over() -> None:
    for count in (1, 2, 3, 7, 16, 33):
        assert sorted(scattered(count)) == list(range(count))
    first = sorted(scattered(40)[:4])
    assert all(b - a >= 5 for a, b in pairwise(first))


class Echo(torch.nn.Module):
    """Stands for a model; what it writes comes from `predict`."""


def test_the_whole_part_or_a_sample() -> None:
    task = Copy(symbols=3, length=4, examples=200)
    seen: list[int] = []

    def echo(model: torch.nn.Module, batches: list[object], **decoding: object) -> list[list[int]]:
        seen.append(len(batches[0].targets))
        rows = zip(batches[0].inputs.values.tolist(), batches[0].inputs.lengths.tolist(), strict=True)
        return [row[:length] for row, length in rows]

    whole = collect(Echo(), task, "test", 4, predict=echo)
    assert (len(whole.written), whole.whole, whole.metrics) == (20, True, {"error": 0.0})
    assert whole.written[0].source == " ".join(map(str, whole.written[0].target))
    assert not any(each.full for each in whole.written)
    some = collect(Echo(), task, "valid", 4, most=8, predict=echo)
    assert (len(some.written), some.whole, some.split) == (8, False, "valid")
    late = collect(Echo(), task, "valid", 4, seconds=0.0, predict=echo)
    assert (len(late.written), late.whole) == (4, False)


def test_letters_are_shown_as_they_were_read(tmp_path: object) -> None:
    from tiny import tiny_letters

    task = Ocr(path=tiny_letters(tmp_path / "letters.npz"))
    fixed = lambda model, batches, **decoding: [[0]] * len(batches[0].targets)  # noqa: E731
    written = collect(Echo(), task, "test", 64, predict=fixed).written
    batch = next(iter(task.test(64)))
    for row, each in enumerate(written):
        bits = "".join(f"{int(letter, 16):0128b}" for letter in each.pixels)
        assert [int(bit) for bit in bits] == batch.inputs.values[row, : len(each.pixels)].flatten().int().tolist()
        assert each.source is None


def test_examples_without_ids_are_counted_over_all_batches() -> None:
    task = Copy(symbols=3, length=3, examples=50)
    batches = list(task.test(2))
    assert [list(numbers) for numbers, _ in numbered(batches)] == [list(batch.ids) for batch in batches]
    nameless = numbered([replace(batch, ids=None) for batch in batches])
    assert [number for numbers, _ in nameless for number in numbers] == list(range(5))
    assert [len(numbers) for numbers, _ in nameless] == [2, 2, 1]
