"""Decoding: greedy and beam against enumeration, sampling against the model's own probabilities."""

import itertools
import math

import pytest
import torch
from cases import FREE, INSIDE, KNOWN, make_batch, make_model, rng
from naive import Example, all_outputs
from scipy.stats import chisquare

from searnn import SearnnError, Vocabulary
from searnn.decoding import decode, decode_beam, loop, sample


@pytest.mark.parametrize("penalty", [0.0, 1.0])
@pytest.mark.parametrize("vocab", [KNOWN, FREE, INSIDE], ids=["known", "free", "inside"])
def test_a_beam_as_wide_as_the_space_finds_the_best(vocab, penalty):
    model, batch = make_model(vocab, seed=6, spread=2.0), make_batch(vocab, lengths=(2, 3), room=0)
    width = len(vocab.choosable) ** int(batch.lengths.max())
    outputs, scores = decode_beam(model, batch, width=width, length_penalty=penalty)
    for b in range(2):
        found = all_outputs(Example(model, batch, b))
        best, total = max(found, key=lambda pair: pair[1] / len(pair[0]) ** penalty)
        assert [token for token in outputs[b, 0].tolist() if token != vocab.pad] == list(best)
        assert abs(scores[b, 0].item() - total / len(best) ** penalty) < 1e-9
        ranked = sorted((total / len(tokens) ** penalty for tokens, total in found), reverse=True)
        torch.testing.assert_close(scores[b, : len(ranked)], torch.tensor(ranked, dtype=torch.float64))


def test_greedy_is_not_always_best():
    """The case above is worth testing only if greedy misses some."""
    model, batch = make_model(FREE, seed=6, spread=2.0), make_batch(FREE, lengths=(3,) * 6)
    assert not torch.equal(decode(model, batch), decode(model, batch, beam=50, length_penalty=0.0))


@pytest.mark.parametrize("vocab", [KNOWN, FREE, INSIDE], ids=["known", "free", "inside"])
def test_greedy_equals_the_naive_loop_and_beam_of_one(vocab):
    model, batch = make_model(vocab, seed=2), make_batch(vocab, lengths=(5, 2, 4), room=2)
    outputs = decode(model, batch)
    for b in range(3):
        tokens = Example(model, batch, b).greedy([])
        assert outputs[b].tolist() == tokens + [vocab.pad] * (batch.targets.shape[1] - len(tokens))
    assert torch.equal(decode_beam(model, batch, width=1)[0][:, 0], outputs)


@pytest.mark.parametrize("vocab", [KNOWN, FREE], ids=["known", "free"])
@pytest.mark.parametrize("temperature", [1.0, 2.0])
def test_samples_follow_the_probabilities_of_whole_outputs(vocab, temperature):
    model, batch = make_model(vocab, seed=3, spread=1.5), make_batch(vocab, lengths=(2,))
    count = 4000
    drawn = sample(model, batch, count=count, temperature=temperature, rng=rng(1))[0].tolist()
    example = Example(model, batch, 0)
    scores = example.scores
    example.scores = lambda tokens: {token: score / temperature for token, score in scores(tokens).items()}
    expected = {tokens: torch.tensor(total).exp().item() for tokens, total in all_outputs(example)}
    seen = dict.fromkeys(expected, 0)
    for row in drawn:
        seen[tuple(token for token in row if token != vocab.pad)] += 1
    common = [tokens for tokens, share in expected.items() if share * count >= 5]
    rest = count - sum(seen[tokens] for tokens in common)
    observed = [seen[tokens] for tokens in common] + [rest]
    predicted = [count * expected[tokens] for tokens in common]
    predicted.append(count - sum(predicted))
    if predicted[-1] < 1:
        observed, predicted = observed[:-1], [value * (count - rest) / sum(predicted[:-1]) for value in predicted[:-1]]
    assert chisquare(observed, predicted).pvalue > 1e-3


