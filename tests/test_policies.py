"""Policies as the search takes them: refused where they are none, and those of the version before."""

import math
from collections import Counter
from itertools import product

import pytest
import torch
from cases import FREE, make_batch, make_model, rng
from scipy.stats import chisquare

import searnn
from searnn import Batch, Encoded, Inputs, SearnnError, Vocabulary, search
from searnn.algorithms import Ocd
from searnn.config.registry import check_fits
from searnn.costs import EditDistance
from searnn.policies import Focused, Learned, Mixed, Reference
from searnn.searching import as_roll_in, as_roll_out


class OlderPolicy:
    """As policies were written before `Encoded`."""

    def roll_in(self, model, memory, batch, rng):
        return Learned().roll_in(searnn.Encoded(model, memory), batch, rng)

    def roll_out(self, model, memory, trail, branches, batch, rng):
        return Learned().roll_out(searnn.Encoded(model, memory, trail), branches, batch, rng)


def test_a_policy_of_the_version_before_works_and_is_told_of():
    model, batch = make_model(FREE, attention="additive"), make_batch(FREE, (4, 2, 3), room=1)
    expected = search(model, batch, roll_in=Learned(), roll_out=Learned(), cost=EditDistance(), rng=rng())
    with pytest.warns(DeprecationWarning, match=r"OlderPolicy.roll_\w+ takes \(model, memory, ...\)"):
        found = search(model, batch, roll_in=OlderPolicy(), roll_out=OlderPolicy(), cost=EditDistance(), rng=rng())
    assert torch.equal(found.outputs, expected.outputs)
    assert torch.equal(found.costs, expected.costs)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_policy_of_the_version_before_is_taken_wherever_policies_are():
    model, batch = make_model(FREE, attention="additive"), make_batch(FREE, (4, 2, 3), room=1)
    for kind in (OlderPolicy, type("Another", (OlderPolicy,), {})):
        expected = Ocd(roll_in=Learned())(model, batch, rng()).loss
        assert torch.equal(Ocd(roll_in=kind())(model, batch, rng()).loss, expected)
        check_fits("roll_in", "mine:Older", kind())
        check_fits("roll_out", "mine:Older", kind())


def test_what_is_on_the_wrong_side_is_refused():
    with pytest.raises(SearnnError, match="Focused does not roll in: the roll-in must write a prefix"):
        as_roll_in(Focused())
    with pytest.raises(SearnnError, match="dict does not roll out: the roll-out must finish branches"):
        as_roll_out({})
    assert as_roll_in(Reference()) == as_roll_out(Reference()) == Reference()


def test_a_mixture_that_samples_writes_by_the_mixed_law():
    """Per token: Π_t of p at the truth's token and (1 - p) times the model's probability at each, by enumeration."""
    vocab, chance = Vocabulary(size=3, pad=3, bos=4, eos=None), 0.4
    model, one = make_model(vocab, seed=1, spread=2.0), make_batch(vocab, lengths=(3,))
    many = torch.zeros(4000, dtype=torch.long)
    inputs = Inputs(one.inputs.values[many], one.inputs.lengths[many])
    batch = Batch(inputs, one.targets[many], one.lengths[many], vocab=vocab)
    truth, outputs = one.targets[0].tolist(), list(product(range(3), repeat=3))
    whole = Batch(Inputs(one.inputs.values[many[:27]], one.inputs.lengths[many[:27]]), torch.tensor(outputs),
                  one.lengths[many[:27]], vocab=vocab)  # fmt: skip
    probs = model.trace(model.encode(whole.inputs), whole.targets)[0].softmax(-1)
    own = probs.gather(2, whole.targets.unsqueeze(-1)).squeeze(-1)
    by_token = (chance * (whole.targets == torch.tensor(truth)) + (1 - chance) * own).prod(1)
    by_example = chance * (whole.targets == torch.tensor(truth)).all(1) + (1 - chance) * own.prod(1)
    for per, law in (("token", by_token), ("example", by_example)):
        policy = Mixed(reference_probability=chance, per=per, sampled=True)
        with torch.no_grad():
            found = policy.roll_in(Encoded(model, model.encode(batch.inputs)), batch, rng(3))
        drawn = Counter(map(tuple, found.tolist()))
        expected = (4000 * law.detach().double() / law.detach().double().sum()).tolist()
        assert chisquare([drawn[output] for output in outputs], expected).pvalue > 1e-3, per


@pytest.mark.parametrize("penalty", [0.0, 0.5, 1.0, 2.0])
def test_a_roll_in_by_a_wide_beam_is_the_best_of_all_outputs(penalty):
    """log p over length^penalty, every output enumerated; the beam is as wide as there are prefixes."""
    model, batch = make_model(FREE, seed=3, spread=2.0), make_batch(FREE, (2, 3), room=1)
    words = [token for token in FREE.choosable if token != FREE.eos]
    found = Learned(beam=60, length_penalty=penalty).roll_in(Encoded(model, model.encode(batch.inputs)), batch, rng())
    if penalty == 2.0:
        unpunished = Learned(beam=60, length_penalty=0.0)
        assert not torch.equal(found, unpunished.roll_in(Encoded(model, model.encode(batch.inputs)), batch, rng()))
    for example, limit in enumerate(batch.lengths.tolist()):
        best, best_score = None, -math.inf
        for length in range(limit + 1):
            for inner in product(words, repeat=length):
                output = [*inner, FREE.eos] if length < limit else [*inner]
                score = log_probability(model, batch, example, output) / len(output) ** penalty
                if score > best_score:
                    best, best_score = output, score
        assert [token for token in found[example].tolist() if token != FREE.pad] == best


def log_probability(model, batch, example, output):
    """The sum of the log-probabilities of an output's tokens, step by step."""
    memory = model.encode(Inputs(batch.inputs.values[[example]], batch.inputs.lengths[[example]]))
    state, total = model.start(memory), 0.0
    for before, token in zip([FREE.bos, *output], output, strict=False):
        scores, state = model.step(memory, state, torch.tensor([[before]]))
        kept = scores[0, 0, list(FREE.choosable)].log_softmax(-1)
        total += kept[FREE.choosable.index(token)].item()
    return total


def test_older_names_are_deprecated():
    with pytest.warns(DeprecationWarning, match="searnn.Policy is deprecated: take RollIn or RollOut"):
        assert isinstance(Learned(), searnn.Policy)
    with pytest.warns(DeprecationWarning, match="it is in searnn.training"):
        from searnn.algorithms import diagnose
    assert diagnose is searnn.training.diagnose
    with pytest.warns(DeprecationWarning, match=r"searnn.tasks.batching is deprecated: it is searnn.data.batching"):
        from searnn.tasks.batching import make_examples
    assert make_examples is searnn.data.batching.make_examples
