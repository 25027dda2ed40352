"""A batch cut into shards, one after the other: the update is that of the whole."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from distributed_cases import CASES, WHOLE, assert_same_to_rounding, searnn, train, uneven_task
from tiny import Refused, copy_flags
from training_cases import SETTINGS, make_model, make_task, same, weights

from searnn import rng
from searnn.algorithms import Mle
from searnn.cli import main
from searnn.data import sharding
from searnn.data.batching import ShuffledBatches
from searnn.rng import Shard
from searnn.training import TrainingSettings, fit
from searnn.types import Batch, SearnnError


@pytest.mark.parametrize("name", CASES)
def test_parts_give_the_update_of_the_whole(tmp_path: Path, name: str) -> None:
    train(name, tmp_path / "whole")
    train(name, tmp_path / "parts", accumulate=3)
    assert_same_to_rounding(tmp_path / "whole", tmp_path / "parts")
    assert not same(weights(tmp_path / "whole" / "last"), weights(tmp_path / "parts" / "last")), "nothing was cut"


@pytest.mark.parametrize("weight", [0.0, 0.5])
@pytest.mark.parametrize("over", ["batch", "cell", "sum"])
def test_the_update_is_what_plain_torch_makes_of_the_whole_batch(tmp_path: Path, over: Any, weight: float) -> None:
    task, algorithm = uneven_task(), searnn(normalisation=over, cross_entropy_weight=weight)
    expected = make_model(dropout=0.0)
    loss = algorithm(expected, task.train(7, 0).batch(0), rng.generator(0, "algorithm", 0)).loss
    loss.backward()
    found = make_model(dropout=0.0)
    settings = replace(WHOLE, precision="32-true", steps=1, lr=0.1, clip=None, accumulate=4)
    fit(found, algorithm, task, settings, tmp_path)
    for ours, plain in zip(found.parameters(), expected.parameters(), strict=True):
        torch.testing.assert_close(ours, plain - 0.1 * plain.grad)


def test_a_part_draws_what_the_whole_batch_would() -> None:
    def drawn(*shape: int, shard: Shard | None = None) -> torch.Tensor:
        generator = rng.generator(0, "draws", shard=shard)
        return torch.stack([rng.uniform(shape, generator, torch.device("cpu")) for _ in range(2)])

    whole = drawn(7, 3)
    for rows in ([5, 0, 2], [6]):
        shard = Shard(0, 2, 7, torch.tensor(rows))
        assert torch.equal(drawn(len(rows), 3, shard=shard), whole[:, rows])
        assert drawn(5, 3, shard=shard).shape == (2, 5, 3), "not of examples"
        assert all(rng.shard_of(child) is shard for child in rng.spawn(rng.generator(0, shard=shard), 2))
    assert torch.equal(drawn(7, 3), whole)


def test_examples_are_dealt_out_by_length() -> None:
    lengths = torch.tensor([4, 100_000, 1, 7, 4, 2, 9, 3])
    rows = [sharding.deal(lengths, index, 3).rows.tolist() for index in range(3)]
    assert rows == [[2, 0, 6], [5, 4, 1], [7, 3]]
    random = torch.randint(3, 15, (512,), generator=rng.generator(0))
    work = [int((random[sharding.deal(random, index, 8).rows] ** 2).sum()) for index in range(8)]
    assert max(work) < 1.04 * min(work)
    stretches = [int((part**2).sum()) for part in random.split(64)]
    assert max(stretches) > 1.2 * min(stretches)


def test_the_parts_of_the_data_are_those_of_its_batches() -> None:
    examples = uneven_task().examples("train")

    def change(batch: Batch, draw: torch.Generator) -> Batch:
        return replace(batch, targets=(batch.targets + torch.randint(2, batch.targets.shape, generator=draw)) % 3)

    for more in ({}, {"pool": 4}, {"change": change}, {"pad_to": (9, 11)}):
        data = ShuffledBatches(examples, 7, 0, **more)
        for step, index in ((0, 0), (20, 2)):
            batch = data.batch(step)
            found, part = data.shard(step, index, 3)
            assert (part.index, part.count, part.whole) == (index, 3, 7)
            assert batch.ids is not None
            assert batch.host_lengths is not None
            assert found.ids == tuple(batch.ids[row] for row in part.rows)
            assert found.host_lengths == tuple(batch.host_lengths[row] for row in part.rows)
            assert torch.equal(found.inputs.values, batch.inputs.values[part.rows])
            assert torch.equal(found.inputs.lengths, batch.inputs.lengths[part.rows])
            assert torch.equal(found.targets, batch.targets[part.rows])
            assert torch.equal(found.lengths, batch.lengths[part.rows])
        everywhere = [data.shard(5, index, 3)[1].rows for index in range(3)]
        assert sorted(torch.cat(everywhere).tolist()) == list(range(7))


class Plain:
    """A task whose data offers whole batches only; those of odd steps have but two examples."""

    def __init__(self, inner: Any, short: bool) -> None:
        self.inner, self.short, self.steps_per_epoch = inner, short, inner.steps_per_epoch

    def batch(self, step: int) -> Batch:
        batch: Batch = self.inner.batch(step)
        return sharding.take(batch, torch.tensor([0, 4])) if self.short and step % 2 else batch


@pytest.mark.parametrize("short", [False, True])
def test_data_that_offers_whole_batches_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, short: bool) -> None:
    task = uneven_task()
    monkeypatch.setattr(task, "train", lambda size, seed: Plain(uneven_task().train(size, seed), short))
    for accumulate in (1, 2):
        settings = replace(WHOLE, accumulate=accumulate)
        fit(make_model(dropout=0.0), Mle(), task, settings, tmp_path / str(accumulate))
    assert_same_to_rounding(tmp_path / "1", tmp_path / "2")
    if short:
        with pytest.raises(SearnnError, match="the batch of step 1 has 2 examples, which cannot be cut into 3 shards"):
            fit(make_model(), Mle(), task, replace(WHOLE, accumulate=3), tmp_path / "3")


def test_a_run_is_resumed_in_other_parts(tmp_path: Path) -> None:
    train("mixed", tmp_path / "whole", steps=6)
    train("mixed", tmp_path / "parts", accumulate=2)
    train("mixed", tmp_path / "parts", steps=6, accumulate=3, resume=True)
    assert_same_to_rounding(tmp_path / "whole", tmp_path / "parts")


def test_each_part_has_its_own_dropout_and_the_batchs_randomness(tmp_path: Path) -> None:
    draws: list[tuple[float, float]] = []

    def drawing(model: Any, batch: Any, generator: torch.Generator) -> Any:
        draws.append((float(torch.rand(())), float(torch.rand((), generator=generator))))
        return Mle()(model, batch, generator)

    fit(make_model(), drawing, make_task(), replace(SETTINGS, accumulate=3, steps=2, eval_every=2), tmp_path)
    assert len({dropout for dropout, _ in draws}) == 6
    own = [own for _, own in draws]
    assert own[:3] == [own[0]] * 3
    assert own[3:] == [own[3]] * 3
    assert own[0] != own[3]


class Silent:
    """Takes the mean over cells and does not say over how many."""

    normalisation = "cell"

    def __call__(self, model: Any, batch: Any, generator: torch.Generator) -> Any:
        return replace(Mle(normalisation="cell")(model, batch, generator), cells=None)


def test_what_cannot_be_cut(tmp_path: Path, refused: Refused) -> None:
    with pytest.raises(SearnnError, match="accumulate is 9, a batch of 8 has not as many parts"):
        replace(SETTINGS, accumulate=9)
    with pytest.raises(SearnnError, match="accumulate is 0, it must be a whole number of at least 1"):
        replace(SETTINGS, accumulate=0)
    with pytest.raises(SearnnError, match="Silent has the normalisation 'cell' and no Update"):
        fit(make_model(), Silent(), make_task(), replace(SETTINGS, accumulate=2), tmp_path / "silent")
    fit(make_model(), Silent(), make_task(), replace(SETTINGS, steps=1), tmp_path / "whole")
    message = refused(*copy_flags(tmp_path / "run"), "--accumulate", "5")
    assert "accumulate is 5, a batch of 4 has not as many parts" in message
    assert not (tmp_path / "run").exists()


def test_on_the_command_line(tmp_path: Path) -> None:
    whole, cut = tmp_path / "whole", tmp_path / "cut"
    assert main(copy_flags(whole)) == 0
    assert main([*copy_flags(cut), "--accumulate", "2"]) == 0
    assert "accumulate = 2" in (cut / "config.toml").read_text()
    assert main(["train", "copy", "--run", str(cut), "--resume", "--accumulate", "4", "--steps", "4"]) == 0
    assert main(["train", "copy", "--run", str(whole), "--resume", "--steps", "4"]) == 0
    for name, value in weights(whole / "last").items():
        torch.testing.assert_close(value, weights(cut / "last")[name], rtol=1e-3, atol=1e-4)


def test_old_checkpoints_can_be_resumed(tmp_path: Path) -> None:
    """One that was made before there were parts says nothing of them."""
    settings = replace(SETTINGS, steps=4, eval_every=2)
    fit(make_model(), Mle(), make_task(), settings, tmp_path)
    state = tmp_path / "last" / "state.json"
    told = json.loads(state.read_text())
    del told["state"]["settings"]["accumulate"], told["checksum"], told["size"]
    state.write_text(json.dumps(told))
    longer: TrainingSettings = replace(settings, steps=6)
    assert fit(make_model(), Mle(), make_task(), longer, tmp_path, resume=True).steps == 6
