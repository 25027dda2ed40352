"""The contract of every model: stepping is tracing, forking is tracing the joined sequence, padding changes nothing."""

from functools import partial

import pytest
import torch
from cases import FREE, KNOWN, SETTINGS, make_batch, make_model, one_example

from searnn import Inputs, SearnnError
from searnn.models import EncoderDecoder, Stepped
from searnn.models.encoder import Encoder
from searnn.models.transformer import Transformer

close = torch.testing.assert_close
settings = pytest.mark.parametrize("setting", SETTINGS)
vocabs = pytest.mark.parametrize("vocab", [KNOWN, FREE], ids=["known", "free"])


def case(setting, vocab, lengths=(5, 3, 1)):
    pixels = SETTINGS[setting].get("pixels", False)
    return make_model(vocab, seed=1, spread=2.0, **SETTINGS[setting]), make_batch(vocab, lengths, pixels=pixels, room=1)


def scores_by_stepping(model, memory, tokens):
    state, before, columns = model.start(memory), torch.full_like(tokens[:, :1], model.vocab.bos), []
    for cell in range(tokens.shape[1]):
        scores, state = model.step(memory, state, before)
        columns.append(scores)
        before = tokens[:, cell : cell + 1]
    return torch.cat(columns, dim=1)


@settings
@vocabs
def test_stepping_equals_trace(setting, vocab):
    model, batch = case(setting, vocab)
    memory = model.encode(batch.inputs)
    scores, _ = model.trace(memory, batch.targets)
    close(scores_by_stepping(model, memory, batch.targets), scores)
    assert scores.shape == (*batch.targets.shape, vocab.size)


def test_a_model_made_able_to_trace_steps():
    model, batch = case("lstm-attention", FREE)
    memory = model.encode(batch.inputs)
    scores, _ = Stepped(model).trace(memory, batch.targets)
    assert torch.equal(scores, scores_by_stepping(model, memory, batch.targets))


@settings
@vocabs
def test_forking_and_stepping_equals_trace_of_the_joined_sequence(setting, vocab):
    model, batch = case(setting, vocab, lengths=(5, 4, 5))
    memory = model.encode(batch.inputs)
    _, trail = model.trace(memory, batch.targets)
    width = batch.targets.shape[1]
    rng = torch.Generator().manual_seed(0)
    cells = torch.randint(width - 2, (3, 6), generator=rng)
    tokens = torch.randint(vocab.size, (3, 6, 2), generator=rng)
    forked, state = model.fork(memory, trail, cells)
    first, state = model.step(forked, state, tokens[..., 0])
    second, _ = model.step(forked, state, tokens[..., 1])
    for b in range(3):
        for r in range(6):
            cell = int(cells[b, r])
            joined = batch.targets.clone()
            joined[b, cell : cell + 2] = tokens[b, r]
            scores, _ = model.trace(memory, joined)
            close(first[b, r], scores[b, cell + 1])
            if cell + 2 < width:
                close(second[b, r], scores[b, cell + 2])


@settings
def test_row_order_changes_nothing(setting):
    model, batch = case(setting, FREE)
    memory = model.encode(batch.inputs)
    _, trail = model.trace(memory, batch.targets)
    cells = torch.tensor([[0, 2, 1, 3]] * 3)
    tokens = torch.tensor([[1, 2, 3, 4]] * 3)
    order = torch.tensor([2, 0, 3, 1])
    scores, _ = model.step(*model.fork(memory, trail, cells), tokens)
    shuffled, _ = model.step(*model.fork(memory, trail, cells[:, order]), tokens[:, order])
    close(shuffled, scores[:, order])


@settings
@vocabs
def test_padding_and_the_other_examples_change_nothing(setting, vocab):
    model, batch = case(setting, vocab)
    scores, _ = model.trace(model.encode(batch.inputs), batch.targets)
    for b in range(len(batch.targets)):
        alone = one_example(batch, b)
        own, _ = model.trace(model.encode(alone.inputs), alone.targets)
        inside = int(batch.lengths[b])
        close(scores[b, :inside], own[0, :inside])


@settings
def test_what_stands_in_the_padding_changes_nothing_even_where_the_source_is_empty(setting):
    model, batch = case(setting, FREE)
    lengths = torch.tensor([4, 2, 0])
    padding = torch.arange(batch.inputs.values.shape[1]) >= lengths.unsqueeze(1)
    found = []
    for value in (0, 5):
        values = batch.inputs.values.clone()
        values[padding] = value
        scores, _ = model.trace(model.encode(Inputs(values, lengths)), batch.targets)
        assert torch.isfinite(scores).all()
        found.append(scores)
    # A recurrent encoder of no source takes the state after the first padding, as it has no other.
    inside = 2 if any(isinstance(part, Encoder) for part in model.modules()) else 3
    close(found[0][:inside], found[1][:inside])


