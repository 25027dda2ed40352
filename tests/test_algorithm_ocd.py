"""OCD: its costs against trying all completions, its loss as SEARNN with the optimal oracle, DAgger's under Hamming."""

import itertools
import math
from dataclasses import replace

import pytest
import torch
from cases import FREE, INSIDE, KNOWN, SETTINGS, make_batch, make_model, rng
from naive import Example, edit, hamming, strip
from toy_runs import error_after

from searnn import Batch, Encoded, Searnn, SearnnError
from searnn.algorithms.ocd import Ocd
from searnn.costs import EditDistance, Hamming, SentenceBleu
from searnn.decoding import decode
from searnn.engine import Engine, using
from searnn.losses import KLLoss, LogLoss
from searnn.models import Stepped
from searnn.oracles import OptimalEdit
from searnn.policies import Learned, Mixed, Reference, Sampled

vocabs = pytest.mark.parametrize("vocab", [KNOWN, FREE, INSIDE], ids=["known", "free", "inside"])
settings = pytest.mark.parametrize("setting", ["gru", "attention", "transformer"])
distances = pytest.mark.parametrize("cost", [EditDistance(), Hamming()], ids=["edit", "hamming"])
close = torch.testing.assert_close


class Given:
    """A roll-in that is given."""

    def __init__(self, tokens):
        self.tokens = tokens

    def roll_in(self, encoded, batch, rng):
        return self.tokens


def value_and_gradient(algorithm, model, batch):
    model.zero_grad()
    loss = algorithm(model, batch, rng()).loss
    loss.backward()
    return loss.detach(), torch.cat([p.grad.flatten() for p in model.parameters() if p.grad is not None])


def finished(tokens, vocab, limit):
    """Every output that begins so."""
    if len(tokens) == limit or (vocab.eos is not None and vocab.eos in tokens):
        yield tokens
        return
    for token in vocab.choosable:
        yield from finished((*tokens, token), vocab, limit)


@vocabs
@distances
def test_the_costs_are_the_best_of_all_completions(vocab, cost):
    """By trying them, also where the output's room is shorter than what is left of the truth."""
    lengths, shorter = (3, 2, 1), -1 if vocab.eos is not None else 0
    distance = edit if isinstance(cost, EditDistance) else hamming
    for room, seed in itertools.product({0, shorter}, range(2)):
        batch = make_batch(vocab, lengths, seed=seed, room=room)
        model = make_model(vocab, seed=seed)
        prefix = Sampled(2.0).roll_in(Encoded(model, model.encode(batch.inputs)), batch, rng(seed))
        found = Ocd(cost=cost).costs_to_go(prefix, batch)
        for b, limit in enumerate(batch.lengths.tolist()):
            truth = strip(batch.targets[b].tolist(), vocab)
            written = tuple(token for token in prefix[b].tolist() if token != vocab.pad)
            for cell in range(len(written)):
                for token in vocab.choosable:
                    outputs = finished((*written[:cell], token), vocab, limit)
                    best = min(distance(strip(output, vocab), truth) for output in outputs)
                    assert found[b, cell, token] == best


@pytest.mark.skipif(torch.cuda.is_available(), reason="the interpreter is for machines without a GPU")
@vocabs
@distances
def test_the_costs_by_kernels_are_the_same(vocab, cost):
    """BOS, which stands for all tokens that the truth lacks, is a token like others to the kernels."""
    pytest.importorskip("triton")
    batch = make_batch(vocab, (4, 2, 1), room=1)
    prefix = decode(make_model(vocab, seed=1), batch)
    expected = Ocd(cost=cost).costs_to_go(prefix, batch)
    with using(Engine("triton")):
        assert torch.equal(Ocd(cost=cost).costs_to_go(prefix, batch), expected)


@vocabs
@settings
def test_ocd_is_a_learned_roll_in_with_the_optimal_oracle(vocab, setting):
    """KL with an alpha so large that P_C is uniform over the cheapest; and at a temperature, alpha is its inverse."""
    model = make_model(vocab, seed=1, spread=1.5, **SETTINGS[setting])
    batch = make_batch(vocab, lengths=(5, 4, 2), room=1)
    for tau, alpha in ((0.0, 1e6), (0.7, 1 / 0.7)):
        for roll_in in (Learned(), Given(Sampled().roll_in(Encoded(model, model.encode(batch.inputs)), batch, rng(3)))):
            searnn = Searnn(roll_in, Reference(OptimalEdit()), EditDistance(normalised=False), KLLoss(alpha))
            found = value_and_gradient(Ocd(roll_in=roll_in, tau=tau), model, batch)
            close(found, value_and_gradient(searnn, model, batch))


