"""SEARNN with the truth's cross-entropy in its loss: what is added, what it is divided by, and what stays as it was."""

import math
from dataclasses import replace

import pytest
import torch
from cases import FREE, INSIDE, KNOWN, SETTINGS, make_batch, make_model, rng
from naive import Example

from searnn import Mle, Searnn, search
from searnn.costs import EditDistance, Hamming
from searnn.losses import KLLoss, LogLoss
from searnn.models import Stepped
from searnn.oracles import OptimalEdit
from searnn.policies import Learned, Mixed, Reference, Sampled
from searnn.rng import spawn
from searnn.samplers import UniformCells, UniformTokens
from searnn.sequences import seal
from searnn.types import SearnnError

WEIGHT, SMOOTHING = 0.7, 0.2
vocabs = pytest.mark.parametrize("vocab", [KNOWN, FREE, INSIDE], ids=["known", "free", "inside"])
normalisations = pytest.mark.parametrize("normalisation", ["batch", "cell", "sum"])
classifiers = pytest.mark.parametrize("classifier", ["network", "cell"])
ends_and_totals = pytest.mark.parametrize(
    ("vocab", "normalisation"), [(KNOWN, "batch"), (FREE, "cell"), (INSIDE, "sum")], ids=["known", "free", "inside"]
)
close = torch.testing.assert_close


def make_searnn(roll_in, **changes):
    return replace(Searnn(roll_in, Mixed(), EditDistance(), KLLoss(2.0)), **changes)


def case(vocab=FREE, **settings):
    return make_model(vocab, seed=1, spread=1.5, **settings), make_batch(vocab, lengths=(5, 3, 1), room=1)


def value_and_gradient(algorithm, model, batch):
    """The loss and after it the gradients of all parameters, in one vector."""
    loss = algorithm(model, batch, rng()).loss
    gradients = torch.autograd.grad(loss, list(model.parameters()), materialize_grads=True)
    return torch.cat([loss.detach().view(1), *(gradient.flatten() for gradient in gradients)])


def searched(algorithm, model, batch):
    """What the algorithm finds in its search, where it is given `rng()`."""
    axes = {name: getattr(algorithm, name) for name in ("roll_in", "roll_out", "cost", "tokens", "cells")}
    return search(model, batch, **axes, rng=spawn(rng(), 2)[0])


def divisor(found, normalisation):
    counts = {"batch": len(found.valid), "cell": int(found.valid.any(-1).sum()), "sum": 1}
    return counts[normalisation]


def naive_cross_entropy(model, batch, smoothing):
    """Summed over the cells of the truth, with one target for each token that may be chosen, on Python lists."""
    total = 0.0
    for number in range(len(batch.targets)):
        example = Example(model, batch, number)
        truth = example.copy([])
        for cell, true in enumerate(truth):
            scores = example.scores(truth[:cell])
            norm = math.log(sum(math.exp(score) for score in scores.values()))
            targets = {token: smoothing / len(scores) + (1 - smoothing) * (token == true) for token in scores}
            total += sum(targets[token] * (norm - score) for token, score in scores.items())
    return total


@ends_and_totals
@classifiers
@pytest.mark.parametrize(
    "roll_in", [Reference(), Reference(OptimalEdit()), Mixed(reference_probability=1.0)], ids=["truth", "oracle", "mix"]
)
def test_along_the_truth_it_is_the_search_and_mle_together(vocab, normalisation, classifier, roll_in):
    model, batch = case(vocab)
    plain = make_searnn(roll_in, normalisation=normalisation, classifier=classifier)
    both = replace(plain, cross_entropy_weight=WEIGHT, label_smoothing=SMOOTHING)
    of_truth = value_and_gradient(Mle(SMOOTHING, normalisation), model, batch)
    expected = value_and_gradient(plain, model, batch) + WEIGHT * of_truth
    close(value_and_gradient(both, model, batch), expected)


@ends_and_totals
@classifiers
@pytest.mark.parametrize("roll_in", [Learned(), Sampled(), Mixed()], ids=["learned", "sampled", "mixed"])
def test_along_another_roll_in_the_truth_is_passed_too(vocab, normalisation, classifier, roll_in):
    model, batch = case(vocab)
    plain = make_searnn(roll_in, normalisation=normalisation, classifier=classifier)
    found = searched(plain, model, batch)
    assert not torch.equal(found.prefix, seal(batch.targets, batch.lengths, vocab)), "the roll-in is the truth"
    both = replace(plain, cross_entropy_weight=WEIGHT, label_smoothing=SMOOTHING)
    of_truth = value_and_gradient(Mle(SMOOTHING, "sum"), model, batch) / divisor(found, normalisation)
    close(value_and_gradient(both, model, batch), value_and_gradient(plain, model, batch) + WEIGHT * of_truth)


