"""Edit distance on tensors against rapidfuzz."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from rapidfuzz.distance import Levenshtein

from searnn.sequences import edit
from searnn.types import Vocabulary

FREE = Vocabulary(size=5, pad=5, bos=6, eos=0)
KNOWN = Vocabulary(size=5, pad=0, bos=9)

words = st.lists(st.integers(1, 4), max_size=60)


@st.composite
def pairs(draw):
    """Two sequences that are random, or close to one another in the ways that trip bit tricks."""
    first = draw(words)
    kind = draw(st.sampled_from(["random", "repeat", "shift", "empty", "edited", "same"]))
    if kind == "random":
        return first, draw(words)
    if kind == "repeat":
        token = draw(st.integers(1, 4))
        return [token] * len(first), [token] * draw(st.integers(0, 60))
    if kind == "shift":
        cut = draw(st.integers(0, len(first)))
        return first, first[cut:] + first[:cut]
    if kind == "empty":
        return draw(st.sampled_from([(first, []), ([], first)]))
    if kind == "edited":
        second = list(first)
        for place, token in draw(st.lists(st.tuples(st.integers(0, 59), st.integers(0, 4)), max_size=5)):
            second[place : place + (token % 2)] = [token] if token else []
        return first, second[:60]
    return first, list(first)


def padded(sequences, width, vocab, noise=0):
    """Sequences as they stand in a tensor; with `noise`, what comes after EOS is not PAD but tokens."""
    rows = []
    for index, sequence in enumerate(sequences):
        row = list(sequence)
        if vocab.eos is not None and len(row) < width:
            row.append(vocab.eos)
            row += [1 + (index + cell) % 4 for cell in range(min(noise, width - len(row)))]
        rows.append(row + [vocab.pad] * (width - len(row)))
    return torch.tensor(rows, dtype=torch.long).view(len(rows), width)


@settings(max_examples=150, deadline=None)
@given(st.lists(pairs(), min_size=1, max_size=4), st.integers(0, 2), st.integers(0, 2), st.sampled_from([FREE, KNOWN]))
def test_both_ways_equal_rapidfuzz(cases, extra, noise, vocab):
    outputs, targets = zip(*cases, strict=True)
    out = padded(outputs, max(map(len, outputs)) + extra, vocab, noise)
    truth = padded(targets, min(max(map(len, targets)) + extra, edit.WIDEST), vocab, noise)
    expected = [Levenshtein.distance(a, b) for a, b in cases]
    assert edit._by_bits(out.unsqueeze(1), truth, vocab).squeeze(1).tolist() == expected
    assert edit._by_rows(out.unsqueeze(1), truth, vocab).squeeze(1).tolist() == expected
    assert edit.edit_distance(out, truth, vocab).tolist() == expected


@pytest.mark.parametrize("width", [61, 62, 63, 64, 90])
def test_targets_up_to_and_beyond_a_word(width, monkeypatch):
    rng = torch.Generator().manual_seed(width)
    targets = torch.randint(1, 5, (6, width), generator=rng)
    outputs = torch.randint(1, 3, (6, 7, 70), generator=rng)
    outputs[:, 0, : min(width, 70)] = targets[:, :70]  # near the truth, so that the last bits matter
    refused = "_by_bits" if width > 62 else "_by_rows"
    monkeypatch.setattr(edit, refused, None)
    distances = edit.edit_distance(outputs, targets, KNOWN)
    for row, target, found in zip(outputs.tolist(), targets.tolist(), distances.tolist(), strict=True):
        assert found == [Levenshtein.distance(output, target) for output in row]


def test_any_axes_between_examples_and_positions():
    rng = torch.Generator().manual_seed(1)
    outputs = torch.randint(0, 5, (3, 2, 4, 6), generator=rng)
    targets = torch.randint(0, 5, (3, 8), generator=rng)
    distances = edit.edit_distance(outputs, targets, FREE)
    assert distances.shape == (3, 2, 4)
    for i in range(2):
        for j in range(4):
            assert torch.equal(distances[:, i, j], edit.edit_distance(outputs[:, i, j], targets, FREE))


def test_no_width_at_all():
    nothing, two = torch.zeros(2, 0, dtype=torch.long), torch.tensor([[1, 0], [2, 3]])
    for outputs, targets, expected in [(nothing, two, [1, 2]), (two, nothing, [1, 2]), (nothing, nothing, [0, 0])]:
        assert edit.edit_distance(outputs, targets, FREE).tolist() == expected


def test_many_token_ids_need_no_table_of_them():
    huge = Vocabulary(size=10**13, pad=10**13, bos=10**13 + 1, eos=0)
    outputs, targets = torch.tensor([[10**12, 7, 0]]), torch.tensor([[7, 10**12, 7]])
    assert edit.edit_distance(outputs, targets, huge).tolist() == [1]


@settings(max_examples=40, deadline=None)
@given(st.lists(pairs(), min_size=1, max_size=2), st.lists(st.integers(0, 4), min_size=2, max_size=2))
def test_tables_of_prefixes_and_one_more_token(cases, tokens):
    prefixes, targets = zip(*[(a[:9], b[:9]) for a, b in cases], strict=True)
    prefix, truth = padded(prefixes, 10, FREE, noise=1), padded(targets, 11, FREE)
    table = edit.prefix_distances(prefix, truth, FREE)
    assert table.shape == (len(cases), 11, 12)
    cells = torch.tensor([[0, 3, 9]]).expand(len(cases), 3)
    rows = table.gather(1, cells.unsqueeze(-1).expand(-1, -1, 12))
    candidates = torch.tensor(tokens).expand(len(cases), 3, 2)
    extended = edit.extend_distances(rows, candidates, truth)
    assert extended.shape == (len(cases), 3, 2, 12)
    for b, (output, target) in enumerate(zip(prefixes, targets, strict=True)):
        for j in range(len(target) + 1):
            for i in range(11):  # past its end, a prefix is what it was
                assert table[b, i, j] == Levenshtein.distance(output[:i], target[:j])
            for c, cell in enumerate([0, 3, 9]):
                for k, token in enumerate(tokens):
                    assert extended[b, c, k, j] == Levenshtein.distance([*output[:cell], token], target[:j])