@vocabs
def test_without_temperature_the_target_is_uniform_over_the_optimal_tokens(vocab):
    """The optimal tokens of the paper, read off the table of distances: what follows the truth's best matches."""
    model, batch = make_model(vocab, seed=1, spread=1.5), make_batch(vocab, lengths=(5, 4, 2), room=6)
    roll_in = Given(decode(model, batch))
    update = Ocd(roll_in=roll_in, normalisation="sum")(model, batch, rng())
    expected, sizes, masses = 0.0, [], []
    for b in range(3):
        example = Example(model, batch, b)
        written = strip(roll_in.tokens[b].tolist(), vocab)
        cells = min(len(written) + (vocab.eos is not None), example.limit)
        for cell in range(cells):
            row = [edit(written[:cell], example.truth[:j]) for j in range(len(example.truth) + 1)]
            best = {example.true_token(j) for j, d in enumerate(row) if d == min(row)}
            if vocab.eos is None:  # the paper has no such case
                best = optimal_of_known_length(example, written[:cell])
            scores = example.scores(written[:cell])
            norm = math.log(sum(math.exp(score) for score in scores.values()))
            expected -= sum(scores[token] - norm for token in best) / len(best)
            sizes.append(len(best))
            masses.append(sum(math.exp(scores[token] - norm) for token in best))
    close(update.loss.item(), expected)
    assert update.cells == len(sizes)
    assert update.logs["optimal_tokens"].item() == pytest.approx(sum(sizes) / len(sizes))
    assert update.logs["optimal_probability"].item() == pytest.approx(sum(masses) / len(masses))
    assert vocab == KNOWN or max(sizes) > 1


def optimal_of_known_length(example, written):
    """The tokens after which the oracle's completion is best."""
    costs = {token: edit(example.optimal([*written, token]), example.truth) for token in example.vocab.choosable}
    return {token for token, cost in costs.items() if cost == min(costs.values())}


@vocabs
def test_under_hamming_it_is_the_truths_token_on_the_models_own_prefix(vocab):
    model, batch = make_model(vocab, seed=1, spread=1.5), make_batch(vocab, lengths=(5, 4, 2), room=1)
    searnn = Searnn(Learned(), Reference(), Hamming(), LogLoss())
    found = value_and_gradient(Ocd(roll_in=Learned(), cost=Hamming()), model, batch)
    close(found, value_and_gradient(searnn, model, batch))


def test_the_settings_change_something():
    model, batch = make_model(FREE, seed=1, spread=1.5), make_batch(FREE, lengths=(5, 4, 2), room=1)
    base = Ocd(roll_in=Learned())
    loss = base(model, batch, rng()).loss
    others = (
        replace(base, tau=0.5), replace(base, cost=Hamming()), replace(base, roll_in=Sampled(2.0)),
        replace(base, roll_in=Reference()), replace(base, normalisation="cell"),
    )  # fmt: skip
    for other in others:
        assert other(model, batch, rng()).loss != loss
    assert torch.equal(replace(base, cost=EditDistance(normalised=False))(model, batch, rng()).loss, loss)
    assert torch.equal(Ocd()(model, batch, rng(1)).loss, Ocd()(model, batch, rng(1)).loss)
    assert Ocd()(model, batch, rng(1)).loss != Ocd()(model, batch, rng(2)).loss
    close(replace(base, tau=1e-6)(model, batch, rng()).loss, loss)
    close(base(Stepped(model), batch, rng()).loss, loss)
    Ocd(roll_in=Mixed(per="token"))(model, batch, rng()).loss.backward()


def test_dropout_is_off_in_the_roll_in_and_on_in_the_gradient_pass():
    model, batch = make_model(FREE, dropout=0.5), make_batch(FREE, lengths=(5, 4, 2))
    plain = Ocd(roll_in=Learned())(model, batch, rng())
    dropped = Ocd(roll_in=Learned())(model.train(), batch, rng())
    assert dropped.loss != plain.loss
    assert dropped.cells == plain.cells
    assert dropped.logs["optimal_tokens"] == plain.logs["optimal_tokens"]


@distances
def test_an_empty_truth_of_known_length_has_no_cells_and_disturbs_no_other(cost):
    targets = torch.tensor([[0, 2, 1], [KNOWN.pad] * 3])
    both = Batch(None, targets, torch.tensor([3, 0]), vocab=KNOWN)
    alone = Batch(None, targets[:1], torch.tensor([3]), vocab=KNOWN)
    prefix = torch.tensor([[1, 2, 0], [KNOWN.pad] * 3])
    found = Ocd(cost=cost).costs_to_go(prefix, both)
    assert torch.equal(found[:1], Ocd(cost=cost).costs_to_go(prefix[:1], alone))


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"tau": -1.0}, "tau is -1.0"),
        ({"tau": math.inf}, "tau is inf"),
        ({"tau": math.nan}, "tau is nan"),
        ({"cost": SentenceBleu()}, r"edit and Hamming distance, not for SentenceBleu\(.*\): give one of them"),
    ],
)
def test_wrong_settings_are_refused(wrong, told):
    with pytest.raises(SearnnError, match=told):
        Ocd(**wrong)


@pytest.mark.slow
@pytest.mark.parametrize("reverse", [False, True], ids=["copy", "reverse"])
@pytest.mark.parametrize("algorithm", [Ocd(), Ocd(roll_in=Learned(), tau=0.1)], ids=["sampled", "greedy"])
def test_it_learns(algorithm, reverse, tmp_path):
    assert error_after(algorithm, reverse, tmp_path / "run") < 0.01
