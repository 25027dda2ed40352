"""What a run says of itself at an evaluation comes from batches of all lengths, not from the shortest alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from training_cases import SETTINGS, lines, make_model, make_task, random_searnn

from searnn import rng, schedules
from searnn.training import fit
from searnn.training import loop as training_loop
from searnn.training.diagnosis import diagnose

QUICK = replace(SETTINGS, steps=2, eval_every=2)


@pytest.mark.parametrize(
    ("batch_size", "chosen"), [(12, [0]), (6, [0, 1]), (5, [0, 1, 2]), (2, [1, 3, 5]), (1, [2, 6, 10])]
)
def test_three_batches_from_all_over_the_validation_data(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, batch_size: int, chosen: list[int]
) -> None:
    seen: list[tuple[int, ...] | None] = []

    def look(model: Any, batch: Any, algorithm: Any, generator: Any, *, cost: Any) -> dict[str, torch.Tensor]:
        seen.append(batch.ids)
        return {"mark": torch.tensor(float(len(seen)))}

    monkeypatch.setattr(training_loop, "diagnose", look)
    fit(make_model(), random_searnn(), make_task(), replace(QUICK, batch_size=batch_size), tmp_path)
    batches = list(make_task().valid(batch_size))
    assert seen == [batches[number].ids for number in chosen]
    sizes = [len(batches[number].targets) for number in chosen]
    mean = sum(mark * size for mark, size in enumerate(sizes, 1)) / sum(sizes)
    assert lines(tmp_path)[0]["mark"] == pytest.approx(mean)


def test_their_lengths_differ() -> None:
    """The reason: the batches come in the order of length."""
    lengths = [int(batch.inputs.lengths.max()) for batch in make_task().valid(1)]
    assert lengths == sorted(lengths)
    assert lengths[0] < lengths[6] < lengths[10]


def test_the_records_hold_the_mean_over_their_examples(tmp_path: Path) -> None:
    """Each batch has a stream of random numbers of its own, by its place."""
    model = make_model()
    fit(model, random_searnn(), make_task(), replace(QUICK, batch_size=5), tmp_path)
    algorithm = schedules.at(random_searnn(), 2)
    batches = list(make_task().valid(5))
    assert [len(batch.targets) for batch in batches] == [5, 5, 2]
    found = [
        diagnose(model, batch, algorithm, rng.generator(0, "diagnose", 2, number))
        for number, batch in enumerate(batches)
    ]
    record = lines(tmp_path)[0]
    for name in ("entropy", "exposure_gap", "free_running_loss", "cost_spread", "equal_cost_share"):
        values = [float(each[name]) for each in found]
        assert record[name] == pytest.approx((5 * values[0] + 5 * values[1] + 2 * values[2]) / 12, rel=1e-5), name
    assert len({float(each["entropy"]) for each in found}) == 3