def test_the_ends_of_the_draws_give_tokens_that_can_be_drawn():
    """A draw of 0 gives the first token with a chance, one just below 1 the last; each is where the sum passes it."""
    for vocab in (KNOWN, FREE, INSIDE, Vocabulary(size=6, pad=5, bos=4, eos=0)):
        scores = torch.randn(1, 7, vocab.size, generator=rng(2), dtype=torch.float64)
        draws = torch.tensor([0.0, 1e-300, 0.25, 0.5, 0.75, 1 - 2**-24, 1 - 2**-53], dtype=torch.float64)
        standing = loop.Standing(torch.arange(7).unsqueeze(0), torch.zeros(1, 7, 1, dtype=torch.long))
        found = loop.sampling(vocab, draws.view(1, 7, 1), 2.0)(scores, standing)
        for row, draw in enumerate(draws.tolist()):
            weights = {token: math.exp(scores[0, row, token] / 2) for token in vocab.choosable}
            running = itertools.accumulate(weights.values())
            passed = [sum_ > draw * sum(weights.values()) for sum_ in running]
            assert found[0, row] == [*weights][passed.index(True)]
        assert found[0, 0] == vocab.choosable[0]
        assert found[0, -1] == vocab.choosable[-1]


def test_pad_and_bos_are_never_chosen():
    model, batch = make_model(INSIDE), make_batch(INSIDE, lengths=(6, 3), room=2)
    with torch.no_grad():
        model.project.bias[[INSIDE.pad, INSIDE.bos]] += 100
    beam, _ = decode_beam(model, batch, width=3)
    for outputs in (decode(model, batch).unsqueeze(1), sample(model, batch, count=5, rng=rng()), beam):
        assert (outputs != INSIDE.bos).all()
        first_pad = (outputs == INSIDE.pad).float().cumsum(-1) > 0
        assert (outputs[first_pad] == INSIDE.pad).all()
        assert (outputs[..., 0] != INSIDE.pad).all()


def test_wrong_settings_are_refused():
    model, batch = make_model(), make_batch()
    for wrong in (lambda: decode(model, batch, beam=0), lambda: sample(model, batch, count=0, rng=rng()),
                  lambda: sample(model, batch, temperature=0.0, rng=rng())):  # fmt: skip
        with pytest.raises(SearnnError):
            wrong()


def test_all_pairs_of_short_outputs_are_distinct_in_a_beam():
    model, batch = make_model(FREE, seed=4), make_batch(FREE, lengths=(3, 2))
    outputs, _ = decode_beam(model, batch, width=6)
    for b in range(2):
        for left, right in itertools.combinations(outputs[b].tolist(), 2):
            assert left != right


@pytest.mark.parametrize("penalty", [0.0, 0.5, 1.0, 2.0])
@pytest.mark.parametrize("vocab", [KNOWN, FREE, INSIDE], ids=["known", "free", "inside"])
def test_the_best_of_a_beam_do_not_depend_on_when_it_ends(vocab, penalty):
    model, batch = make_model(vocab, seed=6, spread=2.0), make_batch(vocab, lengths=(2, 5, 1, 4, 3, 5), room=4)
    whole, scores = decode_beam(model, batch, width=4, length_penalty=penalty)
    for best in (1, 2, 4):
        found, sums = decode_beam(model, batch, width=4, length_penalty=penalty, best=best)
        assert torch.equal(found[:, :best], whole[:, :best])
        torch.testing.assert_close(sums[:, :best], scores[:, :best])


def test_a_beam_ends_when_its_best_is_decided(monkeypatch):
    model, batch = make_model(FREE, seed=6, spread=4.0), make_batch(FREE, lengths=(2, 5, 1, 4, 3, 5), room=20)
    rows = []
    step = model.step

    def counted(memory, state, tokens):
        rows.append(tokens.numel())
        return step(memory, state, tokens)

    monkeypatch.setattr(model, "step", counted)
    taken = []
    for best in (None, 1):
        rows.clear()
        decode_beam(model, batch, width=4, best=best)
        taken.append(sum(rows))
    assert taken[1] < taken[0]
