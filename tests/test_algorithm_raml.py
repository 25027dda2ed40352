"""RAML: the law of its targets against enumeration, its gradient against the exact one, MLE as its limit."""

import itertools
import math
from collections import Counter
from dataclasses import replace

import pytest
import torch
from cases import FREE, INSIDE, KNOWN, SETTINGS, make_batch, make_model, rng
from naive import edit, hamming, strip
from scipy.stats import chisquare
from toy_runs import error_after

from searnn import Batch, Inputs, Mle, SearnnError, Vocabulary
from searnn.algorithms.common.perturbation import Counts, _draw, _kept_slots, perturb, usual_tau
from searnn.algorithms.raml import Raml
from searnn.costs import EditDistance, Hamming, SentenceBleu

vocabs = pytest.mark.parametrize("vocab", [KNOWN, FREE, INSIDE], ids=["known", "free", "inside"])
close = torch.testing.assert_close
TWO = Vocabulary(size=5, pad=0, bos=2, eos=3)  # the words 1 and 4, with others between them
TWO_KNOWN = Vocabulary(size=4, pad=1, bos=5)  # the words 0, 2 and 3


def copies(vocab, truth, room, count):
    """The same example many times."""
    ended = [*truth] if vocab.eos is None else [*truth, vocab.eos]
    width = max(len(ended), room)
    targets = torch.tensor([ended + [vocab.pad] * (width - len(ended))]).repeat(count, 1)
    inputs = Inputs(torch.tensor([[1, 2]]).repeat(count, 1), torch.full((count,), 2))
    limits = torch.full((count,), len(ended) if vocab.eos is None else room)
    return Batch(inputs, targets, limits, vocab=vocab)


def words_of(vocab):
    return [token for token in vocab.choosable if token != vocab.eos]


def scripts(vocab, truth, most):
    """All ways to edit that end in at most `most` tokens: (output, edits). Insertions stand before what is kept."""
    words = words_of(vocab)

    def insert(ways):
        grown = list(ways)
        while ways:
            ways = [((*output, word), edits + 1) for output, edits in ways if len(output) < most for word in words]
            grown += ways
        return grown

    ways = [((), 0)]
    for token in truth:
        grown = [((*output, other), edits + 1) for output, edits in ways for other in words if other != token]
        grown += [(output, edits + 1) for output, edits in ways]
        grown += [((*output, token), edits) for output, edits in insert(ways)]
        ways = [(output, edits) for output, edits in grown if len(output) <= most]
    return insert(ways)


def fits(drawn, law):
    """A chi-squared test of what was drawn against its law."""
    total = sum(law.values())
    count = sum(drawn.values())
    assert set(drawn) <= set(law)
    common = [one for one in law if law[one] / total * count >= 5]
    observed, expected = [drawn[one] for one in common], [law[one] / total * count for one in common]
    rest = count - sum(expected)
    if rest > 1:
        observed, expected = [*observed, count - sum(observed)], [*expected, rest]
    else:
        expected = [value * sum(observed) / sum(expected) for value in expected]
    assert len(common) > 3
    assert chisquare(observed, expected).pvalue > 1e-3


@pytest.mark.parametrize("tau", [0.4, 1.0, 3.0])
@pytest.mark.parametrize(("vocab", "truth"), [(TWO, [1, 4, 4]), (TWO_KNOWN, [0, 3, 2]), (FREE, [2, 2])])
def test_hamming_targets_follow_the_exponentiated_distance_exactly(vocab, truth, tau):
    batch = copies(vocab, truth, 5, 4000)
    targets, edits = perturb(batch, tau, rng(1), lengths=False)
    outputs = [tuple(strip(row, vocab)) for row in targets.tolist()]
    law = {y: math.exp(-hamming(y, truth) / tau) for y in itertools.product(words_of(vocab), repeat=len(truth))}
    fits(Counter(outputs), law)
    assert edits.tolist() == [hamming(output, truth) for output in outputs]
    if vocab.eos is not None:
        assert (targets[:, len(truth)] == vocab.eos).all()


