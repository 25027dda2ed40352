"""Actor-critic training: exact values from all outputs, the losses in plain loops, phases and delayed copies."""

import functools

import pytest
import torch
from cases import FREE, KNOWN, make_batch, make_model, one_example, rng, shard_rng
from every_output import MODELS, VOCABS, Everything, forced, gradient, naive_cost, padded, run, tiny
from naive import strip
from torch import nn

from searnn import Mle
from searnn.algorithms.actor_critic import ActorCritic
from searnn.algorithms.common import paths
from searnn.algorithms.common.critic import follow, frozen, prefix_costs
from searnn.costs import EditDistance, ExactMatch, Hamming
from searnn.models import Stepped
from searnn.rng import Shard
from searnn.schedules import at
from searnn.sequences import output_lengths
from searnn.sequences.edit import prefix_distances
from searnn.types import SearnnError

close = torch.testing.assert_close
vocabs = pytest.mark.parametrize("vocab", VOCABS.values(), ids=VOCABS)


def made(model, **settings):
    algorithm = ActorCritic(**{"cost": EditDistance(), "critic_width": 5, **settings})
    with torch.random.fork_rng():
        torch.manual_seed(0)
        algorithm.attach(model)
    return algorithm


@pytest.mark.parametrize("vocab", [KNOWN, FREE], ids=["known", "free"])
def test_prefixes_cost_what_the_rows_of_the_dynamic_program_say(vocab):
    model, batch = make_model(vocab), make_batch(vocab, lengths=(5, 3, 1), room=1)
    outputs = paths.draw(model, model.encode(batch.inputs), batch, rng())[:, 0]
    found = prefix_costs(EditDistance(normalised=False), outputs, batch, torch.zeros(()))
    length = output_lengths(batch.targets, vocab)
    table = prefix_distances(outputs, batch.targets, vocab)
    expected = table.gather(2, length.view(-1, 1, 1).expand(-1, table.shape[1], 1)).squeeze(-1)
    close(found, expected.to(found.dtype))
    close(found[:, 0], length.to(found.dtype))


class Perfect(nn.Module):
    """The exact value of every token: the cost that is saved from there on, over all ways to go on."""

    def __init__(self, model, batch, cost):
        super().__init__()
        self.model, self.batch, self.cost, self.vocab = model, batch, cost, model.vocab
        self.limit = int(batch.lengths[0])
        self.to_come = functools.cache(self.look)

    def look(self, *prefix):
        """Expected cost of the finished output after `prefix`."""
        if len(prefix) == self.limit or (self.vocab.eos is not None and self.vocab.eos in prefix):
            return naive_cost(self.cost, prefix, self.batch)
        memory = self.model.encode(self.batch.inputs)
        state = self.model.start(memory)
        for token in [self.vocab.bos, *prefix]:
            scores, state = self.model.step(memory, state, torch.tensor([[token]]))
        probs = scores[0, 0, list(self.vocab.choosable)].softmax(0).tolist()
        return sum(p * self.to_come(*prefix, token) for p, token in zip(probs, self.vocab.choosable, strict=True))

    @torch.no_grad()
    def forward(self, outputs, batch):
        written = [token for token in outputs[0].tolist() if token != self.vocab.pad]
        values = torch.zeros(*outputs.shape, self.vocab.size, dtype=torch.float64)
        for cell in range(len(written)):
            now = naive_cost(self.cost, written[:cell], self.batch)
            for token in self.vocab.choosable:
                values[0, cell, token] = now - self.to_come(*written[:cell], token)
        return values