def test_it_is_divided_by_the_cells_of_a_roll_in_that_is_longer_or_shorter_than_the_truth():
    model, batch = case(FREE)
    plain = make_searnn(Learned(), normalisation="cell")
    cells = divisor(searched(plain, model, batch), "cell")
    assert cells != 6 + 4 + 2  # those of the truth, each with its EOS
    both = replace(plain, cross_entropy_weight=WEIGHT)(model, batch, rng()).loss
    added = both - plain(model, batch, rng()).loss
    close(added.item(), WEIGHT * naive_cross_entropy(model, batch, 0.0) / cells)


@vocabs
@pytest.mark.parametrize("smoothing", [0.0, SMOOTHING])
@pytest.mark.parametrize("room", [0, 1, -1], ids=["fits", "room", "cut"])
@pytest.mark.parametrize("roll_in", [Reference(), Learned()], ids=["truth", "learned"])
def test_what_is_added_is_the_cross_entropy_counted_token_by_token(vocab, smoothing, room, roll_in):
    """Without room for EOS the truth is cut; PAD and BOS have no share, even where the model scores them."""
    model, batch = make_model(vocab, seed=1, spread=1.5), make_batch(vocab, lengths=(4, 2), room=room)
    plain = make_searnn(roll_in, normalisation="sum")
    both = replace(plain, cross_entropy_weight=WEIGHT, label_smoothing=smoothing)
    added = both(model, batch, rng()).loss - plain(model, batch, rng()).loss
    close(added.item(), WEIGHT * naive_cross_entropy(model, batch, smoothing))


@pytest.mark.parametrize(("normalisation", "count"), [("batch", 3), ("cell", 2 + 2 + 1), ("sum", 1)])
@pytest.mark.parametrize("roll_in", [Reference(), Learned()], ids=["truth", "learned"])
def test_with_few_cells_the_truth_is_whole_and_divided_by_those_that_are_costed(normalisation, count, roll_in):
    model, batch = case(KNOWN)
    plain = make_searnn(roll_in, normalisation=normalisation, cells=UniformCells(2))
    both = replace(plain, cross_entropy_weight=WEIGHT, label_smoothing=SMOOTHING)
    of_truth = value_and_gradient(Mle(SMOOTHING, "sum"), model, batch)
    close(of_truth[0].item(), naive_cross_entropy(model, batch, SMOOTHING))  # all 5 + 3 + 1 cells
    expected = value_and_gradient(plain, model, batch) + WEIGHT * of_truth / count
    close(value_and_gradient(both, model, batch), expected)


def test_the_cells_and_the_logs_are_those_of_the_loss():
    model, batch = case(KNOWN)
    update = make_searnn(Learned(), cells=UniformCells(2), cross_entropy_weight=WEIGHT)(model, batch, rng())
    assert update.cells == 2 + 2 + 1
    assert torch.equal(update.logs["loss"], update.loss)
    assert not update.logs["loss"].requires_grad


@vocabs
@normalisations
def test_where_the_search_itself_is_mle_the_weights_add_up(vocab, normalisation):
    model, batch = case(vocab)
    searnn = Searnn(Reference(), Reference(), Hamming(), LogLoss(), normalisation=normalisation)
    both = replace(searnn, cross_entropy_weight=WEIGHT)
    mle = value_and_gradient(Mle(normalisation=normalisation), model, batch)
    close(value_and_gradient(both, model, batch), (1 + WEIGHT) * mle)


@pytest.mark.parametrize("setting", ["dropout", "transformer-dropout"])
def test_with_dropout_one_pass_along_the_truth_serves_both(setting):
    """The search is MLE there: with masks of its own the cross-entropy would be another number."""
    model, batch = case(FREE, **SETTINGS[setting])
    model.train()
    plain = Searnn(Reference(), Reference(), Hamming(), LogLoss())
    values = []
    for algorithm in (plain, replace(plain, cross_entropy_weight=WEIGHT)):
        torch.manual_seed(0)
        values.append(value_and_gradient(algorithm, model, batch))
    close(values[1], (1 + WEIGHT) * values[0])


@classifiers
@pytest.mark.parametrize(
    ("vocab", "setting"), [(KNOWN, "dropout"), (FREE, "transformer-dropout")], ids=["known", "free"]
)
@pytest.mark.parametrize("roll_in", [Reference(), Learned()], ids=["truth", "learned"])
def test_dropout_is_on_in_the_cross_entropy(roll_in, vocab, setting, classifier):
    model, batch = case(vocab, **SETTINGS[setting])
    plain = make_searnn(roll_in, classifier=classifier)
    both = replace(plain, cross_entropy_weight=WEIGHT, label_smoothing=SMOOTHING)
    without = WEIGHT * Mle(SMOOTHING)(model, batch, rng()).loss.item()
    model.train()
    added = []
    for seed in (0, 0, 1):
        found = []
        for algorithm in (both, plain):
            torch.manual_seed(seed)
            found.append(value_and_gradient(algorithm, model, batch))
        assert all(bool(value.isfinite().all()) for value in found)
        added.append((found[0] - found[1])[0].item())
    assert model.training
    assert added[0] == added[1] != added[2]
    assert abs(added[0] - without) > 1e-3 * without