@pytest.mark.parametrize("tau", [0.4, 1.0])
@pytest.mark.parametrize(
    ("vocab", "truth", "room"), [(TWO, [1, 4], 5), (TWO, [4, 4, 1], 5), (TWO, [], 3), (FREE, [2], 3), (FREE, [1, 2], 3)]
)
def test_edited_targets_follow_the_number_of_ways_to_edit(vocab, truth, room, tau):
    """Exact over the ways to edit that have room, EOS included; equal outputs of several ways add up."""
    batch = copies(vocab, truth, room, 6000)
    targets, edits = perturb(batch, tau, rng(2), lengths=True)
    law, by_edits = Counter(), Counter()
    for output, count in scripts(vocab, truth, room - 1):
        law[output] += math.exp(-count / tau)
        by_edits[count] += math.exp(-count / tau)
    outputs = [tuple(strip(row, vocab)) for row in targets.tolist()]
    fits(Counter(outputs), law)
    if len(by_edits) > 3:
        fits(Counter(edits.tolist()), by_edits)
    for output, count in zip(outputs[:200], edits.tolist(), strict=False):
        assert edit(output, truth) <= count
    assert ((targets == vocab.eos).sum(1) == 1).all()


@pytest.mark.parametrize("truth", [[0, 2], [3, 3, 2]])
def test_edited_targets_of_known_length_keep_it(truth):
    batch = copies(TWO_KNOWN, truth, len(truth), 6000)
    targets, edits = perturb(batch, 1.0, rng(3), lengths=True)
    law = Counter()
    for output, count in scripts(TWO_KNOWN, truth, len(truth)):
        if len(output) == len(truth):
            law[output] += math.exp(-count)
    fits(Counter(tuple(row) for row in targets.tolist()), law)
    assert edits.max() > len(truth)  # deletions and insertions beyond the substitutions


@pytest.mark.parametrize("tau", [0.2, 0.4])
def test_ways_to_edit_are_near_the_exponentiated_distance(tau):
    """What the paper approximates too: an output counts as often as there are ways, and by their edits."""
    truth, most = [1, 4, 4], 4
    exact = {
        y: math.exp(-edit(y, truth) / tau)
        for size in range(most + 1)
        for y in itertools.product(words_of(TWO), repeat=size)
    }
    law = Counter()
    for output, count in scripts(TWO, truth, most):
        law[output] += math.exp(-count / tau)
    assert set(law) == set(exact)
    total, whole = sum(law.values()), sum(exact.values())
    apart = sum(abs(law[y] / total - exact[y] / whole) for y in exact) / 2
    assert apart < {0.2: 0.03, 0.4: 0.16}[tau]


def expected_edits(words, length, most, tau):
    """By how many edits: the mean over the law, with whole numbers of ways. Hamming where `most` is None."""
    weights = Counter()
    if most is None:
        for edits in range(length + 1):
            weights[edits] += math.comb(length, edits) * (words - 1) ** edits
    else:
        for kept, deleted, inserted in itertools.product(range(length + 1), range(length + 1), range(most + 1)):
            replaced = length - kept - deleted
            if replaced >= 0 and length - deleted + inserted <= most:
                places = math.comb(length, kept) * math.comb(length - kept, deleted) * math.comb(kept + inserted, kept)
                weights[replaced + deleted + inserted] += places * (words - 1) ** replaced * words**inserted
    masses = {edits: math.exp(math.log(ways) - edits / tau) for edits, ways in weights.items()}
    return sum(edits * mass for edits, mass in masses.items()) / sum(masses.values())


