"""The bootstrap over examples against a loop that resamples lists, numpy's percentiles and scipy."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from scipy import stats

from searnn.reports.bootstrap import ANEW, REPEATS, bootstrap, draw, estimate
from searnn.rng import generator
from searnn.tasks.common.metrics import edit_error, sequence_error


def systems(seed: int = 0, count: int = 40):
    random = np.random.default_rng(seed)
    targets = [random.integers(0, 3, random.integers(1, 6)).tolist() for _ in range(count)]
    return [[[*truth[: random.integers(0, 6)], 9] for truth in targets] for _ in range(3)], targets


def longest(outputs, targets):
    """No mean of anything over examples."""
    return max(map(len, outputs)) / max(map(len, targets))


@pytest.mark.parametrize("metric", [edit_error, sequence_error, longest], ids=lambda metric: metric.__name__)
def test_every_draw_is_the_metric_of_the_examples_drawn(metric):
    outputs, targets = systems()
    found = bootstrap(metric, outputs, targets, generator(1))
    repeats = ANEW if metric is longest else REPEATS
    assert found.shape == (3, repeats)
    for number, rows in enumerate(draw(len(targets), repeats, generator(1)).tolist()):
        for system, written in enumerate(outputs):
            naive = metric([written[row] for row in rows], [targets[row] for row in rows])
            assert found[system, number].item() == pytest.approx(naive, abs=1e-12)


def test_the_same_seed_gives_the_same_draws():
    outputs, targets = systems()
    first, second, other = (bootstrap(edit_error, outputs, targets, generator(seed)) for seed in (1, 1, 2))
    assert torch.equal(first, second)
    assert not torch.equal(first, other)


def test_the_interval_is_that_of_percentiles_and_of_another_library():
    outputs, targets = systems(count=60)
    found = bootstrap(sequence_error, outputs, targets, generator(0))
    whole = sequence_error(outputs[0], targets)
    interval = estimate(whole, found[0])
    assert interval.value == whole
    assert [interval.low, interval.high] == pytest.approx(np.percentile(found[0].numpy(), [2.5, 97.5]))
    wrong = np.array([float(a != b) for a, b in zip(outputs[0], targets, strict=True)])
    other = stats.bootstrap((wrong,), np.mean, method="percentile", n_resamples=4000, rng=np.random.default_rng(0))
    assert interval.low == pytest.approx(other.confidence_interval.low, abs=0.02)
    assert interval.high == pytest.approx(other.confidence_interval.high, abs=0.02)


def test_differences_are_paired():
    """Two systems that differ in nothing have no difference in any draw, however much each varies."""
    (first, second, _), targets = systems()
    same = bootstrap(edit_error, [first, first], targets, generator(0))
    assert torch.equal(same[0], same[1])
    assert same[0].std() > 0.01
    unlike = bootstrap(edit_error, [first, second], targets, generator(0))
    assert not torch.equal(unlike[0], unlike[1])
