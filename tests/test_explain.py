"""What `searnn explain` shows, beside the triple loop, plain softmaxes and the losses' own gradients."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from cases import FREE, INSIDE, KNOWN, make_batch, make_model, one_example
from explain_cases import POLICIES, choices_for
from naive import COSTS, Example, strip
from tiny import tiny_letters
from tiny_data import conll_files, write_lines
from torch import Tensor
from torch.nn import functional

from searnn.costs import EditDistance
from searnn.interfaces import Model, NamesSources, ReadsTargets
from searnn.losses import KLLoss, LogLoss
from searnn.models import EncoderDecoder, Transformer
from searnn.models.looking import looked_at
from searnn.models.multihead import MultiHead
from searnn.policies import Learned, Mixed, Reference
from searnn.reports.explain import Choices, Moment, Start, describe, explore, read_target
from searnn.reports.explain.describing import describe_inputs
from searnn.reports.explain.searching import MOST_TOKENS
from searnn.reports.explain.showing import targets_of
from searnn.reports.naming import show_source, source_names, token_name
from searnn.samplers import TopTokens
from searnn.tasks import Chunking, Copy, Ocr, Pairs, Spelling
from searnn.types import SearnnError, Vocabulary


@pytest.mark.parametrize("vocab", [KNOWN, FREE, INSIDE], ids=["known", "free", "inside"])
def test_costs_and_outputs_are_those_of_the_triple_loop(vocab: Vocabulary) -> None:
    moments = [Moment(f"step {seed}", seed, make_model(vocab, seed)) for seed in (0, 1)]
    batch = one_example(make_batch(vocab, (4, 3), seed=2), 0)
    found = explore(moments, batch, choices_for(vocab))
    assert found["hidden_tokens"] == found["hidden_cells"] == 0
    assert found["tokens"] == list(vocab.choosable)
    measure = COSTS["edit" if vocab.eos is not None else "hamming"]
    for number, moment in enumerate(moments):
        example = Example(moment.model, batch, 0)
        for i, roll_in in enumerate(POLICIES):
            rolled_in = found["rolled_in"][number][i]
            truth = [*example.truth, vocab.eos] if vocab.eos is not None else example.truth
            prefix = truth if roll_in == "reference" else example.greedy([])
            assert rolled_in["prefix"] == prefix
            for o, roll_out in enumerate(POLICIES):
                out = found["searches"][found["views"][number][i][o]]
                finish = example.copy if roll_out == "reference" else example.greedy
                for cell in range(len(prefix)):
                    for row, token in enumerate(found["tokens"]):
                        output = finish([*prefix[:cell], token])
                        assert [*prefix[:cell], token, *out["tails"][cell][row]] == output
                        expected = measure(strip(output, vocab), example.truth)
                        assert out["costs"][cell][row] == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("vocab", [FREE, INSIDE])
def test_the_models_probabilities_are_those_of_single_steps(vocab: Vocabulary) -> None:
    model, batch = make_model(vocab), one_example(make_batch(vocab, (3,)), 0)
    found = explore([Moment("now", 0, model)], batch, choices_for(vocab))
    example = Example(model, batch, 0)
    for rolled_in in found["rolled_in"][0]:
        for cell, logs in enumerate(rolled_in["logs"]):
            scores = example.scores(rolled_in["prefix"][:cell])
            norm = math.log(sum(math.exp(score) for score in scores.values()))
            expected = [scores[token] - norm for token in found["tokens"]]
            assert logs == pytest.approx(expected, abs=1e-4)


def test_equal_searches_are_kept_once_and_coins_do_not_change_in_time() -> None:
    batch = one_example(make_batch(FREE, (4,)), 0)
    model = make_model(FREE)
    choices = choices_for(FREE)
    choices = replace(choices, roll_outs={**choices.roll_outs, "mixed": Mixed(Reference(), 0.5, per="cell")})
    same = explore([Moment("a", 1, model), Moment("b", 2, model)], batch, choices)
    assert same["views"][0] == same["views"][1]
    other = explore([Moment("a", 1, model), Moment("b", 2, make_model(FREE, 5))], batch, choices)
    truths = [other["views"][moment][0][0] for moment in (0, 1)]
    assert truths[0] == truths[1]  # reference roll-in and roll-out do not see the model
    assert other["views"][0][1][1] != other["views"][1][1][1]
    # Each cell of the mixed search is the reference's or the model's.
    for i in range(2):
        reference, learned, mixed = (same["searches"][number]["tails"] for number in same["views"][0][i])
        assert all(row in (a, b) for row, a, b in zip(mixed, reference, learned, strict=True))


def test_of_a_large_vocabulary_what_matters_is_shown() -> None:
    vocab = Vocabulary(size=300, pad=300, bos=301, eos=0)
    model = make_model(vocab)
    batch = one_example(make_batch(vocab, (5,), seed=3), 0)
    choices = replace(choices_for(vocab), tokens=TopTokens(4))
    found = explore([Moment("now", 0, model)], batch, choices)
    rows = found["tokens"]
    assert len(rows) == len(set(rows)) <= MOST_TOKENS
    assert found["hidden_tokens"] == 300 - len(rows)
    shown = {*batch.targets[0].tolist()} - {vocab.pad}
    for rolled_in in found["rolled_in"][0]:
        shown |= {*rolled_in["prefix"]}
        for cell, drawn in enumerate(rolled_in["drawn"]):
            best = max(Example(model, batch, 0).scores(rolled_in["prefix"][:cell]).items(), key=lambda pair: pair[1])[0]
            assert rows.index(best) in drawn
            assert len(drawn) <= 4
    assert shown <= {*rows}
    # The rows come in the order of the cells: the first cell's true token before the last one's.
    assert rows.index(int(batch.targets[0, 0])) < rows.index(vocab.eos)


@pytest.mark.parametrize("sampled", [False, True])
@pytest.mark.parametrize(("loss", "alpha"), [("kl", 0.0), ("kl", 2.5), ("kl", 1000.0), ("ll", 1.0)])
def test_targets_are_what_the_losses_pull_towards(loss: str, alpha: float, sampled: bool) -> None:
    draw = torch.Generator().manual_seed(4)
    costs = torch.randint(0, 3, (1, 6, 5), generator=draw).double()  # with ties
    scores = torch.randn(1, 6, 5, generator=draw, dtype=torch.float64).requires_grad_()
    made = KLLoss(alpha) if loss == "kl" else LogLoss()
    valid = torch.ones_like(costs, dtype=torch.bool)
    if sampled:
        valid[0, torch.arange(6), torch.randint(0, 5, (6,), generator=draw)] = False
    drawn = [row.nonzero().flatten().tolist() for row in valid[0]] if sampled else None
    made(scores, costs, valid).sum().backward()
    assert scores.grad is not None
    own = scores.detach().masked_fill(~valid, -torch.inf).softmax(-1)
    pulled = own - scores.grad  # the gradient of a cross-entropy is probabilities less target
    found = targets_of(costs[0].tolist(), scores.detach().log_softmax(-1)[0].tolist(), loss, alpha, drawn)
    torch.testing.assert_close(torch.tensor(found, dtype=torch.float64), pulled[0])


def test_additive_attention_by_its_formula() -> None:
    model: Any = make_model(FREE, attention="additive", bidirectional=True)
    batch = make_batch(FREE, (4, 2))
    memory = model.encode(batch.inputs)
    found = looked_at(model, memory, batch.targets)
    assert found is not None
    _, trail = model.trace(memory, batch.targets)
    for example, length in enumerate((4, 2)):
        for cell in range(batch.targets.shape[1]):
            query = model.attend.query(trail.hidden[-1][example, cell])
            pulls = [
                model.attend.score(torch.tanh(query + model.attend.key(memory.features[example, place]))).item()
                for place in range(length)
            ]
            weights = torch.tensor(pulls, dtype=torch.float64).softmax(0)
            torch.testing.assert_close(found[example, cell, :length], weights)
            assert found[example, cell, length:].eq(0).all()
    assert looked_at(make_model(FREE), make_model(FREE).encode(batch.inputs), batch.targets) is None


def test_a_transformers_weights_are_those_its_attention_uses(monkeypatch: pytest.MonkeyPatch) -> None:
    model = make_model(FREE, model=Transformer, heads=2, layers=2)
    batch = make_batch(FREE, (4, 2))
    memory = model.encode(batch.inputs)
    found = looked_at(model, memory, batch.targets)
    seen: list[Tensor] = []
    plain = MultiHead.over_sequence

    def watched(self: MultiHead, values: Tensor, kept: Any, mask: Tensor | None) -> Tensor:
        if mask is not None:  # the values that are mixed by the weights are unit vectors: what comes out is the weights
            units = torch.eye(kept.keys.shape[2], dtype=values.dtype).expand(*kept.keys.shape[:2], -1, -1)
            queries = self._split(self.query(values))
            seen.append(functional.scaled_dot_product_attention(queries, kept.keys, units, attn_mask=mask).mean(1))
        return plain(self, values, kept, mask)

    monkeypatch.setattr(MultiHead, "over_sequence", watched)
    model.trace(memory, batch.targets)
    assert len(seen) == 2
    torch.testing.assert_close(found, (seen[0] + seen[1]) / 2)
    assert not any(layer.source_norm._forward_hooks for layer in model.layers)


def test_a_model_of_ones_own_may_say_where_it_looked() -> None:
    class Own(EncoderDecoder):
        def looked_at(self, memory: Any, tokens: Tensor) -> Tensor:
            return torch.full((*tokens.shape, 2), 0.5)

    made: Model = Own(FREE, source_size=7, width=4)
    found = looked_at(made, None, torch.zeros(1, 3, dtype=torch.long))
    assert found is not None
    assert found.shape == (1, 3, 2)


def test_letters_are_kept_bit_by_bit(tmp_path: Path) -> None:
    task = Ocr(path=tiny_letters(tmp_path / "letters.npz"))
    batch = one_example(next(iter(task.test(2))), 0)
    found = describe_inputs(task, batch)
    assert (found["width"], found["height"], len(found["letters"])) == (8, 16, int(batch.lengths[0]))
    for letter, values in zip(found["letters"], batch.inputs.values[0].tolist(), strict=True):
        assert [float(bit) for byte in bytes.fromhex(letter) for bit in f"{byte:08b}"] == values
    assert read_target(task, "dab") == [3, 0, 1]
    with pytest.raises(SearnnError, match="has 'D'"):
        read_target(task, "Dab")


def test_names_and_targets_of_tasks() -> None:
    task = Copy(symbols=3, length=3, examples=20)
    assert [token_name(task, token) for token in (0, 2, 3)] == ["0", "2", "<end>"]
    assert read_target(task, " 2 0 1") == [2, 0, 1]
    with pytest.raises(SearnnError, match="has '7', the outputs of copy are made of 0 1 2"):
        read_target(task, "0 7")
    with pytest.raises(SearnnError, match="--target is empty"):
        read_target(task, "  ")


def test_tasks_with_words_say_how_their_inputs_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pairs = write_lines(tmp_path / "pairs.tsv", ["das haus\tthe house", "haus das\thouse the"])
    text = Pairs(train=[pairs], valid=[pairs], level="words")
    spelling = Spelling(train=[write_lines(tmp_path / "text.txt", ["one two three"] * 30)])
    monkeypatch.setenv("SEARNN_DATA", str(conll_files(tmp_path)))
    chunking = Chunking()
    for task in (text, spelling, chunking):
        assert isinstance(task, NamesSources)
        assert isinstance(task, ReadsTargets)
    tokens = text.read("haus das")
    assert (source_names(text, tokens), show_source(text, tokens)) == (["haus", "das"], "haus das")
    assert text.units(read_target(text, " the house ")) == ["the", "house"]
    tokens = spelling.read("A b")
    assert (source_names(spelling, tokens), show_source(spelling, tokens)) == (["a", " ", "b"], "a b")
    assert spelling.show(read_target(spelling, "A b")) == "a b"
    tokens = chunking.read("The/D cats/N").tolist()
    assert (source_names(chunking, tokens), show_source(chunking, tokens)) == (["the", "cats"], "the cats")
    assert chunking.show(read_target(chunking, "B-NP O")) == "B-NP O"
    copied = Copy(symbols=3, length=3, examples=20)
    assert not isinstance(copied, (NamesSources, ReadsTargets))
    assert show_source(copied, [2, 0, 1]) == "2 0 1"
    assert source_names(copied, [[2, 5], [0, 5]]) == ["2", "0"]
    for task in (text, spelling, chunking):
        with pytest.raises(SearnnError, match="--target is empty"):
            read_target(task, " ")


def test_what_cannot_be_described_is_refused() -> None:
    task = Copy(symbols=3, length=3, examples=20)
    model = make_model(task.vocab)
    choices = Choices({"learned": Learned()}, {"learned": Learned()}, EditDistance())
    batch = next(iter(task.test(2)))
    moments = [Moment("now", 0, model)]
    with pytest.raises(SearnnError, match="2 examples: one is explained at a time"):
        describe(task, moments, batch, choices, Start("learned", "learned"), title="x")
    with pytest.raises(SearnnError, match="roll-in is 'lerned', it must be one of learned"):
        describe(task, moments, one_example(batch, 0), choices, Start("lerned", "learned"), title="x")


def test_rows_are_in_the_order_of_their_names() -> None:
    task = Copy(symbols=12, length=3, examples=20)
    model = EncoderDecoder(task.vocab, source_size=12, width=4)
    batch = one_example(next(iter(task.test(2))), 0)
    choices = Choices({"learned": Learned()}, {"reference": Reference()}, EditDistance(), TopTokens(3))
    made = describe(task, [Moment("now", 0, model)], batch, choices, Start("learned", "reference"), title="x")
    assert [made["names"][token] for token in made["tokens"]] == [*map(str, range(12)), "<end>"]
    plain = explore([Moment("now", 0, model)], batch, choices)
    for cell, costs in enumerate(made["searches"][0]["costs"]):
        by_token = dict(zip(made["tokens"], costs, strict=True))
        assert by_token == dict(zip(plain["tokens"], plain["searches"][0]["costs"][cell], strict=True))
        drawn = {made["tokens"][row] for row in made["rolled_in"][0][0]["drawn"][cell]}
        assert drawn == {plain["tokens"][row] for row in plain["rolled_in"][0][0]["drawn"][cell]}