@pytest.mark.parametrize("size", [30, 8000])
@pytest.mark.parametrize(("cost", "least", "highest"), [(Hamming(), 0.04, 0.05), (EditDistance(), 0.09, 0.11)])
def test_by_default_as_many_tokens_are_edited_whatever_the_vocabulary(size, cost, least, highest):
    """Of twelve tokens half a one is replaced, and about as much inserted; at a fixed tau it was nearly all of them."""
    vocab, length, room = Vocabulary(size=size, pad=0, bos=1, eos=2), 12, 24
    most = room - 1 if isinstance(cost, EditDistance) else None
    exact = expected_edits(size - 3, length, most, usual_tau(vocab))
    assert least < exact / length < highest
    assert size == 30 or expected_edits(size - 3, length, most, 0.15) / length > 0.9
    truth = [3 + 2 * place for place in range(length)]
    _, edits = perturb(copies(vocab, truth, room, 4000), usual_tau(vocab), rng(4), lengths=most is not None)
    assert edits.double().mean().item() == pytest.approx(exact, abs=5 * math.sqrt(2 * exact / 4000))
    model, few = make_model(vocab), copies(vocab, truth, room, 20)
    found, same = (Raml(cost=cost, tau=tau)(model, few, rng(4)) for tau in (None, usual_tau(vocab)))
    assert torch.equal(found.loss, same.loss)
    assert found.logs["edits"] > 0
    assert found.logs["edited_share"].item() == pytest.approx(found.logs["edits"].item() / length)


@vocabs
@pytest.mark.parametrize("cost", [Hamming(), EditDistance()], ids=["hamming", "edit"])
def test_no_temperature_is_maximum_likelihood(vocab, cost):
    model, batch = make_model(vocab, spread=1.5), make_batch(vocab, room=1)
    for normalisation in ("batch", "cell", "sum"):
        found = Raml(cost=cost, tau=0.0, normalisation=normalisation)(model, batch, rng())
        expected = Mle(normalisation=normalisation)(model, batch, rng())
        assert torch.equal(found.loss, expected.loss)
        assert found.cells == expected.cells
        assert found.logs["edits"] == 0
    assert torch.equal(Raml(cost=cost, tau=1e-3)(model, batch, rng()).loss, Mle()(model, batch, rng()).loss)


@pytest.mark.parametrize("setting", ["gru", "transformer"])
def test_the_mean_over_draws_is_the_exact_objective_and_gradient(setting):
    """Hamming: Σ_y q(y) (-log p(y)) over all outputs of the truth's length, with its gradient."""
    truth, tau, groups, size = [1, 3], 0.8, 12, 250
    model = make_model(FREE, seed=2, spread=1.2, **SETTINGS[setting])

    def gradient(loss):
        model.zero_grad()
        loss.backward()
        parts = [p.grad.flatten() for p in model.parameters() if p.grad is not None]
        return torch.cat([loss.detach().view(1), *parts])

    outputs = list(itertools.product(words_of(FREE), repeat=2))
    law = torch.tensor([math.exp(-hamming(y, truth) / tau) for y in outputs], dtype=torch.float64)
    each = copies(FREE, truth, 3, len(outputs))
    targets = torch.tensor([[*y, FREE.eos] for y in outputs])
    scores, _ = model.trace(model.encode(each.inputs), targets)
    losses = -scores.log_softmax(-1).gather(2, targets.unsqueeze(-1)).sum((1, 2))
    exact = gradient((law / law.sum() * losses).sum())
    batch = copies(FREE, truth, 3, size)
    algorithm = Raml(cost=Hamming(), tau=tau)
    draws = torch.stack([gradient(algorithm(model, batch, rng(seed)).loss) for seed in range(groups)])
    error = draws.std(0) / math.sqrt(groups)
    away = (draws.mean(0) - exact).abs()
    assert (away <= 5 * error + 1e-9).all()
    assert away[0] <= 4 * error[0]
    assert (exact - gradient(Mle()(model, batch, rng()).loss)).abs().max() > 20 * error.max()


