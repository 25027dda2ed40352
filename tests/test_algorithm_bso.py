"""BSO and LaSO against a search on Python lists that scores every prefix from scratch; where they learn; refusals."""

import pytest
import torch
from cases import FREE, INSIDE, KNOWN, SETTINGS, make_batch, make_model, rng
from naive import COSTS, Example, strip
from toy_runs import error_after

from searnn import Mle, SearnnError
from searnn.algorithms.bso import Bso
from searnn.algorithms.laso import Laso, _judge
from searnn.algorithms.warm_up import WarmUp
from searnn.costs import EditDistance, Hamming
from searnn.models import Stepped
from searnn.schedules import Linear, Stepwise, at

vocabs = pytest.mark.parametrize("vocab", [KNOWN, FREE, INSIDE], ids=["known", "free", "inside"])
settings = pytest.mark.parametrize(
    ("setting", "vocab"), [("lstm-layers", FREE), ("attention", INSIDE), ("aligned", KNOWN), ("transformer", FREE)]
)
close = torch.testing.assert_close


class Scorer(Example):
    """An example whose prefixes have scores with a gradient."""

    def score(self, tokens, summed):
        """The score of a prefix: its last token's, or the sum over all."""
        state, read, found = self.model.start(self.memory), self.vocab.bos, []
        for token in tokens:
            scores, state = self.model.step(self.memory, state, torch.tensor([[read]]))
            found.append(scores[0, 0, token])
            read = token
        return sum(found) if summed else found[-1]

    def full_truth(self):
        truth = list(self.truth) if self.vocab.eos is None else [*self.truth, self.vocab.eos]
        return tuple(truth[: self.limit])

    def search(self, width, summed, judge):
        """The cells where `judge` finds the truth lost: (truth's prefix, rivals, first cell of the stretch)."""
        truth, beam, start, lost = self.full_truth(), [()], 0, []
        for cell in range(len(truth)):
            own = truth[: cell + 1]
            grown = []
            for prefix in beam:
                if self.vocab.eos in prefix:
                    grown.append(prefix)
                else:
                    grown += [(*prefix, token) for token in self.vocab.choosable]
            ranked = sorted(grown, key=lambda prefix: -self.score(prefix, summed).item())
            rivals = judge(ranked, own, cell + 1 == len(truth))
            if rivals:
                lost.append((own, rivals, start))
                beam, start = [own], cell + 1
            else:
                beam = ranked[:width]
                assert own in beam
        return lost


def naive_bso(model, batch, width, margin, cost=None):
    """The paper's loss, an example at a time: the K-th of the beam, or the one before where the K-th is the truth."""
    total, count = 0.0, 0
    for number in range(len(batch.targets)):
        example = Scorer(model, batch, number)

        def judge(ranked, own, last, example=example):
            wrong = [prefix for prefix in ranked if prefix != own]
            beam = [prefix for prefix in ranked[:width] if prefix != own]
            if len(ranked) < width and not last:
                return []  # there is no K-th, and the truth is in the beam
            rival = wrong[0] if last else beam[-1]
            behind = example.score(rival, False) + margin > example.score(own, False)
            return [rival] if behind else []

        for own, (rival,), start in example.search(width, False, judge):
            weight = 1.0
            if cost is not None:
                weight = COSTS[cost](strip(rival[start:], batch.vocab), strip(own[start:], batch.vocab))
            total = total + weight * (margin + example.score(rival, False) - example.score(own, False))
            count += 1
    return total / len(batch.targets), count


def naive_laso(model, batch, width):
    total, count = 0.0, 0
    for number in range(len(batch.targets)):
        example = Scorer(model, batch, number)

        def judge(ranked, own, last):
            ahead = ranked.index(own)
            wrong = [prefix for prefix in ranked if prefix != own]
            return wrong[:width] if ahead >= (1 if last else width) else []

        for own, rivals, _ in example.search(width, True, judge):
            mean = sum(example.score(rival, True) for rival in rivals) / len(rivals)
            total = total + mean - example.score(own, True)
            count += 1
    return total / len(batch.targets), count


def gradient(model, loss):
    model.zero_grad()
    loss.backward()
    return torch.cat([p.grad.flatten() if p.grad is not None else p.new_zeros(p.numel()) for p in model.parameters()])


