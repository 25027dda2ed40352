"""Costs against plain list code."""

import math
from collections import Counter
from dataclasses import replace
from functools import partial

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from kernel_cases import branches_near, written
from naive import naive_bleu
from rapidfuzz.distance import Levenshtein

import searnn.costs
from searnn.config.registry import AXES
from searnn.costs import CallableCost, ChunkF1, EditDistance, ExactMatch, Gleu, Hamming, SentenceBleu, from_callable
from searnn.engine import Engine, using
from searnn.interfaces import Cost
from searnn.oracles import CopyTarget, OptimalEdit
from searnn.types import SearnnError, Vocabulary

VOCABULARIES = [
    Vocabulary(size=5, pad=5, bos=6, eos=0),
    Vocabulary(size=5, pad=0, bos=1, eos=2),
    Vocabulary(size=4, pad=4, bos=5),
    Vocabulary(size=5, pad=3, bos=0),
]


def cut(row, vocab):
    """What stands before EOS or PAD, the plain way."""
    kept = []
    for token in row:
        if token in (vocab.pad, vocab.eos):
            break
        kept.append(token)
    return kept


def hamming(output, target):
    wrong = sum(a != b for a, b in zip(output, target, strict=False))
    return wrong + abs(len(output) - len(target))


def per_length(count, target):
    return count / max(1, len(target))


def shared(output, target, order):
    """How many n-grams of this order the output has, the target has, and both have."""
    both = [Counter(tuple(row[i : i + order]) for i in range(len(row) - order + 1)) for row in (output, target)]
    return both[0].total(), both[1].total(), (both[0] & both[1]).total()


def bleu(output, target, order=4):
    """The paper's authors' smoothing: one added to every count, and nothing where no token is right."""
    if not shared(output, target, 1)[2]:
        return 0.0
    found = [shared(output, target, n) for n in range(1, order + 1)]
    mean = math.prod((both + 1) / (ours + 1) for ours, _, both in found) ** (1 / order)
    return mean * math.exp(min(0, 1 - max(1, len(target)) / len(output)))


def gleu(output, target, order=4):
    found = [sum(column) for column in zip(*(shared(output, target, n) for n in range(1, order + 1)), strict=True)]
    return found[2] / max(found[:2]) if max(found[:2]) else 1.0


TAGS = ("O", "B-a", "I-a", "B-b", "I-b")


def chunks(row):
    """First cell, last cell and type of every chunk, found cell by cell."""
    found, kind = [], None
    for cell, token in enumerate(row):
        mark, _, new = (TAGS[token] if token < len(TAGS) else "O").partition("-")  # BOS is no tag
        if mark == "I" and new == kind:
            found[-1] = (found[-1][0], cell, kind)
        elif mark != "O":
            found.append((cell, cell, new))
        kind = new or None
    return found


def chunk_error(output, target):
    ours, theirs = chunks(output), chunks(target)
    return 1 - 2 * len(set(ours) & set(theirs)) / (len(ours) + len(theirs)) if ours or theirs else 0.0


NAIVE = [
    (Hamming(), lambda o, t: float(hamming(o, t))),
    (Hamming(normalised=True), lambda o, t: per_length(hamming(o, t), t)),
    (EditDistance(), lambda o, t: per_length(Levenshtein.distance(o, t), t)),
    (EditDistance(normalised=False), lambda o, t: float(Levenshtein.distance(o, t))),
    (ExactMatch(), lambda o, t: float(o != t)),
    (SentenceBleu(definition="leblond"), lambda o, t: 1 - bleu(o, t)),
    (SentenceBleu(), lambda o, t: 1 - naive_bleu(o, t, "bahdanau", 4, None)),
    (SentenceBleu(definition="leblond", order=2), lambda o, t: 1 - bleu(o, t, order=2)),
    (SentenceBleu(unknown=1), lambda o, t: 1 - naive_bleu(o, t, "bahdanau", 4, 1)),
    (SentenceBleu(definition="lin-och", order=3, unknown=1), lambda o, t: 1 - naive_bleu(o, t, "lin-och", 3, None)),
    (Gleu(), lambda o, t: 1 - gleu(o, t)),
    (ChunkF1(tags=TAGS), chunk_error),
    (from_callable(lambda o, t: len(o) - len(t) / 7), lambda o, t: len(o) - len(t) / 7),
]


ROUNDED = (SentenceBleu, Gleu, ChunkF1)  # divided or multiplied in another order than here


