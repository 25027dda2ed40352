"""Policies as the search takes them: refused where they are none, and those of the version before."""

import math
from collections import Counter
from dataclasses import replace
from functools import partial
from itertools import product

import pytest
import torch
from cases import FREE, Untouchable, make_batch, make_model, rng
from scipy.stats import chisquare

import searnn
from searnn import Batch, Encoded, Inputs, SearnnError, Vocabulary, search
from searnn.algorithms import Ocd
from searnn.config.registry import check_fits
from searnn.costs import EditDistance
from searnn.decoding import decode_beam
from searnn.models.stepping import row_bytes
from searnn.oracles import CopyTarget
from searnn.policies import Focused, Learned, Mixed, Reference, Sampled, mixed
from searnn.policies.reference import complete_rows
from searnn.samplers import AllTokens
from searnn.searching import as_roll_in, as_roll_out, branch
from searnn.sequences import reference_tokens


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


@pytest.mark.parametrize(
    "penalty", [0.5, *(pytest.param(penalty, marks=pytest.mark.slow) for penalty in (0.0, 1.0, 2.0))]
)
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


def branched(model, batch):
    """What was encoded, and every branch of the greedy output."""
    memory = model.encode(batch.inputs)
    prefix = Learned().roll_in(Encoded(model, memory), batch, rng())
    scores, trail = model.trace(memory, prefix)
    cells = torch.arange(prefix.shape[1]).expand_as(prefix)
    return Encoded(model, memory, trail), branch(prefix, cells, scores, batch, AllTokens(), rng())


@torch.no_grad()
@pytest.mark.parametrize("beam", [1, 2])
def test_branches_that_are_not_needed_come_back_as_given_and_the_others_go_the_steps_asked(beam):
    model, batch = make_model(FREE, seed=3, attention="additive"), make_batch(FREE, (4, 2, 3), room=1)
    encoded, branches = branched(model, batch)
    whole = Learned(beam).finish(encoded, branches, batch)
    needed = torch.rand(branches.tokens.shape, generator=rng(4)) < 0.5
    found = Learned(beam).finish(encoded, branches, batch, needed=needed)
    one = Learned(beam).finish(encoded, branches, batch, steps=1)
    grown = 0
    for b, c, k in branches.valid.nonzero().tolist():
        cell = int(branches.cells[b, c])
        given = [*branches.prefix[b, :cell].tolist(), int(branches.tokens[b, c, k])]
        given += [FREE.pad] * (branches.prefix.shape[1] - len(given))
        assert found[b, c, k].tolist() == (whole[b, c, k].tolist() if needed[b, c, k] else given)
        assert (one[b, c, k] != FREE.pad).sum() <= cell + 2
        if beam == 1:
            assert one[b, c, k, : cell + 2].tolist() == whole[b, c, k, : cell + 2].tolist()
        grown += whole[b, c, k].tolist() != given
    assert grown > 10


def by_token(budget):
    return Mixed(per="token", learned=Learned(budget=budget))


@torch.no_grad()
@pytest.mark.parametrize(
    ("policy", "copies"),
    [(Learned, 1), (partial(Learned, 2), 2), (Sampled, 1), (by_token, 1)],
    ids=["greedy", "beam", "sampled", "mixed"],
)
def test_no_more_rows_run_together_than_the_budget_has_room_for(policy, copies, monkeypatch):
    model, batch = make_model(FREE, seed=3, attention="additive"), make_batch(FREE, (4, 2, 3), room=1)
    encoded, branches = branched(model, batch)
    row, rows = row_bytes(model, encoded.memory, branches.prefix.shape[1]), []
    real = model.fork
    monkeypatch.setattr(model, "fork", lambda *given: rows.append(given[2].numel()) or real(*given))
    for room, budget in ((1, 1), (1, copies * row), (3, 3 * copies * row), (10**6, 10**6 * copies * row)):
        rows.clear()
        policy(budget=budget).roll_out(encoded, branches, batch, rng())
        assert max(rows) <= room
        assert (len(rows) == 1) == (room == 10**6)


@pytest.mark.parametrize("per", ["example", "cell", "branch"])
def test_what_falls_to_the_reference_takes_no_step_of_the_model(per, monkeypatch):
    model, batch = make_model(FREE, seed=3), make_batch(FREE, (4, 2, 3), room=1)
    encoded, branches = branched(model, batch)
    expected = Reference().roll_out(encoded, branches, batch, rng())
    for name in ("step", "fork"):
        monkeypatch.setattr(model, name, Untouchable().complete)
    found = Mixed(reference_probability=1.0, per=per).roll_out(encoded, branches, batch, rng())
    assert torch.equal(found[branches.valid], expected[branches.valid])


