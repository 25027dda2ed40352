"""The kernels of the costs, run by Triton's interpreter, against naive loops and against the plain code."""

import os
import subprocess
import sys
from dataclasses import replace

import naive
import pytest
import torch
from kernel_cases import (
    CASES,
    FREE,
    INSIDE,
    KNOWN,
    UNKNOWN,
    anything,
    by_kernels,
    generator,
    outputs_near,
    plainly,
    truths,
)

from searnn.costs import EditDistance, Gleu, Hamming, SentenceBleu
from searnn.fast import tokens as fast
from searnn.sequences import ngrams
from searnn.sequences.edit import edit_distance
from searnn.types import Vocabulary

pytest.importorskip("triton")
pytestmark = pytest.mark.skipif(torch.cuda.is_available(), reason="the interpreter is for machines without a GPU")


def bleu(definition, order=4):
    return lambda o, t: 1 - naive.naive_bleu(o, t, definition, order, UNKNOWN)


def per_length(count):
    return lambda o, t: count(o, t) / max(1, len(t))


MEASURES = [
    (Hamming(), naive.hamming),
    (Hamming(normalised=True), per_length(naive.hamming)),
    (EditDistance(), per_length(naive.edit)),
    (EditDistance(normalised=False), naive.edit),
    (SentenceBleu(definition="leblond", unknown=UNKNOWN), bleu("leblond")),
    (SentenceBleu(unknown=UNKNOWN), bleu("bahdanau")),
    (SentenceBleu(definition="lin-och", order=2), bleu("lin-och", 2)),
    (SentenceBleu(definition="leblond", order=3), bleu("leblond", 3)),
    (Gleu(), lambda o, t: 1 - naive.naive_gleu(o, t, 4)),
    (Gleu(order=1), lambda o, t: 1 - naive.naive_gleu(o, t, 1)),
]
EXACT = (Hamming, EditDistance)


@pytest.fixture
def told(monkeypatch):
    """What the choice between a kernel and the plain code said."""
    seen = []
    monkeypatch.setattr(fast, "announce", seen.append)
    return seen


def check_cost(cost, loop, vocab, width, letters, seed):
    rng = generator(seed)
    targets = truths(vocab, 2, width, rng, letters)
    outputs = outputs_near(targets, vocab, 32, rng, letters=letters).view(2, 4, 8, width)
    ours = replace(cost, vocab=vocab)
    costs = by_kernels(ours, outputs, targets)
    plain = plainly(ours, outputs, targets)
    assert costs.dtype == plain.dtype == torch.float32
    rows = [[naive.strip(row, vocab) for row in example] for example in outputs.flatten(1, 2).tolist()]
    true = [naive.strip(row, vocab) for row in targets.tolist()]
    expected = [[float(loop(o, t)) for o in example] for example, t in zip(rows, true, strict=True)]
    expected = torch.tensor(expected).view(2, 4, 8)
    if isinstance(cost, EXACT):
        assert torch.equal(costs, plain)
        assert torch.equal(costs, expected)
    else:
        torch.testing.assert_close(costs, plain, rtol=1e-6, atol=3e-7)
        torch.testing.assert_close(costs, expected, rtol=1e-6, atol=3e-7)


@pytest.mark.parametrize(("cost", "loop"), MEASURES)
def test_costs_equal_naive_loops_and_the_plain_code(cost, loop):
    for case in CASES[:3] if isinstance(cost, EXACT) else CASES[::3]:
        check_cost(cost, loop, *case)


@pytest.mark.slow
@pytest.mark.parametrize(("cost", "loop"), MEASURES)
def test_costs_of_any_outputs(cost, loop):
    @anything()
    def check(vocab, width, letters, seed):
        check_cost(cost, loop, vocab, width, letters, seed)

    check()


@pytest.mark.parametrize(("order", "never"), [(2, None), (4, UNKNOWN)])
def test_counts_of_ngrams_are_exact(order, never):
    rng = generator(order)
    targets = truths(INSIDE, 2, 8, rng, letters=3)
    outputs = outputs_near(targets, INSIDE, 40, rng, letters=3)
    counts = by_kernels(ngrams.count_matches, outputs, targets, INSIDE, order, never)
    assert torch.equal(counts, plainly(ngrams.count_matches, outputs, targets, INSIDE, order, never))
    assert counts.dtype == torch.int64
    for size in range(1, order + 1):
        for b, t in enumerate(targets.tolist()):
            theirs = naive.grams(naive.strip(t, INSIDE), size)
            theirs = {gram: count for gram, count in theirs.items() if never not in gram}
            for row, o in enumerate(outputs[b].tolist()):
                ours = naive.grams(naive.strip(o, INSIDE), size)
                expected = sum(min(count, theirs.get(gram, 0)) for gram, count in ours.items())
                assert counts[size - 1, b, row] == expected


@pytest.mark.parametrize("width", [31, 32, 62])
def test_truths_up_to_a_word(width):
    """Two short outputs against a truth that needs the last bits of a word: copies of its end."""
    rng = generator(width)
    targets = torch.randint(0, 3, (1, width), generator=rng)
    outputs = torch.stack([targets[:, -4:], torch.randint(0, 3, (1, 4), generator=rng)], 1)
    distances = by_kernels(edit_distance, outputs, targets, KNOWN)
    assert distances.dtype == torch.int64
    assert distances.tolist() == [[naive.edit(row, targets[0].tolist()) for row in outputs[0].tolist()]]
    assert distances[0, 0] == width - 4

    from searnn.fast.gpu import ngrams as kernels

    found = kernels.count_matches(outputs, targets, KNOWN, 4, None)[:, 0]
    for size in range(1, 5):
        theirs = naive.grams(targets[0].tolist(), size)
        expected = [(naive.grams(row, size) & theirs).total() for row in outputs[0].tolist()]
        assert found[size - 1].tolist() == expected


