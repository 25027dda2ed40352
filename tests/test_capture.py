"""What is prepared on the host for steps that are recorded: few shapes, and plans that serve every batch of a shape."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from searnn.algorithms import Mle, Searnn
from searnn.costs import EditDistance, from_callable
from searnn.losses import KLLoss
from searnn.policies import Learned
from searnn.rng import generator
from searnn.training import fit
from searnn.training.capture import may_be_recorded, planned_for_all, round_number, rounded, shapes
from searnn.types import Batch, Inputs, SearnnError
from training_cases import SETTINGS, make_model, make_task, random_searnn

SEARNN = Searnn(Learned(), Learned(), EditDistance(), KLLoss(3.0))


@pytest.mark.parametrize(
    ("size", "rounded_up"),
    [(1, 2), (4, 4), (5, 6), (13, 14), (17, 20), (32, 32), (33, 40), (64, 64), (65, 80), (200, 208)],
)
def test_sizes_are_rounded_up(size, rounded_up):
    assert round_number(size) == rounded_up


def test_few_sizes_occur():
    assert len({round_number(size) for size in range(1, 201)}) == 8 + 4 + 4 + 9
    assert all(size <= round_number(size) <= max(size + 1, 1.25 * size) for size in range(1, 400))


def batch_of(task) -> Batch:
    return replace(task.train(4, seed=0).batch(0), vocab=task.vocab)


def test_a_batch_is_padded_and_keeps_what_it_says():
    batch = batch_of(make_task())
    padded = rounded(batch)
    cells, sources = batch.targets.shape[1], batch.inputs.values.shape[1]
    assert padded.targets.shape[1] == round_number(cells)
    assert padded.inputs.values.shape[1] == round_number(sources)
    assert padded.targets[:, :cells].equal(batch.targets)
    assert (padded.targets[:, cells:] == batch.vocab.pad).all()
    assert padded.inputs.values[:, :sources].equal(batch.inputs.values)
    assert padded.lengths.equal(batch.lengths)
    assert padded.inputs.lengths.equal(batch.inputs.lengths)
    assert rounded(padded).targets.equal(padded.targets)


def test_features_are_padded_along_the_source():
    targets = torch.zeros(2, 5, dtype=torch.long)
    batch = replace(batch_of(make_task()), inputs=Inputs(torch.rand(2, 5, 3), torch.tensor([5, 4])), targets=targets,
                    lengths=torch.tensor([5, 4]), ids=None, host_lengths=None)  # fmt: skip
    assert rounded(batch).inputs.values.shape == (2, 6, 3)


def test_inputs_of_a_user_are_left_alone():
    batch = replace(batch_of(make_task()), inputs={"x": torch.rand(4, 5)})
    assert rounded(batch).inputs is batch.inputs


def test_the_shape_tells_batches_apart():
    batch = batch_of(make_task())
    assert shapes(batch) == shapes(replace(batch, lengths=batch.lengths - 1, host_lengths=None))
    assert shapes(batch) != shapes(rounded(batch))


@pytest.mark.parametrize("algorithm", [Mle(), SEARNN], ids=["mle", "searnn"])
def test_padding_and_planning_for_all_change_no_gradient(algorithm):
    model, batch = make_model().eval(), batch_of(make_task())  # dropout would draw by shape
    found = []
    for given in (batch, planned_for_all(rounded(batch))):
        model.zero_grad()
        update = algorithm(model, given, generator(0, "test"))
        update.loss.backward()
        found.append((update.loss.detach(), *(parameter.grad for parameter in model.parameters())))
    for one, other in zip(*found, strict=True):
        torch.testing.assert_close(one, other)


def test_only_our_own_unchanging_parts_are_recorded():
    model = make_model()
    assert may_be_recorded(model, SEARNN)
    assert may_be_recorded(model, Mle())
    assert not may_be_recorded(model, random_searnn())  # it has a schedule
    assert not may_be_recorded(model, replace(SEARNN, cost=from_callable(lambda output, target: 0.0)))

    class Own(EditDistance):
        pass

    assert not may_be_recorded(model, replace(SEARNN, cost=Own()))


def test_recording_needs_a_gpu(tmp_path):
    with pytest.raises(SearnnError, match="compile is on, but there is no CUDA device: use compile auto or off"):
        fit(make_model(), Mle(), make_task(), replace(SETTINGS, compile="on"), tmp_path)
