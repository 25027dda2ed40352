"""Batches against a plain loop over examples; training batches as a pure function of the step."""

import numpy as np
import pytest
import torch

from searnn.interfaces import TrainingData
from searnn.tasks.batching import (
    Examples,
    Packed,
    ShuffledBatches,
    collate,
    make_examples,
    ordered_batches,
    pack,
    unlabelled,
)
from searnn.types import SearnnError, Vocabulary

KNOWN = Vocabulary(size=5, pad=5, bos=6)
FREE = Vocabulary(size=6, pad=6, bos=7, eos=5)


def random_lists(count: int, longest: int, seed: int = 0) -> list[list[int]]:
    draw = np.random.default_rng(seed)
    return [draw.integers(0, 5, draw.integers(1, longest + 1)).tolist() for _ in range(count)]


def labelling(count: int = 11, seed: int = 0) -> tuple[Examples, list[np.ndarray], list[list[int]]]:
    targets = random_lists(count, 6, seed)
    draw = np.random.default_rng(seed + 1)
    sources = [draw.standard_normal((len(target), 3)).astype(np.float32) for target in targets]
    return make_examples(sources, targets, KNOWN), sources, targets


def test_known_length_batch_equals_a_loop() -> None:
    examples, sources, targets = labelling()
    rows = [4, 0, 10, 3]
    batch = collate(examples, torch.tensor(rows))
    width = max(len(targets[row]) for row in rows)
    assert batch.inputs.values.shape == (4, width, 3)
    assert batch.targets.shape == (4, width)
    for place, row in enumerate(rows):
        true, size = targets[row], len(targets[row])
        assert batch.targets[place].tolist() == true + [KNOWN.pad] * (width - size)
        np.testing.assert_array_equal(batch.inputs.values[place, :size], sources[row])
        assert not batch.inputs.values[place, size:].any()
        assert batch.lengths[place] == batch.inputs.lengths[place] == size
    assert batch.ids == tuple(rows)
    assert batch.host_lengths == tuple(len(targets[row]) for row in rows)
    assert batch.vocab == KNOWN


def test_free_length_batch_ends_in_eos_and_is_as_wide_as_the_cap() -> None:
    sources, targets = random_lists(6, 4), [[], *random_lists(5, 7, seed=3)]
    batch = collate(make_examples(sources, targets, FREE, cap=9), torch.arange(6))
    assert batch.targets.tolist() == [target + [5] + [6] * (8 - len(target)) for target in targets]
    assert batch.lengths.tolist() == [9] * 6
    assert batch.host_lengths == (9,) * 6
    longest = max(len(source) for source in sources)
    assert batch.inputs.values.tolist() == [source + [0] * (longest - len(source)) for source in sources]


def test_cap_may_differ_by_example() -> None:
    batch = collate(make_examples([[1], [2], [3]], [[1], [2, 2], []], FREE, cap=[2, 6, 4]), torch.tensor([2, 0]))
    assert batch.lengths.tolist() == [4, 2]
    assert batch.targets.tolist() == [[5, 6, 6, 6], [1, 5, 6, 6]]


def test_pad_to_fixes_widths_and_changes_nothing_else() -> None:
    examples, _, _ = labelling()
    rows = torch.tensor([1, 2, 3])
    narrow, wide = collate(examples, rows), collate(examples, rows, pad_to=(9, 8))
    assert wide.inputs.values.shape[1] == 9
    assert wide.targets.shape[1] == 8
    size = narrow.targets.shape[1]
    assert torch.equal(wide.inputs.values[:, :size], narrow.inputs.values)
    assert not wide.inputs.values[:, size:].any()
    assert torch.equal(wide.targets[:, :size], narrow.targets)
    assert (wide.targets[:, size:] == KNOWN.pad).all()
    with pytest.raises(SearnnError, match=r"pad_to is \(1, 8\)"):
        collate(examples, rows, pad_to=(1, 8))


def test_training_batches_are_a_pure_function_of_the_step() -> None:
    examples, _, _ = labelling(count=23)
    data = ShuffledBatches(examples, 5, seed=7)
    assert isinstance(data, TrainingData)
    assert data.steps_per_epoch == 4
    in_order = [data.batch(step) for step in range(12)]
    for step in (9, 0, 11, 4, 4):
        again = ShuffledBatches(examples, 5, seed=7).batch(step)
        assert again.ids == data.batch(step).ids == in_order[step].ids
        assert torch.equal(again.inputs.values, in_order[step].inputs.values)
        assert torch.equal(again.targets, in_order[step].targets)