@pytest.mark.parametrize("cost", [Hamming(FREE, True), EditDistance(FREE), SentenceBleu(FREE), Gleu(FREE)])
def test_default_type_axes_and_strides(cost, told):
    rng = generator(1)
    targets = truths(FREE, 2, 4, rng)
    outputs = outputs_near(targets, FREE, 4, rng)
    turned = outputs.transpose(1, 2).contiguous().transpose(1, 2)
    cut = targets.repeat(1, 2)[:, :4]
    torch.set_default_dtype(torch.float64)
    try:
        expected = plainly(cost, outputs, targets)
        costs = by_kernels(cost, turned, cut)
        one = by_kernels(cost, outputs[:, 2], targets)
    finally:
        torch.set_default_dtype(torch.float32)
    assert costs.dtype == torch.float64
    torch.testing.assert_close(costs, expected, rtol=1e-13, atol=1e-13)
    torch.testing.assert_close(one, expected[:, 2], rtol=1e-13, atol=1e-13)
    assert by_kernels(cost, outputs[:, :0], targets).shape == (2, 0)
    assert len(told) >= 2
    assert all(line.endswith("a kernel") for line in told[:2])


def test_where_the_kernels_do_not_fit_the_plain_code_runs(told):
    rng = generator(2)
    targets = truths(FREE, 2, 65, rng)
    outputs = outputs_near(targets, FREE, 3, rng)
    for cost in (EditDistance(FREE), SentenceBleu(FREE), Gleu(FREE)):
        assert torch.equal(by_kernels(cost, outputs, targets), plainly(cost, outputs, targets))
    short = outputs[..., :4]
    assert torch.equal(
        by_kernels(SentenceBleu(FREE, order=5), short, targets[:, :4]),
        plainly(SentenceBleu(FREE, order=5), short, targets[:, :4]),
    )
    huge = Vocabulary(size=10**13, pad=10**13, bos=10**13 + 1, eos=0)
    ids = torch.tensor([[10**12, 7, 0]]), torch.tensor([[7, 10**12, 7]])
    assert by_kernels(edit_distance, *ids, huge).tolist() == [1]
    assert by_kernels(Hamming(huge), *ids).tolist() == [3]
    assert {line.split(":")[0] for line in told} == {"edit distance", "Hamming distance", "BLEU", "GLEU", "n-grams"}
    assert all("the plain code" in line for line in told)


def test_hamming_takes_any_width(told):
    rng = generator(3)
    targets = truths(FREE, 2, 65, rng)
    outputs = outputs_near(targets, FREE, 3, rng)
    assert torch.equal(by_kernels(Hamming(FREE), outputs, targets), plainly(Hamming(FREE), outputs, targets))
    assert told == ["Hamming distance: a kernel"]


def test_the_package_does_not_import_triton_by_itself():
    code = "import sys, searnn, searnn.costs, searnn.oracles; sys.exit('triton' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


COMPILE = """
import sys
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, compile
from searnn.fast.gpu import best_suffix, completions, distances, ngrams
from searnn.fast.gpu.tokens import shape_settings

def check(kernel, out, **settings):
    names = kernel.arg_names
    numbers = {"cells"} if "rows" in names else set()
    pointers = {"prefix", "cells", "tokens", "limits", "targets", "outputs"} - numbers
    kinds = {name: "constexpr" if name in settings else "*i64" if name in pointers else "i32" for name in names}
    source = ASTSource(fn=kernel, signature={**kinds, "out": out}, constexprs=settings)
    assert compile(source, target=GPUTarget("cuda", 90, 32)).asm["ptx"]

for width in (10, 40):
    shape = {"lanes": 32, **shape_settings(width)}
    for flag in (True, False):
        check(distances._of_outputs, "*fp32", edits=flag, normalised=flag, **shape)
        check(distances._of_copies, "*fp64", edits=flag, normalised=not flag, **shape)
        check(completions._optimal, "*fp32", costs=True, normalised=flag, ends=flag, **shape)
        check(completions._optimal, "*i64", costs=False, normalised=False, ends=flag, **shape)
        check(completions._copy, "*i64", ends=flag, lanes=32)
    check(ngrams._matches, "*i64", measure="counts", order=4, **shape)
    for measure in ("leblond", "bahdanau", "lin-och", "gleu"):
        check(ngrams._matches, "*fp32", measure=measure, order=3, **shape)
        for order in (1, 4):
            settings = {"measure": measure, "order": order, "same": 1e-9, "lanes": 16, "span": shape["span"]}
            check(best_suffix._complete, "*i64", **settings)
"""


@pytest.mark.slow
def test_the_kernels_compile_for_a_gpu(tmp_path):
    """The interpreter takes what the compiler refuses; compiling needs no GPU."""
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    environment["TRITON_CACHE_DIR"] = str(tmp_path)
    done = subprocess.run([sys.executable, "-c", COMPILE], env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