@pytest.fixture
def double():
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@pytest.mark.usefixtures("double")
@pytest.mark.parametrize(("cost", "naive"), NAIVE)
def test_costs_equal_list_code(cost, naive):
    @settings(max_examples=50, deadline=None)
    @given(st.sampled_from(VOCABULARIES), st.integers(1, 9), st.integers(0, 2**31), st.sampled_from([(), (3,), (2, 2)]))
    def check(vocab, width, seed, axes):
        rng = torch.Generator().manual_seed(seed)
        targets = torch.randint(vocab.embeddings, (4, width), generator=rng)
        outputs = torch.randint(vocab.embeddings, (4, *axes, width), generator=rng)
        keep = torch.rand(outputs.shape, generator=rng) < 0.6  # near the truth, or nothing would ever match
        outputs = torch.where(keep, targets.view(4, *[1] * len(axes), width), outputs)
        outputs[0] = targets[0]
        targets[1, 0] = vocab.pad  # an empty target
        costs = replace(cost, vocab=vocab)(outputs, targets)
        assert costs.shape == outputs.shape[:-1]
        assert costs.dtype == torch.float64
        rows = outputs.view(4, -1, width).tolist()
        expected = [[naive(cut(row, vocab), cut(targets[b].tolist(), vocab)) for row in rows[b]] for b in range(4)]
        if type(cost) in ROUNDED:
            assert costs.view(4, -1).tolist() == [pytest.approx(row, abs=1e-12) for row in expected]
        else:
            assert costs.view(4, -1).tolist() == expected

    check()


def test_no_cost_is_left_out_here():
    exported = {getattr(searnn.costs, name) for name in searnn.costs.__all__} - {from_callable}
    assert {type(cost) for cost, _ in NAIVE} == exported == {*AXES["cost"].values(), CallableCost}


@pytest.mark.parametrize("engine", ["auto", "plain"])
@pytest.mark.parametrize("cost", [cost for cost, _ in NAIVE])
def test_a_cost_is_a_cost_and_needs_a_vocabulary(cost, engine):
    assert isinstance(cost, Cost)
    tokens = torch.ones(1, 2, dtype=torch.long)
    made = "from_callable" if isinstance(cost, CallableCost) else type(cost).__name__
    told = rf"^{made} has no vocabulary .* make it as {made}\(vocab=...\)"
    with using(Engine(engine)), pytest.raises(SearnnError, match=told):
        cost(tokens, tokens)
    bound = replace(cost, vocab=VOCABULARIES[0])
    assert bound(tokens, tokens).dtype == torch.float32
    assert bound == replace(bound)


@pytest.mark.usefixtures("as_users_call")
def test_the_first_setting_is_the_vocabulary():
    vocab = VOCABULARIES[0]
    classes = (Hamming, EditDistance, ExactMatch, SentenceBleu, Gleu, ChunkF1)
    assert [cost(vocab).vocab for cost in classes] == [vocab] * 6
    makers = {cost.__name__: cost for cost in classes} | {"from_callable": lambda vocab: from_callable(hamming, vocab)}
    for name, make in makers.items():
        with pytest.raises(SearnnError, match=rf"^{name} got vocab=True, expected a Vocabulary or None"):
            make(True)
    for make in (Hamming, EditDistance):
        with pytest.raises(SearnnError, match="normalised is nan, it must be true or false"):
            make(vocab, math.nan)
    with pytest.raises(SearnnError, match="expected a function"):
        from_callable(3)
    with pytest.raises(SearnnError, match=r"^ChunkF1 got tags=\['O'\], expected a tuple"):
        ChunkF1(vocab, ["O"])


def test_a_function_sees_each_output_of_an_example_once_and_cannot_spoil_it():
    seen = []

    def spoil(output, target):
        seen.append((tuple(output), tuple(target)))
        output.append(9)
        target.clear()
        return len(output)

    vocab = VOCABULARIES[0]
    targets = torch.tensor([[1, 2, 0], [3, 0, 5]])
    outputs = torch.tensor([[[1, 0, 5], [1, 5, 5], [2, 0, 3], [1, 0, 4]], [[1, 0, 5], [0, 1, 1], [1, 2, 3], [1, 0, 5]]])
    costs = from_callable(spoil, vocab)(outputs, targets)
    assert costs.tolist() == [[2, 2, 2, 2], [2, 1, 4, 2]]
    assert sorted(seen) == [((), (3,)), ((1,), (1, 2)), ((1,), (3,)), ((1, 2, 3), (3,)), ((2,), (1, 2))]