def make(vocab, setting="gru", seed=3, spread=1.5):
    """A model that likes to end, so that some rivals do before the truth."""
    model, batch = make_model(vocab, seed=seed, spread=spread, **SETTINGS[setting]), make_batch(vocab, (4, 2, 3, 1))
    if vocab.eos is not None:
        with torch.no_grad():
            model.project.bias[vocab.eos] += 1.0
    return model, batch


def agrees(model, batch, update, expected, count):
    close(update.loss, expected)
    close(gradient(model, update.loss), gradient(model, expected))
    assert update.logs["lost_cells"].item() == pytest.approx(count / update.cells.item())


@settings
def test_bso_is_the_papers_loss(setting, vocab):
    model, batch = make(vocab, setting)
    agrees(model, batch, Bso(train_beam=3)(model, batch, rng()), *naive_bso(model, batch, 3, 1.0))


@vocabs
@pytest.mark.parametrize(("width", "margin"), [(2, 0.3), (3, 0.0), (5, 4.0)])
def test_bso_with_every_beam_and_margin(vocab, width, margin):
    model, batch = make(vocab)
    agrees(
        model, batch, Bso(train_beam=width, margin=margin)(model, batch, rng()), *naive_bso(model, batch, width, margin)
    )


@vocabs
@pytest.mark.parametrize(("cost", "name"), [(Hamming(), "hamming"), (EditDistance(), "edit")], ids=["hamming", "edit"])
def test_bso_weighs_violations_by_the_cost_of_their_stretch(vocab, cost, name):
    model, batch = make(vocab)
    found = Bso(train_beam=3, margin=0.3, cost_weighted=True, cost=cost)(model, batch, rng())
    expected, count = naive_bso(model, batch, 3, 0.3, name)
    agrees(model, batch, found, expected, count)
    if cost == Hamming():  # the other is a share of the stretch: 1 where the stretch is one cell
        assert found.loss.item() != pytest.approx(Bso(train_beam=3, margin=0.3)(model, batch, rng()).loss.item())


def test_a_cost_alone_weighs_nothing():
    model, batch = make(FREE)
    plain, given = (Bso(train_beam=3, margin=0.3, cost=cost)(model, batch, rng()).loss for cost in (None, Hamming()))
    assert torch.equal(plain, given)


def test_what_is_behind_by_nothing():
    """A truth ahead by the margin itself has won, level with the beam's last it is in the beam; LaSO wants it ahead."""
    own, best = torch.tensor([2.0, 1.0, 0.5, 4.0]), torch.tensor([[1.0, 0.0], [3.0, 1.0], [3.0, 1.0], [3.0, 1.0]])
    for last, places in ((False, [0, 0, 1, 0]), (True, [0, 0, 0, 0])):
        lost, place = Bso()._judge(own, best, torch.full((4,), last))
        assert lost.tolist() == [False, True, True, False]
        assert place[:, 0].tolist() == places
    assert _judge(own, best, torch.full((4,), False))[0].tolist() == [False, True, True, False]
    at_the_end = torch.tensor([2.0, 3.0, 3.5, 2.5])
    assert _judge(at_the_end, best, torch.full((4,), True))[0].tolist() == [False, True, False, True]


@settings
def test_laso_is_the_truth_against_the_mean_of_the_beam(setting, vocab):
    model, batch = make(vocab, setting)
    agrees(model, batch, Laso(train_beam=2)(model, batch, rng()), *naive_laso(model, batch, 2))


@vocabs
@pytest.mark.parametrize("width", [1, 3, 6])
def test_laso_with_every_beam(vocab, width):
    model, batch = make(vocab)
    agrees(model, batch, Laso(train_beam=width)(model, batch, rng()), *naive_laso(model, batch, width))


def test_the_cases_have_stretches_of_several_cells_and_rivals_that_ended_before():
    """Else following the rivals away from the truth would not be tested."""
    model, batch = make(FREE)

    def judge(ranked, own, last):
        wrong = [prefix for prefix in ranked if prefix != own]
        return wrong[:3] if ranked.index(own) >= (1 if last else 3) else []

    for summed in (True, False):
        lost = [found for number in range(4) for found in Scorer(model, batch, number).search(3, summed, judge)]
        assert any(one[start : len(own) - 1] != own[start:-1] for own, rivals, start in lost for one in rivals)
        assert any(len(one) < len(own) for own, rivals, _ in lost for one in rivals)


