"""BLEU and GLEU costs against counting n-grams in lists, NLTK and sacrebleu."""

import math
from dataclasses import replace
from functools import partial

import pytest
import torch
from cases import FREE, INSIDE, KNOWN, make_batch
from hypothesis import given, settings
from hypothesis import strategies as st
from naive import naive_bleu, naive_gleu
from nltk.translate.bleu_score import SmoothingFunction, sentence_bleu
from nltk.translate.gleu_score import sentence_gleu
from sacrebleu.metrics import BLEU

from searnn.costs import Gleu, SentenceBleu
from searnn.interfaces import Cost
from searnn.sequences import ngrams
from searnn.sequences.ends import strip
from searnn.types import SearnnError, Vocabulary

WIDE = Vocabulary(size=30_000, pad=0, bos=1, eos=2)
UNKNOWN = 3
sentences = st.integers(0, 60)


def near_pairs(vocab, letters, longest, seed, rows=3, examples=4):
    """Targets of all lengths, and outputs that share runs with them; what follows an end is rubbish."""
    rng = torch.Generator().manual_seed(seed)
    end = vocab.pad if vocab.eos is None else vocab.eos

    def words(*shape):
        return torch.tensor(letters)[torch.randint(len(letters), shape, generator=rng)]

    def ended(tokens):
        length = torch.randint(longest + 1, (*tokens.shape[:-1], 1), generator=rng)
        return torch.where(torch.arange(longest + 1) == length, end, tokens)

    truth = words(examples, longest + 1)
    shift = int(torch.randint(longest + 1, (1,), generator=rng))
    keep = torch.rand(examples, rows, longest + 1, generator=rng) < 0.8
    outputs = torch.where(keep, truth.roll(shift, 1).unsqueeze(1), words(examples, rows, longest + 1))
    targets = ended(truth)
    outputs = ended(outputs)
    outputs[0, 0] = targets[0]
    return outputs, targets


def as_lists(outputs, targets, vocab):
    rows = [strip(example, vocab) for example in outputs]
    return rows, strip(targets, vocab)


@pytest.fixture
def double():
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


MEASURES = [
    (SentenceBleu(definition=definition, order=order, unknown=UNKNOWN), partial(naive_bleu, definition=definition))
    for definition in ngrams.DEFINITIONS
    for order in (1, 2, 4)
] + [(Gleu(order=order), naive_gleu) for order in (1, 4, 5)]


@pytest.mark.usefixtures("double")
@pytest.mark.parametrize(("cost", "naive"), MEASURES)
def test_costs_equal_counting_in_lists(cost, naive):
    extra = {"unknown": UNKNOWN} if isinstance(cost, SentenceBleu) else {}

    @settings(max_examples=25, deadline=None)
    @given(
        st.sampled_from([KNOWN, FREE, INSIDE, WIDE]),
        st.one_of(sentences, st.sampled_from([61, 62, 70, 130])),
        st.integers(0, 2**31),
    )
    def check(vocab, longest, seed):
        letters = [UNKNOWN, *(token for token in range(1, 9) if token in vocab.choosable and token != vocab.eos)]
        outputs, targets = near_pairs(vocab, letters, longest, seed)
        costs = replace(cost, vocab=vocab)(outputs, targets)
        assert costs.dtype == torch.float64
        rows, truths = as_lists(outputs, targets, vocab)
        expected = [
            [1 - naive(row, truth, order=cost.order, **extra) for row in example]
            for example, truth in zip(rows, truths, strict=True)
        ]
        torch.testing.assert_close(costs, torch.tensor(expected), rtol=0, atol=1e-12)

    check()


def compared(cost, score, longest=25, skip=lambda output, target: False):
    """The cost of 200 pairs beside another library's score of each."""
    outputs, targets = near_pairs(INSIDE, [3, 4, 5], longest, 5, rows=20, examples=10)
    costs = replace(cost, vocab=INSIDE)(outputs, targets)
    rows, truths = as_lists(outputs, targets, INSIDE)
    seen = 0
    for example, truth in enumerate(truths):
        for row, output in enumerate(rows[example]):
            ours, theirs = [str(token) for token in output], [str(token) for token in truth]
            if not skip(ours, theirs):
                assert 1 - float(costs[example, row]) == pytest.approx(score(ours, theirs), abs=1e-12)
                seen += 1
    assert seen > 100


def add_one(fractions, *, hyp_len, **_):
    """NLTK's hook with the authors' smoothing: it gives 0 / 1 for an order that the output is too short for."""
    counts = [max(0, hyp_len - size) for size in range(len(fractions))]
    return [(part.numerator + 1) / (count + 1) for part, count in zip(fractions, counts, strict=True)]


@pytest.mark.usefixtures("double")
def test_leblond_is_nltk_with_one_added_everywhere():
    compared(
        SentenceBleu(definition="leblond"),
        lambda ours, theirs: sentence_bleu([theirs], ours, smoothing_function=add_one),
    )