def test_the_settings_change_something_and_draws_follow_the_generator():
    model, batch = make_model(FREE, spread=1.5), make_batch(FREE, lengths=(5, 3, 4, 5, 2), room=2)
    base = Raml(tau=0.6)
    assert torch.equal(base(model, batch, rng(1)).loss, base(model, batch, rng(1)).loss)
    assert base(model, batch, rng(1)).loss != base(model, batch, rng(2)).loss
    for other in (replace(base, tau=2.0), replace(base, cost=Hamming()), replace(base, normalisation="sum")):
        assert other(model, batch, rng(1)).loss != base(model, batch, rng(1)).loss
    plain = replace(base, cost=EditDistance(normalised=False))  # the temperature has the unit of edits either way
    assert torch.equal(plain(model, batch, rng(1)).loss, base(model, batch, rng(1)).loss)
    hot, cold = (replace(base, tau=tau)(model, batch, rng(1)).logs["edits"] for tau in (5.0, 0.1))
    assert hot > cold


@vocabs
@pytest.mark.parametrize("cost", [Hamming(), EditDistance()], ids=["hamming", "edit"])
def test_targets_are_outputs_however_hot(vocab, cost):
    batch = make_batch(vocab, lengths=(5, 3, 1), room=2)
    for seed in range(20):
        targets, _ = perturb(batch, 50.0, rng(seed), lengths=isinstance(cost, EditDistance))
        for row, limit in zip(targets.tolist(), batch.lengths.tolist(), strict=True):
            end = row.index(vocab.eos) if vocab.eos in row else limit
            assert set(row[:end]) <= set(words_of(vocab))
            assert end < limit or vocab.eos is None
            assert set(row[end + (vocab.eos is not None) :]) <= {vocab.pad}


def test_a_draw_of_exactly_0_is_the_first_that_has_a_chance():
    weights = torch.tensor([[-torch.inf, -torch.inf, 0.0, 1.0], [0.0, 0.0, 0.0, 0.0]], dtype=torch.float64)
    assert _draw(weights, torch.zeros(2)).tolist() == [2, 0]
    assert _draw(weights, torch.full((2,), 1 - 2**-24)).tolist() == [3, 3]


def test_kept_tokens_stay_in_their_order_among_many_slots():
    """As many as are kept, ascending, out of the kept and the inserted ones; of any two slots each is as likely."""
    kept, inserted = 20, 15
    counts = Counts(*(torch.full((300, 1), count) for count in (kept, 0, 0, inserted)))
    slots = _kept_slots(counts, 40, rng(3))[:, :kept]
    assert (slots.diff(dim=1) > 0).all()
    assert slots.max() < kept + inserted
    share = slots.flatten().bincount(minlength=kept + inserted) / 300
    assert (share - kept / (kept + inserted)).abs().max() < 5 * (0.25 / 300) ** 0.5


def test_one_word_alone_cannot_be_substituted():
    one = Vocabulary(size=2, pad=2, bos=3, eos=0)
    assert usual_tau(one) == 1 / 3
    batch = copies(one, [1, 1], 5, 500)
    assert torch.equal(perturb(batch, 1.0, rng(), lengths=False)[0], batch.targets)
    lengths = (perturb(batch, 1.0, rng(), lengths=True)[0] == 1).sum(1)
    assert sorted(set(lengths.tolist())) == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("wrong", [{"tau": -1.0}, {"tau": math.inf}, {"tau": math.nan}, {"cost": SentenceBleu()}])
def test_wrong_settings_are_refused(wrong):
    with pytest.raises(SearnnError):
        Raml(**wrong)


@pytest.mark.slow
@pytest.mark.parametrize("reverse", [False, True], ids=["copy", "reverse"])
@pytest.mark.parametrize("cost", [Hamming(), EditDistance()], ids=["hamming", "edit"])
def test_it_learns(cost, reverse, tmp_path):
    assert error_after(Raml(cost=cost), reverse, tmp_path / "run") < 0.01