@torch.no_grad()
@pytest.mark.parametrize("per", ["example", "cell", "branch", "token"])
def test_a_draw_of_exactly_0_is_no_chance_where_there_is_none(per, monkeypatch):
    model, batch = make_model(FREE, seed=3), make_batch(FREE, (4, 2, 3), room=1)
    encoded, branches = branched(model, batch)
    expected = Learned().roll_out(encoded, branches, batch, rng())
    assert not torch.equal(expected, Reference().roll_out(encoded, branches, batch, rng()))
    monkeypatch.setattr(mixed, "uniform", lambda shape, rng, device: torch.zeros(shape))
    policy = Mixed(reference_probability=0.0, per=per)
    found = policy.roll_out(encoded, branches, batch, rng())
    assert torch.equal(found[branches.valid], expected[branches.valid])
    if per in ("example", "token"):
        assert torch.equal(policy.roll_in(encoded, batch, rng()), branches.prefix)


@torch.no_grad()
def test_learned_steps_to_the_end_leave_nothing_to_the_reference():
    model, batch = make_model(FREE, seed=3), make_batch(FREE, (4, 2, 3), room=1)
    encoded, branches = branched(model, batch)
    width = branches.prefix.shape[1]
    found = Focused(width, reference=Reference(Untouchable())).roll_out(encoded, branches, batch, rng())
    assert torch.equal(found, Learned().roll_out(encoded, branches, batch, rng()))
    with pytest.raises(AssertionError):
        Focused(width - 1, reference=Reference(Untouchable())).roll_out(encoded, branches, batch, rng())


def test_only_greedy_goes_on_from_a_greedy_prefix():
    assert Learned().repeats(Learned())
    assert Learned().repeats(Learned(length_penalty=2.0))
    for roll_out, roll_in in ((1, 2), (2, 1), (2, 2)):
        assert not Learned(roll_out).repeats(Learned(roll_in))
    assert not Learned().repeats(Reference())
    model, batch = make_model(FREE, seed=4), make_batch(FREE, (5, 4, 2), room=2)
    encoded = Encoded(model, model.encode(batch.inputs))
    beam = Learned(2).roll_in(encoded, batch, rng())
    assert torch.equal(beam, decode_beam(model, batch, width=2)[0][:, 0])
    assert not torch.equal(beam, Learned().roll_in(encoded, batch, rng()))


def test_a_coin_per_token_and_draws_need_a_greedy_model():
    with pytest.raises(SearnnError, match="a coin per token needs a greedy model: take beam=1"):
        Mixed(per="token", learned=Learned(2))
    with pytest.raises(SearnnError, match="tokens that are drawn need no beam, which is 2: take beam=1"):
        Mixed(sampled=True, learned=Learned(2))
    assert Mixed(per="cell", learned=Learned(2)).learned.beam == 2
    assert Mixed(per="token", sampled=True).learned.beam == 1


def test_partial_outputs_are_completed_as_examples_of_their_own():
    batch = replace(make_batch(FREE, (4, 2), room=1), ids=(7, 8), host_lengths=(6, 4))
    outputs = torch.full((2, 3, 6), FREE.pad)
    outputs[..., 0] = torch.tensor([[1, 2, 3], [4, 3, 2]])
    outputs[0, 1, 1] = 4

    class Keeps(CopyTarget):
        def complete(self, branches, batch):
            self.branches, self.batch = branches, batch
            return super().complete(branches, batch)

    oracle = Keeps()
    found = complete_rows(oracle, outputs, batch)
    assert (oracle.batch.inputs, oracle.batch.ids) == (None, None)
    assert oracle.batch.limits() == (6,) * 3 + (4,) * 3
    assert oracle.branches.cells.flatten().tolist() == [0, 1, 0, 0, 0, 0]
    truth = [[*row] for row in reference_tokens(batch).tolist()]
    for example, row in ((example, row) for example in range(2) for row in range(3)):
        written = [token for token in outputs[example, row].tolist() if token != FREE.pad]
        limit = (6, 4)[example]
        expected = [*written, *truth[example][len(written) : limit]]
        expected = expected[: expected.index(FREE.eos) + 1] if FREE.eos in expected else expected
        assert found[example, row].tolist() == expected + [FREE.pad] * (6 - len(expected))
