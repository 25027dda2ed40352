"""Every option changes something: two settings of an axis that give the same result on a case built to differ fail."""

import itertools

import pytest
import torch
from cases import FREE, KNOWN, make_batch, make_model, rng
from members import members
from scipy.stats import chisquare

from searnn import Mle, Searnn, SearnnError, costs, losses, oracles, policies, samplers, schedules, search
from searnn.costs import ChunkF1, EditDistance, Gleu, Hamming, SentenceBleu, from_callable
from searnn.losses import KLLoss, LogLoss
from searnn.oracles import BestSuffix, ChunkOracle, OptimalEdit
from searnn.policies import Focused, Learned, Mixed, Reference, Sampled

LENGTHS = (6, 5, 4, 3, 6, 2)
TAGS = ("O", "B-a", "I-a", "B-b", "I-b")  # of FREE, whose token 0 is EOS


def case(vocab=FREE, room=2):
    model = make_model(vocab, seed=5, spread=2.0)
    if vocab.eos is not None:
        with torch.no_grad():
            model.project.bias[vocab.eos] -= 3  # longer outputs, in which more can differ
    return model, make_batch(vocab, LENGTHS, seed=1, room=room)


def assert_all_differ(results):
    for (left, a), (right, b) in itertools.combinations(results.items(), 2):
        assert a.shape != b.shape or not torch.equal(a, b), f"{left} and {right} give the same"


def outputs(model, batch, seed=0, **axes):
    settings = {"roll_in": Learned(), "roll_out": Learned(), "cost": EditDistance()} | axes
    return search(model, batch, rng=rng(seed), **settings)


roll_ins = {
    "reference": Reference(),
    "learned": Learned(),
    "beam": Learned(beam=3),
    "sampled": Sampled(),
    "hotter": Sampled(3.0),
    "mixed-example-sampled": Mixed(sampled=True),
    "mixed-token-sampled": Mixed(per="token", sampled=True),
    "mixed-example": Mixed(),
    "mixed-token": Mixed(per="token"),
    "mixed-token-often": Mixed(per="token", reference_probability=0.8),
    "mixed-token-optimal": Mixed(Reference(OptimalEdit()), per="token"),
    "mixed-token-best-suffix": Mixed(Reference(BestSuffix()), per="token"),
}
roll_outs = {
    "reference": Reference(),
    "optimal": Reference(OptimalEdit()),
    "best-suffix": Reference(BestSuffix()),
    "best-suffix-bleu-4": Reference(BestSuffix("bleu-4")),
    "best-suffix-gleu": Reference(BestSuffix("gleu")),
    "chunks": Reference(ChunkOracle(TAGS)),
    "learned": Learned(),
    "beam": Learned(beam=3),
    "beam-unnormalised": Learned(beam=3, length_penalty=0.0),
    "sampled": Sampled(),
    "mixed-example": Mixed(),
    "mixed-cell": Mixed(per="cell"),
    "mixed-branch": Mixed(per="branch"),
    "mixed-token": Mixed(per="token"),
    "mixed-optimal": Mixed(Reference(OptimalEdit())),
    "mixed-rarely": Mixed(reference_probability=0.1),
    "focused-1": Focused(1),
    "focused-2": Focused(2),
    "focused-optimal": Focused(1, reference=Reference(OptimalEdit())),
}
token_samplers = {
    **members("tokens", boost=0.05, threshold=0.3),
    "targeted-narrow": samplers.TargetedTokens(3, threshold=0.01),
    "union": samplers.union(samplers.TopTokens(2), samplers.NeighbourTokens(2)),
    "union-end": samplers.union(samplers.TopTokens(2), samplers.EndToken()),
}
cell_samplers = {
    **members("cells"),
    "fewer": samplers.UniformCells(2),
}
all_costs = {
    **members("cost", tags=TAGS),
    "hamming-normalised": Hamming(normalised=True),
    "edit-count": EditDistance(normalised=False),
    "bleu-bahdanau": SentenceBleu(definition="bahdanau", unknown=2),
    "bleu-lin-och": SentenceBleu(definition="lin-och"),
    "bleu-2": SentenceBleu(order=2),
    "callable": from_callable(lambda output, truth: abs(len(output) - len(truth)) / 7),
}
all_losses = {
    **members("loss", alpha=2.0),
    "ll-random": LogLoss(ties="random"),
    "kl-sharper": KLLoss(5.0),
    "llcas-sharper": losses.CostAugmentedLogLoss(alpha=5.0),
    "hinge-scaled": losses.HingeLoss(alpha=3.0),
}