@pytest.mark.parametrize("setting", ["attention", "lstm-two-directions", "convolutional", "transformer"])
def test_columns_of_source_tokens_are_summed(setting):
    """Against a table of one row for every pair of tokens, the sum of the two rows."""
    model, batch = case(setting, FREE)
    pairs = torch.stack([batch.inputs.values, (batch.inputs.values + 3) % 7], dim=-1)
    found, _ = model.trace(model.encode(Inputs(pairs, batch.inputs.lengths)), batch.targets)
    table = next(part for part in model.encoder.modules() if isinstance(part, torch.nn.Embedding))
    weight = table.weight.detach().clone()
    rows = [[weight[left] + weight[right] for right in range(7)] for left in range(7)]
    table.weight = torch.nn.Parameter(torch.stack([vector for row in rows for vector in row]))
    single = pairs[..., 0] * 7 + pairs[..., 1]
    close(found, model.trace(model.encode(Inputs(single, batch.inputs.lengths)), batch.targets)[0])


@pytest.mark.parametrize("setting", ["gru", "lstm", "attention", "aligned", "convolutional", "transformer"])
def test_gradients_of_stepping_and_trace_agree(setting):
    model, batch = case(setting, KNOWN)
    weights = torch.randn(*batch.targets.shape, KNOWN.size, generator=torch.Generator().manual_seed(0)).double()
    found = []
    for trace in (lambda memory, tokens: model.trace(memory, tokens)[0], partial(scores_by_stepping, model)):
        model.zero_grad()
        (trace(model.encode(batch.inputs), batch.targets) * weights).sum().backward()
        found.append([parameter.grad.clone() for parameter in model.parameters()])
    for fused, stepped in zip(*found, strict=True):
        close(fused, stepped)


@pytest.mark.parametrize("setting", [name for name in SETTINGS if name != "gru"])
def test_every_setting_changes_the_model(setting):
    plain, batch = case("gru", KNOWN)
    other, own = case(setting, KNOWN)
    plain.train()
    other.train()
    torch.manual_seed(0)
    expected, _ = plain.trace(plain.encode(batch.inputs), batch.targets)
    found, _ = other.trace(other.encode(own.inputs), own.targets)
    assert not torch.allclose(found, expected)


@pytest.mark.parametrize("setting", ["dropout", "transformer-dropout"])
def test_dropout_acts_in_training_alone(setting):
    model, batch = case(setting, KNOWN)
    assert not model.same_in_training
    memory = model.encode(batch.inputs)
    first, second = (model.trace(memory, batch.targets)[0] for _ in range(2))
    assert torch.equal(first, second)
    model.train()
    first, second = (model.trace(model.encode(batch.inputs), batch.targets)[0] for _ in range(2))
    assert not torch.allclose(first, second)


@pytest.mark.parametrize("family", [EncoderDecoder, Transformer])
def test_the_generator_decides_the_first_weights(family):
    one, two, other = (family(KNOWN, features=3, rng=torch.Generator().manual_seed(s)) for s in (0, 0, 1))
    assert all(torch.equal(a, b) for a, b in zip(one.parameters(), two.parameters(), strict=True))
    assert any(not torch.equal(a, b) for a, b in zip(one.parameters(), other.parameters(), strict=True))


@pytest.mark.usefixtures("as_users_call")
@pytest.mark.parametrize(
    "wrong",
    [
        {"width": 0},
        {"layers": 0},
        {"cell": "elman"},
        {"attention": "dot"},
        {"dropout": 1.0},
        {"embedding": 0},
        {"source_size": 4},
        {"encoder": "pyramid"},
        {"encoder": "convolutional"},
        {"encoder": "convolutional", "attention": "aligned"},
        {"encoder": "convolutional", "attention": "additive", "bidirectional": True},
        {"encoder": "convolutional", "attention": "additive", "window": 4},
        {"encoder": "convolutional", "attention": "additive", "window": -1},
    ],
)
def test_wrong_settings_are_refused(wrong):
    with pytest.raises(SearnnError):
        EncoderDecoder(KNOWN, features=3, **wrong)
