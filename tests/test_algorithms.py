"""Learning from what was found: the whole network or the cell alone, the diagnosis, and a model that learns."""

import math
from dataclasses import replace

import pytest
import torch
from cases import FREE, KNOWN, SETTINGS, make_batch, make_model, rng
from toy_runs import error_after

from searnn import Mle, Searnn, search
from searnn.costs import EditDistance, Hamming
from searnn.decoding import decode
from searnn.losses import KLLoss, LogLoss
from searnn.models import Stepped
from searnn.policies import Learned, Mixed, Reference
from searnn.training.diagnosis import diagnose

close = torch.testing.assert_close


def gradients(model, loss):
    model.zero_grad()
    loss.backward()
    return {name: p.grad.clone() if p.grad is not None else torch.zeros_like(p) for name, p in model.named_parameters()}


@pytest.mark.parametrize("setting", ["gru", "lstm-layers", "attention", "lstm-aligned", "two-directions"])
@pytest.mark.parametrize("vocab", [KNOWN, FREE], ids=["known", "free"])
def test_the_cell_alone_gets_the_gradient_of_one_step_from_fixed_states(setting, vocab):
    """Against a loop that steps through the prefix and cuts the state before every cell."""
    model = make_model(vocab, seed=3, spread=1.5, **SETTINGS[setting])
    batch = make_batch(vocab, lengths=(4, 2, 3), room=1)
    algorithm = Searnn(Learned(), Learned(), EditDistance(), KLLoss(2.0), classifier="cell")
    update = algorithm(model, batch, rng())
    found = gradients(model, update.loss)

    result = search(model, batch, roll_in=Learned(), roll_out=Learned(), cost=EditDistance(), rng=rng())
    memory = model.encode(batch.inputs)
    with torch.no_grad():
        state = model.start(model.encode(batch.inputs))
    columns, tokens = [], torch.full_like(result.prefix[:, :1], vocab.bos)
    for cell in range(result.prefix.shape[1]):
        scores, _ = model.step(memory, state, tokens)
        columns.append(scores)
        with torch.no_grad():
            _, state = model.step(memory, state, tokens)
        tokens = result.prefix[:, cell : cell + 1]
    scores = torch.cat(columns, dim=1)
    losses = KLLoss(2.0)(scores.gather(2, result.tokens), result.costs.double(), result.valid)
    loss = losses.sum() / len(losses)
    expected = gradients(model, loss)
    close(update.loss, loss)
    for name, gradient in expected.items():
        close(found[name], gradient, msg=lambda text, name=name: f"{name}: {text}")
    whole = replace(algorithm, classifier="network")(model, batch, rng())
    close(whole.loss, update.loss)  # the same value, another gradient
    different = gradients(model, whole.loss)
    assert any(not torch.allclose(different[name], found[name]) for name in found)
    assert any(name.startswith("encoder") and gradient.abs().sum() > 0 for name, gradient in different.items())


def test_the_cell_alone_starts_from_states_without_dropout(monkeypatch):
    """The state before each cell is the same in training as in evaluation; only the step itself drops out."""
    model, batch = make_model(KNOWN, seed=3, cell="lstm", dropout=0.5), make_batch(KNOWN)
    algorithm = Searnn(Reference(), Reference(), Hamming(), LogLoss(), classifier="cell")
    seen = []
    real = type(model).step

    def step(self, memory, state, tokens):
        seen.append(state)
        return real(self, memory, state, tokens)

    monkeypatch.setattr(type(model), "step", step)
    algorithm(model, batch, rng())
    algorithm(model.train(), batch, rng())
    assert len(seen) == 4
    for plain, dropped in zip(seen[:2], seen[2:], strict=True):
        close(plain, dropped)


@pytest.mark.parametrize("classifier", ["network", "cell"])
def test_dropout_is_on_in_the_gradient_pass_and_the_costs_do_not_see_it(classifier):
    model, batch = make_model(KNOWN, dropout=0.5), make_batch(KNOWN)
    algorithm = Searnn(Learned(), Learned(), Hamming(), LogLoss(), classifier=classifier)
    plain = algorithm(model, batch, rng()).loss
    model.train()
    values = []
    for seed in (0, 0, 1):
        torch.manual_seed(seed)
        values.append(algorithm(model, batch, rng()).loss.item())
    assert values[0] == values[1] != values[2]
    assert values[0] != plain.item()


@pytest.mark.parametrize("classifier", ["network", "cell"])
@pytest.mark.parametrize("setting", ["gru", "lstm-layers", "attention", "lstm-aligned"])
def test_a_single_cell(setting, classifier):
    model, batch = make_model(KNOWN, **SETTINGS[setting]), make_batch(KNOWN, lengths=(1, 1))
    update = Searnn(Learned(), Learned(), Hamming(), LogLoss(), classifier=classifier)(model, batch, rng())
    close(update.loss, Mle()(model, batch, rng()).loss)
    update.loss.backward()


def test_sharing_the_encoding_changes_nothing():
    """A model without dropout is encoded and traced once for both halves; one that cannot say so, twice."""
    model, batch = make_model(FREE, seed=2).train(), make_batch(FREE, room=1)
    algorithm = Searnn(Learned(), Mixed(), EditDistance(), KLLoss(2.0))
    shared = gradients(model, algorithm(model, batch, rng()).loss)
    twice = gradients(model, algorithm(Stepped(model), batch, rng()).loss)
    for name in shared:
        close(shared[name], twice[name])