def test_every_roll_in_changes_the_prefix():
    model, batch = case()
    assert_all_differ({name: outputs(model, batch, 1, roll_in=policy).prefix for name, policy in roll_ins.items()})


def test_every_roll_out_changes_the_costs():
    model, batch = case()
    found = {name: outputs(model, batch, roll_out=policy) for name, policy in roll_outs.items()}
    assert_all_differ({name: result.costs for name, result in found.items()})


def test_every_token_sampler_changes_the_candidates():
    model, batch = case()
    assert_all_differ({name: outputs(model, batch, tokens=tokens).tokens for name, tokens in token_samplers.items()})


def test_every_cell_sampler_changes_the_cells():
    model, batch = case(KNOWN)
    assert_all_differ({name: outputs(model, batch, cells=cells).cells for name, cells in cell_samplers.items()})


def test_every_cost_changes_the_costs():
    model, batch = case()
    assert_all_differ({name: outputs(model, batch, cost=cost).costs for name, cost in all_costs.items()})


def losses_of(**changes):
    model, batch = case()
    settings = {"roll_in": Learned(), "roll_out": Learned(), "cost": EditDistance(), "loss": LogLoss()} | changes
    return Searnn(**settings)(model, batch, rng()).loss.detach()


def test_every_loss_changes_the_loss():
    assert_all_differ({name: losses_of(loss=loss) for name, loss in all_losses.items()})


def test_every_normalisation_changes_the_loss():
    names = ("batch", "cell", "sum")
    assert_all_differ({name: losses_of(normalisation=name) for name in names})
    model, batch = case()
    assert_all_differ({name: Mle(normalisation=name)(model, batch, rng()).loss.detach() for name in names})


@pytest.mark.parametrize(
    ("axis", "members"),
    [
        (policies, [*roll_ins.values(), *roll_outs.values()]),
        (oracles, [policy.oracle for policy in roll_outs.values() if isinstance(policy, Reference)]),
        (costs, all_costs.values()),
        (losses, all_losses.values()),
        (samplers, [*token_samplers.values(), *cell_samplers.values()]),
    ],
    ids=["policies", "oracles", "costs", "losses", "samplers"],
)
def test_no_member_of_an_axis_is_left_out_here(axis, members):
    tried = {type(member).__name__ for member in members}
    exported = {name for name in axis.__all__ if isinstance(getattr(axis, name), type)}
    assert exported <= tried, "these are in no test of this file"


def test_schedules_reach_the_policies():
    model, batch = case()
    falling = Mixed(reference_probability=schedules.Linear(1.0, 0.0, 10), per="token")
    algorithm = Searnn(falling, Focused(schedules.Stepwise(0, 1, 5)), EditDistance(), KLLoss(2.0))
    first, last = schedules.at(algorithm, 0), schedules.at(algorithm, 10)
    assert (first.roll_in.reference_probability, last.roll_in.reference_probability) == (1.0, 0.0)
    for scheduled, plain in ((first.roll_in, Reference()), (last.roll_in, Learned())):
        assert torch.equal(outputs(model, batch, roll_in=scheduled).prefix, outputs(model, batch, roll_in=plain).prefix)
    for scheduled, plain in ((first.roll_out, Reference()), (last.roll_out, Focused(2))):
        assert torch.equal(
            outputs(model, batch, roll_out=scheduled).outputs, outputs(model, batch, roll_out=plain).outputs
        )
    with pytest.raises(SearnnError, match="schedule"):
        outputs(model, batch, roll_in=falling)


