"""Scheduled sampling against a plain loop that feeds one token at a time, and its identity with maximum likelihood."""

import math

import pytest
import torch
from cases import FREE, INSIDE, KNOWN, SETTINGS, make_batch, make_model, rng
from imitation_cases import close, log_prob, value_and_gradient
from naive import Example

from searnn import Mle, SearnnError, schedules
from searnn.algorithms import scheduled_sampling
from searnn.algorithms.scheduled_sampling import ScheduledSampling
from searnn.models import Stepped
from searnn.rng import spawn
from searnn.schedules import Exponential, InverseSigmoid, Linear

vocabs = pytest.mark.parametrize("vocab", [KNOWN, FREE, INSIDE], ids=["known", "free", "inside"])
models = pytest.mark.parametrize("setting", ["lstm-attention", "transformer"])


def naive_losses(model, batch, probability, own_tokens, two_pass):
    """The loss of every example, and whether an EOS of the model's own was fed before the truth's."""
    for_coins, for_tokens = spawn(rng(), 2)
    shape = (len(batch.targets), 1, batch.targets.shape[1])
    coins = torch.rand(shape, generator=for_coins)[:, 0] < probability
    draws = torch.rand(shape, generator=for_tokens)[:, 0]
    losses, ended_early = [], False
    for number in range(len(batch.targets)):
        example = Example(model, batch, number)
        truth = example.copy([])
        fed, loss = [], 0.0
        for cell, true in enumerate(truth):
            loss -= log_prob(example.scores(fed), true)
            scores = example.scores(truth[:cell] if two_pass else fed)
            own = max(scores, key=scores.get)
            if own_tokens == "sampled":
                running, aim = 0.0, draws[number, cell].item()
                for token in sorted(scores):
                    own, running = token, running + math.exp(log_prob(scores, token))
                    if running > aim:
                        break
            fed.append(own if coins[number, cell] else true)
            ended_early |= bool(coins[number, cell]) and own == model.vocab.eos and cell < len(truth) - 1
        losses.append(loss)
    return losses, ended_early


@vocabs
@models
@pytest.mark.parametrize("own_tokens", ["greedy", "sampled"])
def test_each_token_is_fed_by_its_own_coin_and_the_targets_are_the_truth(vocab, setting, own_tokens):
    model = make_model(vocab, seed=3, **SETTINGS[setting])
    batch = make_batch(vocab, lengths=(4, 2, 3), room=1)
    algorithm = ScheduledSampling(0.6, own_tokens=own_tokens)
    losses, _ = naive_losses(model, batch, 0.6, own_tokens, two_pass=setting == "transformer")
    close(algorithm(model, batch, rng()).loss.item(), sum(losses) / len(losses))
    if setting != "transformer":  # made steppable alone it does the same
        close(algorithm(Stepped(model), batch, rng()).loss.item(), sum(losses) / len(losses))


def test_an_end_of_the_models_own_is_fed_like_any_other_token():
    batch = make_batch(FREE, lengths=(4, 3), room=1)
    early = 0
    for seed in range(4):
        model = make_model(FREE, seed=seed)
        losses, ended = naive_losses(model, batch, 1.0, "greedy", two_pass=False)
        close(ScheduledSampling(1.0)(model, batch, rng()).loss.item(), sum(losses) / len(losses))
        early += ended
    assert early > 0


@vocabs
@models
@pytest.mark.parametrize("normalisation", ["batch", "cell", "sum"])
def test_at_probability_0_it_is_maximum_likelihood(vocab, setting, normalisation):
    model, batch = make_model(vocab, spread=1.5, **SETTINGS[setting]), make_batch(vocab, room=1)
    found = value_and_gradient(ScheduledSampling(0.0, normalisation=normalisation), model, batch)
    close(found, value_and_gradient(Mle(normalisation=normalisation), model, batch))


def test_a_draw_of_exactly_0_feeds_the_truth_where_the_models_own_has_no_chance(monkeypatch):
    """A probability that moves on the device is a tensor, and is not looked at."""
    model, batch = make_model(FREE, seed=3), make_batch(FREE, room=1)
    monkeypatch.setattr(scheduled_sampling, "uniform", lambda shape, rng, device: torch.zeros(shape))
    assert ScheduledSampling(torch.tensor(0.0))(model, batch, rng()).logs["off_truth_share"] == 0
    assert ScheduledSampling(torch.tensor(0.1))(model, batch, rng()).logs["off_truth_share"] > 0


@pytest.mark.parametrize("schedule", [Linear(0.0, 1.0, 10), Exponential(0.0, 0.9, 1.0), InverseSigmoid(10, 0.0, 1.0)])
def test_a_schedule_gives_the_probability_of_the_step(schedule):
    model, batch = make_model(FREE), make_batch(FREE)
    algorithm = ScheduledSampling(schedule)
    for step in (0, 5, 9):
        close(
            value_and_gradient(algorithm, model, batch, step=step),
            value_and_gradient(ScheduledSampling(schedule(step)), model, batch),
        )
    assert schedules.at(algorithm, 5) == schedules.at(algorithm, 5) != schedules.at(algorithm, 6)
    with pytest.raises(SearnnError, match=r"schedules\.at"):
        algorithm(model, batch, rng())


def test_the_tokens_are_made_without_dropout_and_without_gradient():
    model, batch = make_model(FREE, dropout=0.5).train(), make_batch(FREE)
    shares = set()
    for seed in range(3):
        torch.manual_seed(seed)
        shares.add(ScheduledSampling(1.0)(model, batch, rng()).logs["off_truth_share"].item())
    assert len(shares) == 1
    assert model.training


def test_how_much_of_what_is_fed_is_not_the_truth_is_logged():
    model, batch = make_model(KNOWN), make_batch(KNOWN, lengths=(5, 4, 2))
    share = ScheduledSampling(1.0)(model, batch, rng()).logs["off_truth_share"].item()
    shares = []
    for number in range(3):
        example = Example(model, batch, number)
        own, truth = example.greedy([]), example.truth
        shares.append(sum(a != b for a, b in zip(own, truth, strict=True)) / len(truth))
    assert share == pytest.approx(sum(shares) / 3)
    assert ScheduledSampling(0.0)(model, batch, rng()).logs["off_truth_share"] == 0


@pytest.mark.parametrize("probability", [1.5, -0.1])
def test_what_is_no_probability_is_refused(probability):
    with pytest.raises(SearnnError, match=f"sampling_probability is {probability}, it must be a number from 0 to 1"):
        ScheduledSampling(probability)