def test_laso_with_a_beam_of_one_is_the_perceptron_of_every_cell():
    """The truth must be the best continuation of itself, so it is a hinge without margin on teacher-forced scores."""
    model, batch = make(FREE)
    scores, _ = model.trace(model.encode(batch.inputs), batch.targets)
    true = torch.where(batch.targets == FREE.pad, 0, batch.targets).unsqueeze(-1)
    wrong = scores.scatter(2, true, -torch.inf).amax(-1)
    losses = (wrong - scores.gather(2, true).squeeze(-1)).clamp(min=0) * (batch.targets != FREE.pad)
    close(Laso()(model, batch, rng()).loss, losses.sum() / 4)


@pytest.mark.parametrize("algorithm", [Bso(train_beam=3), Laso(train_beam=3)], ids=["bso", "laso"])
def test_what_the_neighbours_have_too(algorithm):
    model, batch = make(FREE)
    whole = algorithm(model, batch, rng())
    close(type(algorithm)(train_beam=3, normalisation="sum")(model, batch, rng()).loss, 4 * whole.loss)
    cells = (batch.targets != FREE.pad).sum()
    assert whole.cells == cells
    close(type(algorithm)(train_beam=3, normalisation="cell")(model, batch, rng()).loss, 4 * whole.loss / cells)
    close(algorithm(Stepped(model), batch, rng()).loss, whole.loss)  # encoded twice, with the same result
    assert type(algorithm)(train_beam=5)(model, batch, rng()).loss != whole.loss


@pytest.mark.parametrize("algorithm", [Bso(), Laso()], ids=["bso", "laso"])
def test_dropout_is_off_in_the_search_and_on_in_the_gradient_pass(algorithm, monkeypatch):
    model = make_model(FREE, seed=3, spread=1.5, dropout=0.5)
    batch = make_batch(FREE, (4, 2, 3, 1))
    plain = algorithm(model, batch, rng())
    model.train()
    dropped = algorithm(model, batch, rng())
    assert dropped.loss != plain.loss
    close(dropped.logs["lost_cells"], plain.logs["lost_cells"])


def test_a_growing_beam_is_a_whole_number_at_every_update():
    growing = Bso(train_beam=Linear(2, 6, 40))
    assert [growing.at(step).train_beam for step in (0, 9, 10, 25, 40, 99)] == [2, 2, 3, 4, 6, 6]
    assert growing.at(3) == growing.at(8) != growing.at(11)
    assert hash(growing.at(3)) == hash(growing.at(8))
    assert Laso(train_beam=Stepwise(1, 1, 10)).at(25).train_beam == 3
    model, batch = make(FREE)
    close(at(growing, 10)(model, batch, rng()).loss, Bso(train_beam=3)(model, batch, rng()).loss)
    with pytest.raises(SearnnError, match="schedule"):
        growing(model, batch, rng())


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Bso(train_beam=1),
        lambda: Bso(train_beam=Linear(1, 6, 10)),
        lambda: Bso(train_beam=Linear(6, 1, 10)),
        lambda: Bso(margin=-1.0),
        lambda: Bso(margin=float("nan")),
        lambda: Bso(cost_weighted=True),
        lambda: Laso(train_beam=0),
    ],
)
def test_wrong_settings_are_refused(wrong):
    with pytest.raises(SearnnError):
        wrong()


@pytest.mark.slow
@pytest.mark.parametrize("reverse", [False, True], ids=["copy", "reverse"])
@pytest.mark.parametrize("algorithm", [Bso(), Laso()], ids=["bso", "laso"])
def test_they_learn_after_a_short_warm_up(algorithm, reverse, tmp_path):
    before = error_after(Mle(), reverse, tmp_path / "warm", steps=40)
    after = error_after(WarmUp(Mle(), algorithm, 40), reverse, tmp_path / "run")
    assert after < 0.01 < before
