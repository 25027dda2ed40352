"""Batches against a plain loop over examples; training batches as a pure function of the step."""

from dataclasses import replace

import numpy as np
import pytest
import torch

from searnn.data.batching import (
    Examples,
    Packed,
    ShuffledBatches,
    collate,
    join,
    make_examples,
    ordered_batches,
    pack,
    unlabelled,
)
from searnn.interfaces import TrainingData
from searnn.types import Batch, SearnnError, Vocabulary

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


def test_the_fingerprint_sees_where_examples_end() -> None:
    """Data whose tokens are the same one after another, but fall into other examples or other sides, are others."""
    pairs = [
        ([[1, 2], [3]], [[4], [0, 1]]),
        ([[1], [2, 3]], [[4], [0, 1]]),
        ([[1, 2], [3]], [[4, 0], [1]]),
        ([[1, 2], [3, 4]], [[0], [1]]),
        ([[1], [2], [3]], [[4], [0], [1]]),
        ([[3], [1, 2]], [[0, 1], [4]]),
    ]
    made = [make_examples(*sides, FREE, cap=9) for sides in pairs]
    assert len({ShuffledBatches(examples, 1, seed=0).fingerprint for examples in made}) == len(pairs)
    again = make_examples(*pairs[0], FREE, cap=9)
    assert ShuffledBatches(again, 2, seed=1).fingerprint == ShuffledBatches(made[0], 1, seed=0).fingerprint


def free_lengths(count: int = 103, seed: int = 4) -> tuple[Examples, list[list[int]], list[list[int]]]:
    """Sources and targets whose lengths have nothing to do with each other."""
    sources, targets = random_lists(count, 20, seed), random_lists(count, 12, seed + 1)
    return make_examples(sources, targets, FREE, cap=[len(target) + 3 for target in targets]), sources, targets


def epoch_of(data: ShuffledBatches, number: int) -> list[Batch]:
    first = number * data.steps_per_epoch
    return [data.batch(step) for step in range(first, first + data.steps_per_epoch)]


@pytest.mark.parametrize("pool", [2, 4, 100])
def test_pooled_batches_hold_every_example_once_an_epoch(pool: int) -> None:
    examples, sources, targets = free_lengths()
    data = ShuffledBatches(examples, 5, seed=7, pool=pool)
    assert data.steps_per_epoch == 20
    epochs = [epoch_of(data, number) for number in range(30)]
    ids = [[i for batch in epoch for i in batch.ids or ()] for epoch in epochs]
    assert all(len(set(epoch)) == 100 for epoch in ids)
    assert len({tuple(epoch) for epoch in ids}) == 30
    assert set().union(*ids) == set(range(103))  # what is dropped differs by epoch
    for batch in epochs[3]:
        for place, row in enumerate(batch.ids or ()):
            size = int(batch.inputs.lengths[place])
            assert batch.inputs.values[place, :size].tolist() == sources[row]
            assert batch.targets[place, : len(targets[row]) + 1].tolist() == [*targets[row], FREE.eos]


def test_pooled_batches_are_of_near_equal_lengths_and_in_no_order() -> None:
    examples, sources, targets = free_lengths(count=1000)

    def spread(batch: Batch) -> int:
        limits = batch.limits()
        return max(limits) - min(limits)

    plain, some, whole = (epoch_of(ShuffledBatches(examples, 10, seed=7, pool=pool), 0) for pool in (1, 10, 100))
    widths = [sum(map(spread, batches)) / 100 for batches in (plain, some, whole)]
    assert widths[0] > 8
    assert widths[1] < 3
    assert widths[2] < 0.5
    # All in one pool is the whole data sorted by room, then by source, and cut.
    sizes = sorted((len(target) + 3, len(source)) for source, target in zip(sources, targets, strict=True))
    cuts = sorted(sizes[start : start + 10] for start in range(0, 1000, 10))
    lengths = [sorted(zip(b.limits(), b.inputs.lengths.tolist(), strict=True)) for b in whole]
    assert sorted(lengths) == cuts
    assert lengths != cuts
    order = np.corrcoef(range(100), [limits[0][0] for limits in lengths])[0, 1]
    assert abs(order) < 0.3  # or training would see short examples first


@pytest.mark.parametrize("pool", [3, 100])
def test_pooled_batches_are_a_pure_function_of_the_step(pool: int) -> None:
    examples, _, _ = free_lengths()
    in_order = [ShuffledBatches(examples, 5, seed=7, pool=pool).batch(step) for step in range(45)]
    data = ShuffledBatches(examples, 5, seed=7, pool=pool)
    for step in (41, 0, 19, 20, 44, 3, 3):
        assert data.batch(step).ids == in_order[step].ids
        assert torch.equal(data.batch(step).targets, in_order[step].targets)
    other = ShuffledBatches(examples, 5, seed=8, pool=pool)
    assert [other.batch(step).ids for step in range(20)] != [batch.ids for batch in in_order[:20]]


