"""Which rows run together: every row that has room once, no more than fit, and what a host can know beforehand."""

from collections import Counter
from dataclasses import replace

import pytest
import torch
from cases import FREE, make_batch, rng

from searnn.searching.waves import most_room, on_device, waves


@pytest.mark.parametrize("most_rows", [1, 2, 3, 4, 5, 8, 9, 100])
def test_every_row_that_has_room_runs_once_and_no_wave_is_too_wide(most_rows):
    room = torch.tensor([[3, 2, 1, 0], [4, 0, 0, 0], [2, 2, 2, 2], [0, 0, 0, 0], [1, 1, 0, 0]])
    order = torch.stack([torch.randperm(4, generator=rng(example)) for example in range(5)])
    of_row = {(b, int(order[b, place])): int(room[b, place]) for b in range(5) for place in range(4)}
    seen = Counter()
    for wave in waves(room, order, most_rows):
        examples, rows = wave.examples.tolist(), wave.slots.tolist()
        assert examples == sorted(examples)
        assert wave.slots.numel() <= most_rows
        own = [[of_row[example, row] for row in some] for example, some in zip(examples, rows, strict=True)]
        longest = max(max(some) for some in own)
        assert wave.widths == [max(sum(left > step for left in some) for some in own) for step in range(longest)]
        seen.update((example, row) for example, some in zip(examples, rows, strict=True) for row in some)
    assert {row: 1 for row, left in of_row.items() if left} == {row: seen[row] for row, left in of_row.items() if left}


@pytest.mark.parametrize(
    ("most_rows", "expected"),
    [
        (1, [[0], [0], [0], [2], [2], [2], [4], [4], [3]]),
        (2, [[0], [0], [2], [2], [4], [3]]),
        (3, [[0], [2], [4], [3]]),
        (4, [[0], [2], [3, 4]]),
        (5, [[0], [2], [3, 4]]),
        (6, [[0, 2], [3, 4]]),
        (8, [[0, 2], [3, 4]]),
        (9, [[0, 2, 4], [3]]),
        (12, [[0, 2, 3, 4]]),
    ],
)
def test_examples_with_about_as_many_rows_run_together_as_many_as_fit(most_rows, expected):
    """Of rows with room the examples have 3, 0, 3, 1 and 2; a wave is as wide as its widest example."""
    room = (torch.arange(4) < torch.tensor([[3], [0], [3], [1], [2]])).long() * 2
    found = waves(room, torch.arange(4).expand(5, -1), most_rows)
    assert [wave.examples.tolist() for wave in found] == expected


@pytest.mark.parametrize("steps", [None, 2, 0])
@pytest.mark.parametrize("some", [False, True])
def test_a_host_knows_how_much_room_there_is_at_most(steps, some):
    """The c-th of distinct ascending cells is c at least; of those that are needed it knows how many there are."""
    batch = make_batch(FREE, (4, 2, 1), room=1)
    needed = torch.rand(3, 4, 2, generator=rng(1)) < 0.5 if some else None
    found = most_room(replace(batch, host_lengths=tuple(batch.lengths.tolist())), 4, 2, steps, needed)
    for example, limit in enumerate(batch.lengths.tolist()):
        expected = [max(0, limit - 1 - cell) for cell in range(4) for _ in range(2)]
        expected = expected if steps is None else [min(steps, left) for left in expected]
        count = 8 if needed is None else int(needed[example].sum())
        assert found[example].tolist() == [left if place < count else 0 for place, left in enumerate(expected)]


def test_numbers_that_follow_on_one_another_are_made_where_they_are_used():
    """So that nothing is copied from the host to a device, which would have to wait for it."""
    for numbers, made in (([0], True), ([2, 3, 4], True), ([1, 3], False), ([0, 2, 3], False)):
        given = torch.tensor(numbers)
        found = on_device(given, torch.device("cpu"))
        assert found.tolist() == numbers
        assert (found is not given) == made