class Recorded:
    """A loss that keeps what it is given, and the state of torch's own random numbers, of which dropout draws."""

    def __init__(self):
        self.given, self.state = [], None

    def __call__(self, scores, costs, valid):
        self.given, self.state = [scores.detach(), costs, valid], torch.get_rng_state()
        return KLLoss(2.0)(scores, costs, valid)


@classifiers
@pytest.mark.parametrize("training", [False, True], ids=["evaluating", "training"])
def test_weight_0_changes_no_bit_and_no_weight_changes_the_search(training, classifier):
    model, batch = case(FREE, dropout=0.5)
    model.train(training)

    def run(**added):
        loss, draws = Recorded(), rng(3)
        random = {"tokens": UniformTokens(2), "cells": UniformCells(2), "loss": loss, "classifier": classifier}
        torch.manual_seed(0)
        update = make_searnn(Sampled(), **random, **added)(model, batch, draws)
        drew = not torch.equal(loss.state, torch.get_rng_state())
        gradients = torch.autograd.grad(update.loss, list(model.parameters()), materialize_grads=True)
        return [*loss.given, loss.state, draws.get_state()], [update.loss, *gradients], drew

    found, learned, drew = run()
    found_with_0, learned_with_0, drew_with_0 = run(cross_entropy_weight=0.0, label_smoothing=SMOOTHING)
    found_with_more, learned_with_more, drew_with_more = run(cross_entropy_weight=WEIGHT, label_smoothing=SMOOTHING)
    assert all(map(torch.equal, found, found_with_0))
    assert all(map(torch.equal, found, found_with_more))
    assert all(map(torch.equal, learned, learned_with_0))
    assert not torch.equal(learned[0], learned_with_more[0])
    # Another pass in training is seen by what it drops out.
    assert (drew, drew_with_0, drew_with_more) == (False, False, training)


@pytest.mark.parametrize("roll_in", [Reference(), Learned()], ids=["truth", "learned"])
def test_a_model_that_can_only_step_and_a_batch_without_vocabulary(roll_in):
    model, batch = case(INSIDE)
    both = make_searnn(roll_in, cross_entropy_weight=WEIGHT, label_smoothing=SMOOTHING)
    expected = both(model, batch, rng()).loss
    close(both(Stepped(model), batch, rng()).loss, expected)
    assert torch.equal(both(model, replace(batch, vocab=None), rng()).loss, expected)


class FromTheEnd(Reference):
    """The truth backwards: a reference by its class, whose roll-in is not the truth."""

    def roll_in(self, encoded, batch, rng):
        return super().roll_in(encoded, batch, rng).flip(1)


def test_a_roll_in_of_ones_own_that_is_a_reference_is_not_taken_for_the_truth():
    model, batch = make_model(KNOWN, seed=1, spread=1.5), make_batch(KNOWN, lengths=(4, 4))
    plain = make_searnn(FromTheEnd(), normalisation="sum")
    added = replace(plain, cross_entropy_weight=WEIGHT)(model, batch, rng()).loss - plain(model, batch, rng()).loss
    close(added.item(), WEIGHT * naive_cross_entropy(model, batch, 0.0))


def test_scores_of_16_bits_are_summed_with_32():
    model, batch = case(FREE)
    exact = Mle(SMOOTHING, "sum")(model.bfloat16(), batch, rng()).loss
    assert exact.dtype == torch.float32
    close(exact, Mle(SMOOTHING, "sum")(model.double(), batch, rng()).loss.float(), rtol=0.01, atol=0)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"cross_entropy_weight": -0.1}, "cross_entropy_weight is -0.1, it must be a number of at least 0"),
        ({"cross_entropy_weight": math.nan}, "cross_entropy_weight is nan"),
        ({"cross_entropy_weight": math.inf}, "cross_entropy_weight is inf"),
        ({"cross_entropy_weight": 1.0, "label_smoothing": 1.0}, "label_smoothing is 1.0, it must be a number"),
        ({"cross_entropy_weight": 1.0, "label_smoothing": -0.1}, "label_smoothing is -0.1"),
        ({"cross_entropy_weight": 1.0, "label_smoothing": math.nan}, "label_smoothing is nan"),
        ({"label_smoothing": 1.0}, "label_smoothing is 1.0"),
    ],
)
def test_bad_numbers_are_refused(wrong, words):
    with pytest.raises(SearnnError, match=words):
        make_searnn(Learned(), **wrong)