@pytest.mark.parametrize("per", ["example", "cell", "branch", "token"])
@pytest.mark.parametrize("probability", [0.3, 0.5])
def test_the_coins_of_a_mixed_roll_out_are_fair_and_as_many_as_they_should_be(per, probability):
    """Counted where reference and model disagree, so that it can be seen whose output it is."""
    model, batch = make_model(KNOWN, seed=2), make_batch(KNOWN, lengths=(4,) * 40, seed=3)
    learned = outputs(model, batch).outputs[:, 0]  # the first cell alone: [B, K, T]
    reference = outputs(model, batch, roll_out=Reference()).outputs[:, 0]
    apart = (learned != reference).any(-1)
    heads = tails = 0
    for seed in range(30):
        mixed = outputs(model, batch, seed, roll_out=Mixed(reference_probability=probability, per=per)).outputs[:, 0]
        if per == "token":  # the second cell shows the first coin
            differ = learned[..., 1] != reference[..., 1]
            is_reference = (mixed[..., 1] == reference[..., 1])[differ]
            heads, tails = heads + int(is_reference.sum()), tails + int((~is_reference).sum())
            continue
        is_reference = (mixed == reference).all(-1)
        assert (is_reference | (mixed == learned).all(-1)).all()
        if per == "branch":
            heads, tails = heads + int(is_reference[apart].sum()), tails + int((~is_reference)[apart].sum())
        else:  # one coin for all tokens of the cell
            shared = [row[mask] for row, mask in zip(is_reference, apart, strict=True) if mask.any()]
            assert all(bool(row.all()) or not bool(row.any()) for row in shared)
            heads, tails = heads + sum(bool(row[0]) for row in shared), tails + sum(not bool(row[0]) for row in shared)
    count = heads + tails
    assert count > 500
    assert chisquare([heads, tails], [count * probability, count * (1 - probability)]).pvalue > 1e-3


def test_coins_per_example_are_shared_by_all_its_cells_and_per_cell_are_not():
    model, batch = make_model(KNOWN, seed=2), make_batch(KNOWN, lengths=(6,) * 12, seed=3)
    learned, reference = outputs(model, batch), outputs(model, batch, roll_out=Reference())
    apart = (learned.outputs != reference.outputs).any(-1)

    def whose(per):
        mixed = outputs(model, batch, roll_out=Mixed(per=per)).outputs
        is_reference = (mixed == reference.outputs).all(-1)
        return [set(is_reference[b][apart[b]].tolist()) for b in range(12) if apart[b].any()]

    assert all(len(kinds) == 1 for kinds in whose("example"))
    assert any(len(kinds) == 2 for kinds in whose("cell"))


wrong_settings = {
    "probability": lambda: Mixed(reference_probability=1.5),
    "nan": lambda: Mixed(reference_probability=float("nan")),
    "per": lambda: Mixed(per="word"),
    "beam": lambda: Learned(beam=0),
    "budget": lambda: Learned(budget=0),
    "temperature": lambda: Sampled(0.0),
    "steps": lambda: Focused(-1),
    "beam-per-token": lambda: Mixed(per="token", learned=Learned(beam=2)),
    "sampled-beam": lambda: Mixed(sampled=True, learned=Learned(beam=2)),
    "normalisation": lambda: Searnn(Learned(), Learned(), Hamming(), LogLoss(), normalisation="none"),
    "classifier": lambda: Searnn(Learned(), Learned(), Hamming(), LogLoss(), classifier="layer"),
    "smoothing": lambda: Mle(label_smoothing=1.0),
    "mle-normalisation": lambda: Mle(normalisation="none"),
    "bleu": lambda: SentenceBleu(definition="moses"),
    "bleu-order": lambda: SentenceBleu(order=0),
    "gleu-order": lambda: Gleu(order=0),
    "measure": lambda: BestSuffix("bleu-2"),
    "suffix-definition": lambda: BestSuffix(definition="moses"),
    "tags": lambda: ChunkF1(tags=("O", "NP")),
    "oracle-tags": lambda: ChunkOracle(tags=["O"]),
}


@pytest.mark.usefixtures("as_users_call")
@pytest.mark.parametrize("wrong", wrong_settings)
def test_wrong_settings_are_refused(wrong):
    with pytest.raises(SearnnError):
        wrong_settings[wrong]()


@pytest.mark.usefixtures("as_users_call")
def test_what_does_not_apply_is_refused():
    model, batch = case()
    for roll_in in (Mixed(per="cell"), Mixed(per="branch"), Focused(1)):
        with pytest.raises(SearnnError):
            outputs(model, batch, roll_in=roll_in)
    known_model, known_batch = case(KNOWN)
    with pytest.raises(SearnnError, match="BestSuffix needs outputs that end by themselves"):
        outputs(known_model, known_batch, roll_out=Reference(BestSuffix()))
    for part in ({"cost": ChunkF1()}, {"roll_out": Reference(ChunkOracle())}):
        with pytest.raises(SearnnError, match="chunks need to know the tags"):
            outputs(model, batch, **part)