@pytest.mark.parametrize("result", [math.nan, math.inf, None, "0.5", [1.0], 10**400, torch.ones(2), 1j])
def test_a_function_must_return_one_finite_number(result):
    def metric(_output, _target):
        return result

    cost = from_callable(metric, VOCABULARIES[0])
    with pytest.raises(SearnnError, match=r"metric gave .* on output \[1\] and target \[2, 3\]") as caught:
        cost(torch.tensor([[1, 0, 5]]), torch.tensor([[2, 3, 0]]))
    assert "\n" not in str(caught.value)
    assert f"gave {' '.join(repr(result).split())} on" in str(caught.value)


@pytest.mark.parametrize("result", [1, True, torch.tensor(1.0), torch.tensor(1)])
def test_other_kinds_of_number_are_numbers(result):
    cost = from_callable(lambda _output, _target: result, VOCABULARIES[0])
    assert cost(torch.tensor([[1]]), torch.tensor([[2]])).tolist() == [1.0]


def test_a_function_that_fails_is_named_with_the_pair():
    def metric(_output, _target):
        raise ValueError("two\nlines")

    with pytest.raises(SearnnError, match=r"metric failed on output \[1\] and target \[\]: ValueError: two lines"):
        from_callable(metric, VOCABULARIES[0])(torch.tensor([[1, 0]]), torch.tensor([[0, 5]]))


def test_a_function_without_a_name_is_told_by_what_it_is():
    nameless = partial(hamming, [1])
    with pytest.raises(SearnnError) as caught:
        from_callable(nameless, VOCABULARIES[0])(torch.tensor([[1, 0]]), torch.tensor([[0, 5]]))
    assert f"the cost {nameless!r} failed on" in str(caught.value)


def test_a_function_may_see_units_in_place_of_tokens():
    def units(tokens):
        return ["".join(chr(ord("a") + token) for token in tokens)]

    seen = []
    cost = from_callable(lambda output, target: seen.append((output, target)) or 0, VOCABULARIES[0], units)
    assert cost(torch.tensor([[2, 1, 0], [3, 0, 1]]), torch.tensor([[1, 0, 0], [0, 1, 1]])).tolist() == [0, 0]
    assert seen == [(["cb"], ["b"]), (["d"], [""])]


@pytest.mark.parametrize("engine", ["auto", "plain"])
@pytest.mark.parametrize(("kind", "oracles"), [(Hamming, ["copy"]), (EditDistance, ["copy", "optimal-edit"])])
def test_where_there_is_no_closed_form_none_is_given(kind, oracles, engine):
    vocab, other = VOCABULARIES[:2]
    branches, batch = branches_near(vocab, 3, 6, 4, torch.Generator().manual_seed(1))
    for oracle in ("copy", "optimal-edit", "best-suffix"):
        with using(Engine(engine)):
            assert (kind(vocab).closed_form(oracle, branches, batch) is None) == (oracle not in oracles)
            assert kind(other).closed_form(oracle, branches, batch) is None
        with using(Engine(engine)), pytest.raises(SearnnError, match=f"^{kind.__name__} has no vocabulary"):
            kind().closed_form(oracle, branches, batch)


@pytest.mark.parametrize(
    ("kind", "oracle"), [(Hamming, CopyTarget()), (EditDistance, CopyTarget()), (EditDistance, OptimalEdit())]
)
@pytest.mark.parametrize("seed", range(12))
def test_closed_forms_are_what_the_completions_cost(kind, oracle, seed):
    """At all cells of any prefix, where the room may cut the truth; masked branches have some finite cost."""
    vocab = VOCABULARIES[seed % 4]
    branches, batch = branches_near(vocab, 4, 1 + seed // 2, 5, torch.Generator().manual_seed(seed), letters=3)
    with using(Engine("plain")):
        outputs = oracle.complete(branches, batch)
        for normalised in (True, False):
            costs = kind(vocab, normalised=normalised).closed_form(oracle.name, branches, batch)
            assert costs.isfinite().all()
            for (b, c, k), _ in written(branches, batch):
                output, truth = cut(outputs[b, c, k].tolist(), vocab), cut(batch.targets[b].tolist(), vocab)
                count = hamming(output, truth) if kind is Hamming else Levenshtein.distance(output, truth)
                assert costs[b, c, k] == pytest.approx(per_length(count, truth) if normalised else count)