@pytest.mark.usefixtures("double")
def test_lin_och_is_nltk_where_no_order_is_empty():
    smooth = SmoothingFunction().method2
    compared(
        SentenceBleu(definition="lin-och"),
        lambda ours, theirs: sentence_bleu([theirs], ours, smoothing_function=smooth),
        skip=lambda ours, _: 0 < len(ours) < 4,
    )


@pytest.mark.usefixtures("double")
@pytest.mark.parametrize("longest", [6, 25])
def test_lin_och_is_sacrebleu(longest):
    metric = BLEU(smooth_method="add-k", smooth_value=1, tokenize="none", effective_order=False)
    compared(
        SentenceBleu(definition="lin-och"),
        lambda ours, theirs: metric.sentence_score(" ".join(ours), [" ".join(theirs)]).score / 100,
        longest=longest,
    )


@pytest.mark.usefixtures("double")
def test_gleu_is_nltk():
    compared(Gleu(), lambda ours, theirs: sentence_gleu([theirs], ours), skip=lambda *pair: pair == ([], []))


@pytest.mark.parametrize("cost", [cost for cost, _ in MEASURES])
@pytest.mark.parametrize("vocab", [KNOWN, FREE, INSIDE])
def test_any_axes_perfect_outputs_and_the_default_type(cost, vocab):
    assert isinstance(cost, Cost)
    bound = replace(cost, vocab=vocab, **({"unknown": None} if isinstance(cost, SentenceBleu) else {}))
    batch = make_batch(vocab, room=2)
    perfect = bound(batch.targets, batch.targets)
    assert perfect.tolist() == [0.0] * 3
    assert perfect.dtype == torch.float32
    outputs = batch.targets.roll(1, 0)[:, None, None].expand(-1, 2, 4, -1)
    costs = bound(outputs, batch.targets)
    assert costs.shape == (3, 2, 4)
    assert torch.equal(costs[:, 1, 3], bound(outputs[:, 0, 0], batch.targets))
    assert bound(outputs[:, :, :0], batch.targets).shape == (3, 2, 0)
    with pytest.raises(SearnnError, match="vocab"):
        replace(bound, vocab=None)(outputs, batch.targets)


@pytest.mark.parametrize("blocks", [{"TABLE": 40_000, "PAIRS": 1}, {"TABLE": 70_000, "PAIRS": 50}])
def test_blocks_and_the_table_change_nothing(monkeypatch, blocks):
    outputs, targets = near_pairs(WIDE, [3, 4, 5, 29_999], 40, 1, rows=40, examples=5)  # enough rows for a table
    whole = SentenceBleu(WIDE)(outputs, targets)
    by_rows = torch.stack([SentenceBleu(WIDE)(row, targets) for row in outputs.unbind(1)], 1)  # too few
    for name, value in blocks.items():
        monkeypatch.setattr(ngrams, name, value)
    assert torch.equal(SentenceBleu(WIDE)(outputs, targets), whole)
    torch.testing.assert_close(by_rows, whole)


def test_the_definitions_differ_where_they_say():
    targets = torch.tensor([[3, 4, 5, 3, 2]])
    nothing = torch.tensor([[6, 6, 2, 0, 0]])
    vocab = Vocabulary(size=7, pad=0, bos=1, eos=2)
    leblond, bahdanau, lin_och = (SentenceBleu(vocab, name, unknown=UNKNOWN) for name in ngrams.DEFINITIONS)
    assert leblond(nothing, targets).tolist() == lin_och(nothing, targets).tolist() == [1.0]
    assert bahdanau(nothing, targets).tolist() == pytest.approx([1 - (1 / 6) ** 0.25 * math.exp(-1)])
    assert leblond(targets, targets).tolist() == lin_och(targets, targets).tolist() == [0.0]
    expected = 1 - ((3 / 5) * (2 / 4) * (1 / 3) * (1 / 2)) ** 0.25  # of 3 4 5 3 only 4, 5 and 4 5 are known
    assert bahdanau(targets, targets).tolist() == pytest.approx([expected])
    assert replace(bahdanau, unknown=None)(targets, targets).tolist() == [0.0]


def test_bits_are_counted():
    words = torch.randint(2**62, (1000,), generator=torch.Generator().manual_seed(0))
    words = torch.cat([words, torch.tensor([0, 1, 2**62 - 1])])
    assert ngrams.count_bits(words).tolist() == [word.bit_count() for word in words.tolist()]


@pytest.mark.usefixtures("as_users_call")
def test_settings_that_mean_nothing_are_refused():
    with pytest.raises(SearnnError, match="leblond, bahdanau or lin-och"):
        SentenceBleu(definition="papineni")
    for make in (SentenceBleu, Gleu):
        with pytest.raises(SearnnError, match="order is 0"):
            make(order=0)


@pytest.mark.parametrize("width", [5, 70])
def test_nothing_is_read_back_from_the_device(width):
    """On the meta device there are no values: whatever would wait for one fails."""
    for vocab in (INSIDE, WIDE):
        outputs, targets = near_pairs(vocab, [3, 4, 5], width, 0)
        for cost in (SentenceBleu(vocab), SentenceBleu(vocab, "bahdanau", unknown=3), Gleu(vocab)):
            assert cost(outputs.to("meta"), targets.to("meta")).shape == outputs.shape[:-1]