@pytest.mark.parametrize("pool", [0, -1])
def test_a_pool_of_no_batches_is_refused(pool: int) -> None:
    with pytest.raises(SearnnError, match=f"the pool is {pool} batches, expected at least 1"):
        ShuffledBatches(labelling()[0], 2, seed=0, pool=pool)


@pytest.mark.parametrize("pool", [1, 4])
def test_a_change_has_randomness_of_its_own_step_and_moves_no_batch(pool: int) -> None:
    examples, _, _ = free_lengths()

    def change(batch: Batch, draw: torch.Generator) -> Batch:
        noise = torch.randint(1000, batch.inputs.values.shape, generator=draw)
        return replace(batch, inputs=batch.inputs._replace(values=noise))

    plain = ShuffledBatches(examples, 5, seed=7, pool=pool)
    data, again, other = (ShuffledBatches(examples, 5, seed=seed, pool=pool, change=change) for seed in (7, 7, 8))
    seen = [data.batch(step) for step in range(60)]
    for step in (33, 0, 20, 20, 59):
        assert torch.equal(again.batch(step).inputs.values, seen[step].inputs.values)
        assert seen[step].ids == plain.batch(step).ids
        assert torch.equal(seen[step].targets, plain.batch(step).targets)
        assert not torch.equal(seen[step].inputs.values, plain.batch(step).inputs.values)
        assert other.batch(step).inputs.values.flatten().tolist()[:5] != seen[step].inputs.values.flatten().tolist()[:5]
    firsts = {tuple(batch.inputs.values.flatten().tolist()[:5]) for batch in seen}
    assert len(firsts) == 60  # every step draws anew, and so does every epoch
    assert int(examples.sources.values.max()) < 5  # what is kept is not changed


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


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.uint16, np.int32, np.int64])
def test_tokens_of_any_integer_type_are_padded_as_64_bits(dtype: type) -> None:
    """Kept small, given large: PAD may be beyond what the kept type can hold."""
    lists = [[250, 1], [], [3, 4, 5]]
    values = torch.from_numpy(np.array([token for tokens in lists for token in tokens], dtype=dtype))
    packed = Packed(values, torch.tensor([0, 2, 2]), torch.tensor([2, 0, 3]))
    block = packed.padded(torch.tensor([2, 0, 1]), 4, 70_000)
    assert block.dtype == torch.int64
    fill = 70_000
    assert block.tolist() == [[3, 4, 5, fill], [250, 1, fill, fill], [fill] * 4]
    block.fill_(9)
    assert values.tolist() == [250, 1, 3, 4, 5]  # a block is a copy


def test_columns_of_tokens_are_padded_as_rows() -> None:
    values = torch.tensor([[1, 2], [3, 4], [5, 6]], dtype=torch.int32)
    packed = Packed(values, torch.tensor([0, 1]), torch.tensor([1, 2]))
    block = packed.padded(torch.tensor([1, 0]), 2, 0)
    assert block.dtype == torch.int64
    assert block.tolist() == [[[3, 4], [5, 6]], [[1, 2], [0, 0]]]


def test_features_keep_their_type() -> None:
    packed = pack([np.ones((2, 3), dtype=np.float32), np.zeros((1, 3), dtype=np.float32)])
    assert packed.padded(torch.tensor([1]), 2, 0).dtype == torch.float32


def test_joined_targets_have_their_end_and_may_be_longer_than_their_room() -> None:
    sources, targets = pack([[1], [2, 2], [3]]), pack([[1, 5], [1, 2, 3, 4, 5], [5]])
    examples = join(sources, targets, FREE, cap=torch.tensor([4, 3, 2]), ids=torch.tensor([10, 20, 30]))
    batch = collate(examples, torch.tensor([1, 0, 2]))
    assert batch.ids == (20, 10, 30)
    assert batch.lengths.tolist() == [3, 4, 2]
    assert batch.targets.tolist() == [[1, 2, 3, 4, 5], [1, 5, 6, 6, 6], [5, 6, 6, 6, 6]]  # judged by all of it
    assert collate(examples, torch.tensor([0, 2])).targets.shape == (2, 4)
    assert join(sources, targets, FREE, cap=7).ids.tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("sources", "targets", "vocab", "cap", "message"),
    [
        ([[1], [2]], [[1]], KNOWN, None, "2 sources for 1 targets"),
        ([[1], []], [[1], [1]], KNOWN, None, "the source of example 1 is empty"),
        ([[1], [1]], [[], [1]], KNOWN, None, "the target of example 0 is empty"),
        ([[1]], [[1]], KNOWN, 4, "cap is 4: expected no cap"),
        ([[1]], [[5]], FREE, None, "cap is None: expected a cap"),
        ([[1], [1]], [[5], [5]], FREE, torch.tensor([3]), "one for each of the 2 examples"),
        ([[1], [1]], [[5], [5]], FREE, torch.tensor([3, 0]), "expected a positive number"),
    ],
)
def test_what_cannot_be_joined_is_refused(sources, targets, vocab, cap, message) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(SearnnError, match=message):
        join(pack(sources), pack(targets), vocab, cap)


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
