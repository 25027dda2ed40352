"""The convolutional encoder against averages on Python lists, and the model that attends over it."""

import math

import pytest
import torch
from cases import FREE, KNOWN, make_batch, make_model, rng
from hypothesis import given, settings
from hypothesis import strategies as st

from searnn import Inputs, Mle, Searnn
from searnn.costs import EditDistance
from searnn.losses import KLLoss
from searnn.models import EncoderDecoder
from searnn.models.encoder import ConvEncoder, window_means
from searnn.policies import Learned, Mixed

close = torch.testing.assert_close
CONVOLUTIONAL = {"encoder": "convolutional", "attention": "additive"}


def naive_means(rows, length, window):
    """The mean of the rows within half a window, for every position before the end."""
    means = []
    for centre in range(length):
        near = [rows[other] for other in range(length) if abs(other - centre) <= window // 2]
        means.append([sum(column) / len(near) for column in zip(*near, strict=True)])
    return means


@settings(deadline=None, max_examples=60)
@given(
    lengths=st.lists(st.integers(0, 7), min_size=1, max_size=3),
    extra=st.integers(0, 2),
    window=st.sampled_from([1, 3, 5, 9]),
    seed=st.integers(0, 99),
)
def test_window_means_equal_lists(lengths, extra, window, seed):
    width = max(1, max(lengths) + extra)
    values = torch.randn(len(lengths), width, 3, generator=rng(seed), dtype=torch.float64)
    mask = torch.arange(width) < torch.tensor(lengths).unsqueeze(1)
    found = window_means(values, mask, window)
    for example, length in enumerate(lengths):
        expected = naive_means(values[example].tolist(), length, window)
        close(found[example, :length], torch.tensor(expected, dtype=torch.float64).view(length, 3))
        assert (found[example, length + window // 2 :] == 0).all()


@pytest.mark.parametrize("columns", [1, 3])
def test_the_encoder_equals_lists(columns):
    width, lengths = 4, torch.tensor([5, 2, 0])
    encoder = ConvEncoder(features=None, source_size=7, width=width, window=3, layers=2, dropout=0.5).double().eval()
    tokens = torch.randint(7, (3, 5, columns), generator=rng())
    found, means = encoder(Inputs(tokens.squeeze(-1), lengths))
    table = encoder.source.embed.weight.tolist()
    for example, length in enumerate(lengths.tolist()):
        rows = []
        for position, ids in enumerate(tokens[example].tolist()):
            angles = [position / 10000 ** (2 * i / width) for i in range(width // 2)]
            place = [*map(math.sin, angles), *map(math.cos, angles)]
            rows.append([math.sqrt(width) * sum(table[token][d] for token in ids) + place[d] for d in range(width)])
        expected = naive_means(rows, length, 3)
        close(found[example, :length], torch.tensor(expected, dtype=torch.float64).view(length, width))
        assert (found[example, length:] == 0).all()
        mean = [sum(row[d] for row in expected) / max(1, length) for d in range(width)]
        for layer in range(2):
            close(means[layer][example], torch.tensor(mean, dtype=torch.float64))


def test_a_position_sees_its_window_and_no_further():
    """A change of one token changes the features within half a window, those alone."""
    encoder = ConvEncoder(features=None, source_size=7, width=4, window=5, layers=1, dropout=0.0)
    tokens, lengths = torch.randint(6, (1, 9), generator=rng()), torch.tensor([9])
    changed = tokens.clone()
    changed[0, 4] = 6
    (before, _), (after, _) = encoder(Inputs(tokens, lengths)), encoder(Inputs(changed, lengths))
    differs = (before != after).any(-1)[0].tolist()
    assert differs == [abs(position - 4) <= 2 for position in range(9)]


def test_the_order_of_the_source_matters():
    model, batch = make_model(KNOWN, **CONVOLUTIONAL), make_batch(KNOWN, lengths=(5, 5))
    turned = Inputs(batch.inputs.values.flip(1), batch.inputs.lengths)
    one, other = (model.trace(model.encode(inputs), batch.targets)[0] for inputs in (batch.inputs, turned))
    assert not torch.allclose(one, other)


def test_the_window_changes_the_model():
    batch = make_batch(KNOWN)
    found = []
    for window in (3, 5):
        model = make_model(KNOWN, **CONVOLUTIONAL, window=window)
        found.append(model.trace(model.encode(batch.inputs), batch.targets)[0])
    assert not torch.allclose(*found)


def test_the_first_features_are_of_size_one_with_and_without_a_generator():
    for generator in (None, rng()):
        model = EncoderDecoder(FREE, source_size=7, width=64, rng=generator, **CONVOLUTIONAL)
        features, _ = model.encoder(make_batch(FREE, lengths=(6, 6)).inputs)
        assert 0.3 < features.std() < 3


algorithms = {"mle": Mle(), "searnn": Searnn(Learned(), Mixed(), EditDistance(), KLLoss(20.0))}


@pytest.mark.parametrize("algorithm", algorithms.values(), ids=algorithms)
def test_it_learns_a_batch_by_heart(algorithm):
    model = make_model(FREE, width=24, spread=1.0, **CONVOLUTIONAL).float()
    batch = make_batch(FREE, lengths=(4, 3, 4, 2, 3, 1), room=1)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    first = algorithm(model, batch, rng()).loss.item()
    for step in range(100):
        optimizer.zero_grad()
        algorithm(model, batch, rng(step)).loss.backward()
        optimizer.step()
    assert Mle()(model, batch, rng()).loss < 0.2 * first
