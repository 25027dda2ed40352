"""Outputs drawn from the model: their distribution, and their log-probabilities by another way."""

import pytest
import torch
from cases import FREE, INSIDE, KNOWN, SETTINGS, make_batch, make_model, one_example, rng
from every_output import SMALL_FREE, VOCABS, Everything, cell_log_probs, padded, tiny
from scipy import stats

from searnn.algorithms.common import paths
from searnn.algorithms.common.critic import Critic
from searnn.algorithms.common.losses import cell_losses, total
from searnn.algorithms.ocd import Ocd
from searnn.costs import EditDistance
from searnn.losses import KLLoss
from searnn.types import SearnnError

close = torch.testing.assert_close


def trimmed(row, vocab):
    return [token for token in row.tolist() if token != vocab.pad]


@pytest.mark.parametrize("vocab", VOCABS.values(), ids=VOCABS)
def test_outputs_are_drawn_with_their_probabilities(vocab):
    """Chi-squared over all outputs there are."""
    model, batch = tiny(vocab)
    every = Everything(model, batch, "exact")
    count = 20_000
    drawn = paths.draw(model, model.encode(batch.inputs), batch, rng(), count)
    kinds = {tuple(tokens): place for place, tokens in enumerate(every.outputs)}
    seen = torch.zeros(len(kinds))
    for row, times in zip(*drawn[0].unique(dim=0, return_counts=True), strict=True):
        seen[kinds[tuple(trimmed(row, vocab))]] += times
    expected = every.probs.detach() * count
    common = expected > 5
    seen = torch.cat([seen[common], seen[~common].sum().view(1)])
    expected = torch.cat([expected[common], expected[~common].sum().view(1).clamp(min=1e-3)])
    assert common.sum() > 4
    assert stats.chisquare(seen.numpy(), (expected / expected.sum() * count).numpy()).pvalue > 1e-3


@pytest.mark.parametrize("setting", ["gru", "lstm-attention", "aligned", "two-directions", "transformer"])
@pytest.mark.parametrize("vocab", [KNOWN, FREE, INSIDE], ids=["known", "free", "inside"])
def test_log_probabilities_are_those_of_stepping_through_the_finished_outputs(setting, vocab):
    model, batch = make_model(vocab, spread=1.5, **SETTINGS[setting]), make_batch(vocab, lengths=(4, 2, 3), room=1)
    memory = model.encode(batch.inputs)
    drawn = paths.draw(model, memory, batch, rng(), 3)
    found = paths.rescore(model, memory, drawn)
    assert (drawn[:, 0] != drawn[:, 1]).any()
    for example, rows in enumerate(drawn):
        alone = one_example(batch, example)
        for row, tokens in enumerate(rows):
            written = trimmed(tokens, vocab)
            assert found.counted[example, row].sum() == len(written) > 0
            close(found.chosen[example, row, : len(written)], cell_log_probs(model, alone, written))
            assert (found.chosen[example, row, len(written) :] == 0).all()


def test_entropy_is_the_librarys():
    model, batch = make_model(INSIDE), make_batch(INSIDE)
    memory = model.encode(batch.inputs)
    found = paths.rescore(model, memory, paths.draw(model, memory, batch, rng(), 2))
    expected = torch.distributions.Categorical(logits=found.scores[..., list(INSIDE.choosable)]).entropy()
    close(paths.entropies(found.log_probs), expected)
    paths.entropies(found.log_probs).sum().backward()
    assert all(torch.isfinite(p.grad).all() for p in model.parameters() if p.grad is not None)


