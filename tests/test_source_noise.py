"""Noise on the sources of training: what is hit, what is left out, and what stands in its place."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
import torch
from scipy.stats import binomtest, chisquare
from tiny_data import sentences, write_lines

from searnn.data.noise import disturb
from searnn.rng import generator
from searnn.tasks import Pairs
from searnn.types import Batch, Inputs, SearnnError


def batch_of(sources: list[list[int]], columns: int = 0) -> Batch:
    lengths = torch.tensor([len(source) for source in sources])
    values = torch.tensor([source + [0] * (int(lengths.max()) - len(source)) for source in sources])
    if columns:
        values = torch.stack([values, *(100 * values for _ in range(columns - 1))], dim=-1)
    count = torch.ones(len(sources), dtype=torch.long)
    return Batch(Inputs(values, lengths), torch.ones(len(sources), 1, dtype=torch.long), count)


def units(batch: Batch) -> list[list[int]]:
    assert (batch.inputs.values[..., batch.inputs.lengths.max() :] == 0).all()
    return [row[:length].tolist() for row, length in zip(*batch.inputs, strict=True)]


def test_half_of_what_is_hit_is_left_out_and_the_rest_replaced_by_units_as_frequent_as_they_are() -> None:
    # Every position has a unit of its own, but for the last ones, which are frequent.
    sources = [[*range(1, 41), *[50] * 10] for _ in range(400)]
    found = units(disturb(batch_of(sources), generator(0, "noise"), 0.2))
    places = 400 * 40
    left = sum(len({*range(1, 41)} & {*row}) for row in found)  # a replaced one may come back by chance
    gone = 400 * 50 - sum(map(len, found))
    assert binomtest(gone, 400 * 50, 0.1).pvalue > 1e-3
    assert left / places == pytest.approx(0.8, abs=0.02)
    ascending = [row[:20] for row in found]
    strangers = [unit for row in ascending for place, unit in enumerate(row) if unit > place + 12]
    frequent = sum(unit == 50 for unit in strangers)
    others = sum(unit > 32 and unit < 50 for unit in strangers)
    assert len(strangers) > 200
    assert chisquare([frequent, others], [(frequent + others) * share for share in (10 / 18, 8 / 18)]).pvalue > 1e-3


def test_what_is_kept_keeps_its_order_and_padding_stays_padding() -> None:
    sources = [[5, 6, 7, 8, 9, 10, 11, 12], [13], [14, 15, 16]]
    for seed in range(30):
        batch = disturb(batch_of(sources), generator(seed), 0.5)
        for row, source, length in zip(batch.inputs.values, sources, batch.inputs.lengths, strict=True):
            assert 1 <= length <= len(source)
            assert (row[length:] == 0).all()
            assert (row[:length] > 4).all()
        first = batch.inputs.values[0, : batch.inputs.lengths[0]].tolist()
        own = [unit for unit in first if unit <= 12]
        assert len(own) < 3 or sum(a < b for a, b in pairwise(own)) >= 1
    assert units(disturb(batch_of(sources), generator(0), 0.0)) == sources


def test_columns_of_a_position_stay_together() -> None:
    values, lengths = disturb(batch_of([[3, 4, 5, 6, 7], [8, 9]], columns=3), generator(1), 0.6).inputs
    assert values.shape[-1] == 3
    assert torch.equal(values[..., 1], 100 * values[..., 0])
    assert lengths.tolist() != [5, 2]


@pytest.fixture
def files(tmp_path: Path) -> dict[str, list[Path]]:
    parts = {"train": 24, "valid": 7, "test": 5}
    return {name: [write_lines(tmp_path / f"{name}.tsv", map("\t".join, sentences(n, n)))] for name, n in parts.items()}


def test_training_alone_has_it_anew_at_every_step_and_alike_in_shards(files: dict[str, list[Path]]) -> None:
    clean, noisy = Pairs(**files), Pairs(**files, source_noise=0.3)
    for ours, theirs in zip(clean.valid(4), noisy.valid(4), strict=True):
        assert torch.equal(ours.inputs.values, theirs.inputs.values)
    data, again = noisy.train(8, 0), Pairs(**files, source_noise=0.3).train(8, 0)
    plain = clean.train(8, 0)
    assert torch.equal(data.batch(5).inputs.values, again.batch(5).inputs.values)
    assert data.batch(5).ids == plain.batch(5).ids
    assert torch.equal(data.batch(5).targets, plain.batch(5).targets)
    sources = [units(part.batch(step)) for part in (data, plain) for step in (0, 3)]
    assert sources[:2] != sources[2:]
    steps = data.steps_per_epoch
    by_id = [dict(zip(data.batch(step).ids or (), units(data.batch(step)), strict=True)) for step in range(2 * steps)]
    first, second = by_id[:steps], by_id[steps:]
    once, twice = ({k: v for part in parts for k, v in part.items()} for parts in (first, second))
    assert once.keys() == twice.keys()
    assert once != twice
    part, shard = data.shard(3, 1, 3)
    assert torch.equal(part.inputs.values, data.batch(3).inputs.values[shard.rows])
    assert torch.equal(part.inputs.lengths, data.batch(3).inputs.lengths[shard.rows])


def test_a_rate_out_of_range_is_refused(files: dict[str, list[Path]]) -> None:
    with pytest.raises(SearnnError, match=r"source_noise is 1\.0, it must be a number of at least 0 and below 1"):
        Pairs(**files, source_noise=1.0)