def test_an_epoch_has_no_example_twice_and_drops_what_is_left_over() -> None:
    examples, _, _ = labelling(count=23)
    data = ShuffledBatches(examples, 5, seed=7)
    epochs = [[i for step in range(4 * e, 4 * e + 4) for i in data.batch(step).ids or ()] for e in range(30)]
    assert all(len(set(epoch)) == 20 for epoch in epochs)
    assert len({tuple(epoch) for epoch in epochs}) == 30
    assert set().union(*epochs) == set(range(23))  # what is dropped differs by epoch
    assert data.batch(0).ids != ShuffledBatches(examples, 5, seed=8).batch(0).ids


@pytest.mark.parametrize("size", [0, -1, 12])
def test_a_batch_size_the_data_cannot_give_is_refused(size: int) -> None:
    examples, _, _ = labelling(count=11)
    with pytest.raises(SearnnError, match=f"batch size is {size}, expected 1 to 11"):
        ShuffledBatches(examples, size, seed=0)


def test_ordered_batches_hold_every_example_once_and_can_be_put_back() -> None:
    examples, _, targets = labelling(count=11)
    batches = list(ordered_batches(examples, 4))
    assert [len(batch.lengths) for batch in batches] == [4, 4, 3]
    lengths = [length for batch in batches for length in batch.limits()]
    assert lengths == sorted(lengths)
    found = {i: t[:n] for b in batches for i, t, n in zip(b.ids or (), b.targets.tolist(), b.limits(), strict=True)}
    assert [found[i] for i in range(11)] == targets
    with pytest.raises(SearnnError, match="batch size is 0"):
        ordered_batches(examples, 0)


def test_a_part_of_the_examples_keeps_their_ids() -> None:
    examples, _, targets = labelling(count=11)
    part = examples.take(torch.tensor([8, 2, 5]))
    batch = collate(part, torch.tensor([2, 0]))
    assert len(part) == 3
    assert batch.ids == (5, 8)
    assert batch.targets[1, : len(targets[8])].tolist() == targets[8]
    assert part.sources.values.data_ptr() == examples.sources.values.data_ptr()


def test_packed_tokens_and_tensors() -> None:
    packed = pack([[1, 2], [], [3]])
    assert packed.padded(torch.tensor([2, 1, 0]), 3, 9).tolist() == [[3, 9, 9], [9, 9, 9], [1, 2, 9]]
    blocks = [torch.ones(2, 4), torch.zeros(1, 4)]
    assert pack(blocks).padded(torch.tensor([0, 1]), 2, -1)[1].tolist() == [[0.0] * 4, [-1.0] * 4]


def test_unlabelled_batch() -> None:
    batch = unlabelled([[1, 2, 3], [4]], KNOWN)
    assert batch.inputs.values.tolist() == [[1, 2, 3], [4, 0, 0]]
    assert batch.targets.tolist() == [[5, 5, 5], [5, 5, 5]]
    assert batch.lengths.tolist() == [3, 1]
    assert unlabelled([[1, 2, 3], [4]], FREE, cap=5).lengths.tolist() == [5, 5]
    with pytest.raises(SearnnError, match="cap is None"):
        unlabelled([[1]], FREE)
    with pytest.raises(SearnnError, match="source 1 is empty"):
        unlabelled([[1], []], KNOWN)


@pytest.mark.parametrize(
    ("sources", "targets", "vocab", "cap", "message"),
    [
        ([[1], [2]], [[1]], KNOWN, None, "2 sources for 1 targets"),
        ([], [], KNOWN, None, "no sequences"),
        ([[1], [2], [3]], [[1], [2, 5], [0]], KNOWN, None, "example 1 holds token 5, expected 0 to 4"),
        ([[1], [2]], [[1], [-1]], KNOWN, None, "example 1 holds token -1"),
        ([[1], [2]], [[1], [5, 1]], FREE, 4, "example 1 holds token 5"),
        ([[1], []], [[1], [1]], KNOWN, None, "source of example 1 is empty"),
        ([[1], [1]], [[1], []], KNOWN, None, "target of example 1 is empty"),
        ([[1]], [[1]], KNOWN, 4, "cap is 4: expected no cap"),
        ([[1]], [[1]], FREE, None, "cap is None: expected a cap"),
        ([[1]], [[1]], FREE, 0, "cap is 0: expected a positive number"),
        ([[1], [1]], [[1], [1]], FREE, [3, 3, 3], "one for each of the 2 examples"),
        ([[1], [1]], [[1], [1, 2, 3]], FREE, 3, "example 1 needs 4 cells with EOS, cap is 3"),
        ([[1]], Packed(torch.tensor([1]), torch.tensor([0]), torch.tensor([1])), FREE, 3, "packed targets"),
    ],
)
def test_what_does_not_fit_is_refused(sources, targets, vocab, cap, message) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(SearnnError, match=message):
        make_examples(sources, targets, vocab, cap)