@vocabs
@pytest.mark.parametrize("kind", ["gru", "transformer"])
def test_with_exact_values_the_critic_is_right_and_the_actor_follows_the_expected_cost(vocab, kind, monkeypatch):
    """The policy gradient theorem: the mean of Σ_a Q(a) ∇p(a) along sampled outputs is the gradient of the reward."""
    assert kind in MODELS
    model, batch = tiny(vocab, kind)
    every = Everything(model, batch, "edit")
    algorithm = made(model, variance_penalty=0.0, critic_steps=0)
    perfect, mean = Perfect(model, batch, "edit"), 0
    monkeypatch.setattr(algorithm, "_networks", lambda: (perfect, perfect, algorithm.delayed_actor))
    monkeypatch.setattr(algorithm, "_move", lambda *given: None)
    for prob, tokens in zip(every.probs, every.outputs, strict=True):
        forced(monkeypatch, padded(tokens, batch))
        update = run(algorithm, model, batch)
        close(update.logs["critic_error"].item(), 0.0, rtol=0, atol=1e-20)
        mean = mean + prob.detach() * gradient(model, update.loss)
    close(mean, gradient(model, every.value), rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("normalisation", ["batch", "cell", "sum"])
@vocabs
def test_the_losses_are_the_papers(vocab, normalisation):
    """In loops over examples, cells and tokens, with delayed networks that differ from the others."""
    model, batch = make_model(vocab, spread=1.5), make_batch(vocab, lengths=(3, 2), room=1)
    algorithm = made(model, variance_penalty=0.2, normalisation=normalisation, delay=1e-9, cross_entropy_weight=0.3)
    with torch.no_grad():
        for network in (algorithm.delayed_actor, algorithm.delayed_critic):
            for parameter in network.parameters():
                parameter.mul_(1.4)
    update = run(algorithm, model, batch, 4)
    drawer, choosable = algorithm.delayed_actor, list(vocab.choosable)
    outputs = paths.draw(drawer, drawer.encode(batch.inputs), batch, rng(4))[:, 0]
    networks = (model, drawer, algorithm.critic.network, algorithm.delayed_critic.network)
    truth = batch.targets, (batch.targets != vocab.pad).sum(1)
    sources = (batch.inputs, batch.inputs, type(batch.inputs)(*truth), type(batch.inputs)(*truth))
    scores = []
    for network, source in zip(networks, sources, strict=True):
        memory, columns = network.encode(source), []
        state, last = network.start(memory), torch.full_like(outputs[:, :1], vocab.bos)
        for cell in range(outputs.shape[1]):
            scored, state = network.step(memory, state, last)
            columns.append(scored[:, 0])
            last = outputs[:, cell : cell + 1]
        scores.append(torch.stack(columns, 1))
    actor, delayed_actor, values, delayed_values = scores
    expected, cells = 0, 0
    for example in range(2):
        alone = one_example(batch, example)
        written = [token for token in outputs[example].tolist() if token != vocab.pad]
        cells += len(written)
        for cell, token in enumerate(written):
            before, after = (naive_cost("edit", strip(written[:end], vocab), alone) for end in (cell, cell + 1))
            aim = before - after
            if cell + 1 < len(written):
                probs = delayed_actor[example, cell + 1, choosable].softmax(0)
                aim = aim + (probs * delayed_values[example, cell + 1, choosable]).sum().detach()
            here = values[example, cell, choosable]
            expected = expected + (values[example, cell, token] - aim) ** 2
            expected = expected + 0.2 * ((here - here.mean()) ** 2).sum()
            probs = actor[example, cell, choosable].softmax(0)
            expected = expected + (probs * (here.max() - here).detach()).sum()
    expected = expected / {"batch": 2, "cell": cells, "sum": 1}[normalisation]
    expected = expected + 0.3 * run(Mle(normalisation=normalisation), model, batch).loss
    close(update.loss, expected)
    close(gradient(model, update.loss), gradient(model, expected))
    close(gradient(algorithm.critic, update.loss), gradient(algorithm.critic, expected))
    assert update.cells == cells
    written = (strip(row, vocab) for row in outputs.tolist())
    costs = [naive_cost("edit", tokens, one_example(batch, number)) for number, tokens in enumerate(written)]
    assert update.logs["cost"].item() == pytest.approx(sum(costs) / 2)


def test_phases():
    algorithm = ActorCritic(cost=Hamming(), critic_steps=3)
    phases = [at(algorithm, step) for step in range(6)]
    assert [phase.critic_alone for phase in phases] == [True] * 3 + [False] * 3
    assert [phase.first for phase in phases] == [True] + [False] * 5
    assert phases[1] == phases[2] != phases[3] == phases[5]
    assert hash(phases[4]) == hash(phases[5])
    assert not at(ActorCritic(cost=Hamming(), critic_steps=0), 0).critic_alone


def test_the_critic_alone_leaves_the_actor_as_it_is():
    model, batch = make_model(FREE), make_batch(FREE, room=1)
    algorithm = made(model)
    update = run(at(algorithm, 1), model, batch)
    assert gradient(model, update.loss).abs().max() == 0
    assert gradient(algorithm.critic, update.loss).abs().max() > 0
    both = run(at(algorithm, 2000), model, batch)
    assert gradient(model, both.loss).abs().max() > 0
    close(gradient(algorithm.critic, both.loss), gradient(algorithm.critic, update.loss))


def test_the_delayed_copies_follow_in_place():
    model, batch = make_model(FREE), make_batch(FREE, room=1)
    algorithm = made(model, delay=0.25, critic_steps=0)
    copies = [*algorithm.delayed_actor.parameters(), *algorithm.delayed_critic.parameters()]
    originals = [*model.parameters(), *algorithm.critic.parameters()]
    assert not any(copy.requires_grad for copy in copies)
    before, places = [copy.clone() for copy in copies], [copy.data_ptr() for copy in copies]

    def shift():
        with torch.no_grad():
            for parameter in originals:
                parameter.add_(1.0)

    shift()
    for _ in range(2):  # once: nothing is learnt between the two
        run(algorithm, model, batch)
        for copy, old in zip(copies, before, strict=True):
            close(copy, old + 0.25)
    shift()
    run(at(algorithm, 5), Stepped(model), batch)
    for copy, old in zip(copies, before, strict=True):
        close(copy, old + 0.25 + 0.25 * 1.75)
    run(at(algorithm, 0), model, batch)  # the first update after a warm-up takes over what that has learnt
    assert all(torch.equal(copy, own) for copy, own in zip(copies, originals, strict=True))
    assert places == [copy.data_ptr() for copy in copies]


def test_the_copies_move_once_for_an_update_in_parts():
    model, batch = make_model(FREE), make_batch(FREE, lengths=(3, 3), room=1)
    algorithm = made(model, delay=0.5)
    optimizer = torch.optim.Adam(algorithm.critic.parameters(), 0.1, fused=True)
    first = algorithm.critic.network.project.weight
    for _ in range(2):
        old, aim = algorithm.delayed_critic.network.project.weight.clone(), first.detach().clone()
        for index in range(2):
            draws = shard_rng(Shard(index, 2, 2, torch.tensor([index])))
            algorithm(model, one_example(batch, index), draws).loss.backward()
            close(algorithm.delayed_critic.network.project.weight.data, (old + aim) / 2)
        optimizer.step()
    assert not torch.equal(old, aim)


def test_follow_copies_buffers_too():
    network = nn.BatchNorm1d(3)
    copy = frozen(network)
    network.running_mean.fill_(2.0)
    follow(copy, network, torch.tensor(0.5))
    assert copy.running_mean.tolist() == [2.0] * 3


@pytest.mark.parametrize(
    "change",
    [
        {"critic_width": 6},
        {"variance_penalty": 0.5},
        {"cross_entropy_weight": 0.5},
        {"normalisation": "cell"},
        {"cost": ExactMatch()},
        {"delay": 0.5},
    ],
)
def test_every_setting_changes_the_gradient(change):
    found = []
    for settings in ({}, change):
        model, batch = make_model(FREE, spread=1.5), make_batch(FREE, lengths=(4, 3), room=1)
        algorithm = made(model, **settings)
        with torch.no_grad():
            for shift in (algorithm.delayed_critic, algorithm.delayed_critic, algorithm.critic):
                shift.network.project.bias.add_(torch.arange(FREE.size) * 0.3)
        loss = run(algorithm, model, batch).loss
        found.append((gradient(model, loss), gradient(algorithm.critic, loss)))
    (actor, critic), (changed_actor, changed_critic) = found
    same_critic = critic.shape == changed_critic.shape and torch.allclose(critic, changed_critic)
    assert not (same_critic and torch.allclose(actor, changed_actor))


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"critic_width": 0}, "critic_width is 0"),
        ({"critic_steps": -1}, "critic_steps is -1"),
        ({"delay": 0.0}, "delay is 0.0, it must be a number above 0 and at most 1"),
        ({"delay": 1.5}, "delay is 1.5"),
        ({"variance_penalty": -0.1}, "variance_penalty is -0.1"),
        ({"cross_entropy_weight": float("inf")}, "cross_entropy_weight is inf"),
    ],
)
def test_refusals(settings, told):
    with pytest.raises(SearnnError, match=told):
        ActorCritic(cost=EditDistance(), **settings)


def test_it_must_be_attached():
    with pytest.raises(SearnnError, match=r"attach\(model\)"):
        run(ActorCritic(cost=EditDistance()), make_model(FREE), make_batch(FREE))