@pytest.mark.parametrize("vocab", [KNOWN, FREE], ids=["known", "free"])
def test_given_cells_are_the_truths(vocab):
    model, batch = make_model(vocab), make_batch(vocab, lengths=(5, 3, 1), room=1)
    memory = model.encode(batch.inputs)
    for given in range(8):
        drawn = paths.draw(model, memory, batch, rng(), 2, given)
        assert torch.equal(drawn[..., :given], batch.targets[:, None, :given].expand(-1, 2, -1))
    assert torch.equal(drawn, batch.targets.unsqueeze(1).expand(-1, 2, -1))
    plain = paths.draw(model, memory, batch, rng(), 2)
    assert (plain != drawn).any()
    assert not torch.equal(paths.draw(model, memory, batch, rng(), 2, 1)[..., 1:], drawn[..., 1:])
    for given in (0, 1, 2):  # and the next is the model's own
        unsure = make_model(vocab, spread=1.0)
        many = paths.draw(unsure, unsure.encode(batch.inputs), batch, rng(), 50, given)[0]
        assert len(set(many[:, given].tolist())) > 1


def test_dropout_is_off_while_drawing_and_on_while_scoring():
    model, batch = make_model(FREE, dropout=0.5).train(), make_batch(FREE, room=1)
    _, _, memory, fixed = paths.read(model, batch)
    drawn = paths.draw(model, fixed, batch, rng(), 4)
    assert torch.equal(drawn, paths.draw(model, paths.read(model, batch)[3], batch, rng(), 4))
    assert model.training
    first, second = (paths.rescore(model, memory, drawn).chosen for _ in range(2))
    assert not torch.equal(first, second)


def test_totals_are_means_over_outputs():
    losses = torch.arange(12.0).view(1, 2, 6)
    counted = torch.tensor([[[True] * 6, [True] * 2 + [False] * 4]])
    kept = losses[counted]
    assert paths.total_of_paths(losses, counted, "batch") == kept.sum() / 2
    assert paths.total_of_paths(losses, counted, "sum") == kept.sum() / 2
    assert paths.total_of_paths(losses, counted, "cell") == kept.mean()
    for count, value in ((0, 0.0), (1, 3.0), (2, 4.0)):
        cells = (torch.arange(2) < count).unsqueeze(0)
        assert total(torch.tensor([[3.0, 5.0]]), cells, "cell") == value


def test_a_cost_of_another_shape_is_refused():
    batch = make_batch(SMALL_FREE, lengths=(2, 1))
    outputs = torch.cat([padded([0, 1], batch)] * 2)
    close(paths.costs_of(EditDistance(), outputs, batch, torch.zeros(())).shape, torch.Size([2, 1]))
    assert paths.costs_of(EditDistance(), outputs, batch, torch.zeros((), dtype=torch.float64)).dtype == torch.float64
    with pytest.raises(SearnnError, match=r"shape \[2\], expected one number per output: \[2, 1\]"):
        paths.costs_of(lambda outputs, targets: torch.zeros(len(outputs)), outputs, batch, torch.zeros(()))


def test_in_half_precision_scores_are_of_16_bits_and_what_is_made_of_them_of_32():
    model, batch = make_model(FREE).to(torch.bfloat16), make_batch(FREE, room=1)
    memory = model.encode(batch.inputs)
    outputs = paths.draw(model, memory, batch, rng(), 2)
    found = paths.rescore(model, memory, outputs)
    scores = model.trace(memory, outputs[:, 1])[0]
    assert scores.dtype == torch.bfloat16
    close(found.log_probs[:, 1], scores.float().log_softmax(-1))
    costs = torch.rand(scores.shape, generator=rng())
    valid = (outputs[:, 1] != FREE.pad).unsqueeze(-1).expand_as(scores)
    losses = cell_losses(KLLoss(2.0), scores, costs, valid, rng())
    close(losses, KLLoss(2.0)(scores.float(), costs, valid))
    doubled = KLLoss(2.0)(scores.double(), costs.double(), valid)
    assert torch.equal(cell_losses(KLLoss(2.0), scores.double(), costs, valid, rng()), doubled)
    assert Ocd()(model, batch, rng()).loss.dtype == torch.float32
    critic = Critic(FREE, 4)
    assert critic.to(torch.bfloat16)(outputs[:, 0], batch).dtype == torch.float32