def test_the_gradient_is_that_of_the_loss_with_the_costs_held_fixed():
    model, batch = make_model(KNOWN, spread=1.0), make_batch(KNOWN, lengths=(4, 3))
    algorithm = Searnn(Reference(), Learned(), Hamming(), KLLoss(1.0))
    found = gradients(model, algorithm(model, batch, rng()).loss)["project.weight"]
    parameter, step = model.project.weight, 1e-6
    for row, column in ((0, 0), (1, 3), (3, 5)):
        values = []
        for sign in (1, -1):
            with torch.no_grad():
                parameter[row, column] += sign * step
            values.append(algorithm(model, batch, rng()).loss.item())
            with torch.no_grad():
                parameter[row, column] -= sign * step
        assert math.isclose((values[0] - values[1]) / (2 * step), found[row, column].item(), rel_tol=1e-4, abs_tol=1e-7)


@pytest.mark.parametrize("vocab", [KNOWN, FREE], ids=["known", "free"])
def test_the_diagnosis_equals_counting(vocab):
    model, batch = make_model(vocab, seed=1, spread=1.5), make_batch(vocab, lengths=(4, 3, 1), room=1)
    algorithm = Searnn(Learned(), Mixed(), EditDistance(), LogLoss())
    logs = {name: value.item() for name, value in diagnose(model, batch, algorithm, rng(4)).items()}
    result = search(model, batch, roll_in=Learned(), roll_out=Mixed(), cost=EditDistance(), rng=rng(4))
    equal = other = cells = 0
    spread = 0.0
    for b in range(3):
        for c in range(result.cells.shape[1]):
            pairs = [
                (result.costs[b, c, k].item(), result.tokens[b, c, k].item())
                for k in range(result.tokens.shape[2])
                if result.valid[b, c, k]
            ]
            if not pairs:
                continue
            cells += 1
            lowest = min(pairs)[0]
            spread += max(pairs)[0] - lowest
            equal += max(pairs)[0] == lowest
            truth = batch.targets[b, c].item()
            truth = vocab.eos if truth == vocab.pad else truth
            other += next(cost for cost, token in pairs if token == truth) > lowest
    assert logs["equal_cost_share"] == pytest.approx(equal / cells)
    assert logs["cost_spread"] == pytest.approx(spread / cells, rel=1e-5)
    assert logs["cheapest_not_true_share"] == pytest.approx(other / cells)
    assert logs["exposure_gap"] == pytest.approx(logs["free_running_loss"] - logs["teacher_forced_loss"], rel=1e-5)
    forced = Mle(normalisation="cell")(model, batch, rng()).loss.item()
    assert logs["teacher_forced_loss"] == pytest.approx(forced, rel=1e-5)
    assert 0 < logs["entropy"] < math.log(vocab.size)


def test_the_diagnosis_of_an_algorithm_without_costs():
    model, batch = make_model(KNOWN), make_batch(KNOWN)
    assert "cost_spread" not in diagnose(model, batch, Mle(), rng())
    assert "cost_spread" in diagnose(model, batch, Mle(), rng(), cost=Hamming())


@pytest.mark.parametrize("algorithm", [Mle(), Searnn(Learned(), Mixed(), EditDistance(), KLLoss(20.0)),
                                       pytest.param(Searnn(Learned(), Mixed(), EditDistance(), LogLoss()),
                                                    marks=pytest.mark.slow)],
                         ids=["mle", "kl", "ll"])  # fmt: skip
def test_a_small_model_learns_a_batch_by_heart(algorithm):
    model = make_model(FREE, width=24, spread=1.0).float()
    batch = make_batch(FREE, lengths=(4, 3, 4, 2, 3, 1), room=1)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    before = (decode(model, batch) != batch.targets).float().mean()
    for step in range(250):
        optimizer.zero_grad()
        algorithm(model, batch, rng(step)).loss.backward()
        optimizer.step()
    after = (decode(model, batch) != batch.targets).float().mean()
    assert before > 0.3
    assert after == 0


@pytest.mark.parametrize(("size", "most"), [(8, None), (500, 100)])
def test_looking_at_a_large_vocabulary_tries_few_outputs(size, most):
    vocab = replace(FREE, size=size)
    model, batch = make_model(vocab, seed=1), make_batch(vocab, lengths=(14, 3, 1))
    judged = []

    def cost(outputs, targets):
        judged.append(outputs.shape[1:3].numel())
        return EditDistance(vocab=vocab)(outputs, targets)

    assert "equal_cost_share" in diagnose(model, batch, Mle(), rng(4), cost=cost)
    everything = batch.targets.shape[1] * len(vocab.choosable)
    assert judged == [everything if most is None else most]
    assert most is None or most < everything


@pytest.mark.slow
@pytest.mark.parametrize("reverse", [False, True], ids=["copy", "reverse"])
@pytest.mark.parametrize(
    "algorithm",
    [
        Mle(),
        Mle(label_smoothing=0.1),
        Searnn(Learned(), Mixed(), EditDistance(), KLLoss(30.0)),
        Searnn(Learned(), Mixed(), EditDistance(), LogLoss()),
        Searnn(Learned(), Learned(), EditDistance(), KLLoss(30.0)),
    ],
    ids=["mle", "smoothed", "kl-mixed", "ll-mixed", "kl-learned"],
)
def test_they_learn_the_toys(algorithm, reverse, tmp_path):
    assert error_after(algorithm, reverse, tmp_path / "run") < 0.01
