"""Encoder-decoders of transformers as models: the contract of every model, the library's own results, training."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from cases import FREE, KNOWN, make_batch
from hugging_face_cases import tiny
from torch.nn import functional
from triple_loop import check

import test_models as contract
from searnn import Batch, Inputs, Mle, Model, Searnn, SearnnError, Vocabulary, search
from searnn.costs import EditDistance
from searnn.decoding import decode
from searnn.hf import EncoderDecoder
from searnn.losses import KLLoss
from searnn.policies import Learned, Mixed, Reference

close = torch.testing.assert_close
NAMES = ["t5", "bart", "marian"]
families = pytest.mark.parametrize("family", NAMES)
vocabs = pytest.mark.parametrize("vocab", [KNOWN, FREE], ids=["known", "free"])
# Of the contract, all that is asked of a model as such: the rest is about the settings of the models here.
SHARED = [
    contract.test_stepping_equals_trace,
    contract.test_forking_and_stepping_equals_trace_of_the_joined_sequence,
    contract.test_padding_and_the_other_examples_change_nothing,
]
ONE_VOCABULARY = [contract.test_row_order_changes_nothing, contract.test_gradients_of_stepping_and_trace_agree]


@pytest.fixture
def cases(monkeypatch: pytest.MonkeyPatch) -> None:
    """The contract's tests are given tiny models of transformers in place of those here."""

    def case(family, vocab, lengths=(5, 3, 1)):
        model = EncoderDecoder(tiny(family, seed=1), vocab)
        return model, make_batch(vocab, lengths, room=1)

    monkeypatch.setattr(contract, "case", case)


@pytest.mark.usefixtures("cases")
@families
@vocabs
@pytest.mark.parametrize("test", SHARED, ids=lambda test: test.__name__.removeprefix("test_"))
def test_it_keeps_the_contract_of_every_model(test, family, vocab):
    test(family, vocab)


@pytest.mark.usefixtures("cases")
@families
@pytest.mark.parametrize("test", ONE_VOCABULARY, ids=lambda test: test.__name__.removeprefix("test_"))
def test_it_keeps_the_rest_of_the_contract(test, family, monkeypatch):
    if test is contract.test_gradients_of_stepping_and_trace_agree:  # parameters that nothing reads get no gradient
        original = contract.case

        def without_unused(family, vocab):
            model, batch = original(family, vocab)
            for parameter in model.parameters():
                parameter.grad = torch.zeros_like(parameter)
            monkeypatch.setattr(model, "zero_grad", partial(model.zero_grad, set_to_none=False))
            return model, batch

        monkeypatch.setattr(contract, "case", without_unused)
    test(family)


@families
def test_what_stands_in_the_padding_changes_nothing_even_where_the_source_is_empty(family):
    model, batch = EncoderDecoder(tiny(family), FREE), make_batch(FREE, (4, 2, 3))
    lengths = torch.tensor([4, 2, 0])
    padding = torch.arange(4) >= lengths.unsqueeze(1)
    found = []
    for value in (0, 5):
        values = batch.inputs.values.masked_fill(padding, value)
        found.append(model.trace(model.encode(Inputs(values, lengths)), batch.targets)[0])
    assert torch.isfinite(found[0]).all()
    assert torch.equal(*found)


@families
def test_embedded_sources_are_read_like_their_tokens(family):
    inner = tiny(family)
    model, batch = EncoderDecoder(inner, FREE), make_batch(FREE, (4, 4))
    encoder = inner.get_encoder()  # Marian scales what it looks up outside its table
    vectors = encoder.embed_tokens(batch.inputs.values) * getattr(encoder, "embed_scale", 1.0)
    embedded = Inputs(vectors.detach(), batch.inputs.lengths)
    found, expected = (model.trace(model.encode(given), batch.targets)[0] for given in (embedded, batch.inputs))
    close(found, expected)


@families
def test_the_scores_are_those_of_the_library(family):
    """Against one call of the library without any cache, for every example alone."""
    inner = tiny(family)
    model, batch = EncoderDecoder(inner, FREE), make_batch(FREE, room=1)
    scores, _ = model.trace(model.encode(batch.inputs), batch.targets)
    for number, length in enumerate(batch.inputs.lengths.tolist()):
        source = batch.inputs.values[number : number + 1, :length]
        target = batch.targets[number].tolist()
        ending = target.index(FREE.eos)
        reads = torch.tensor([[8, *target[:ending]]])  # the model's first token is 8
        expected = inner(input_ids=source, decoder_input_ids=reads, use_cache=False).logits
        close(scores[number, : ending + 1], expected[0, :, : FREE.size])


@families
@pytest.mark.parametrize("start", ["pad", "eos", "own"])
def test_decoding_equals_the_librarys_generation(family, start):
    """T5 and Marian begin with PAD, BART with EOS: neither may end the output or be taken for it."""
    first = {"pad": 8, "eos": 0, "own": 7}[start]
    vocab = Vocabulary(9, pad=8, bos=7 if start == "own" else 9, eos=0)
    lengths = torch.tensor([5, 3, 1])
    values = torch.randint(1, 7, (3, 5), generator=torch.Generator().manual_seed(0))
    values = values.masked_fill(torch.arange(5) >= lengths.unsqueeze(1), 8)
    batch = Batch(Inputs(values, lengths), torch.full((3, 7), 8), torch.full((3,), 7), vocab=vocab)
    told = {"attention_mask": (values != 8).long(), "max_new_tokens": 7, "do_sample": False, "pad_token_id": 8}
    told["bad_words_ids"] = [[8], [7]] if start == "own" else [[8]]  # what is never chosen here
    seen = set()
    for seed in range(5):
        inner = tiny(family, seed=seed, decoder_start_token_id=first)
        model = EncoderDecoder(inner)
        assert model.vocab == vocab
        expected = inner.generate(values, num_beams=1, **told)[:, 1:]
        found = decode(model, batch)
        seen |= set(map(tuple, found.tolist()))
        close(found[:, : expected.shape[1]], expected)
        assert (found[:, expected.shape[1] :] == 8).all()
    assert len(seen) > 3
    assert any(0 in output for output in seen)


@pytest.mark.parametrize(("family", "roll_out"), [("t5", Mixed(per="branch")), ("bart", Learned())], ids=["t5", "bart"])
def test_the_search_equals_the_triple_loop(family, roll_out):
    model = EncoderDecoder(tiny(family, seed=2, spread=1.5), FREE)
    with torch.no_grad():
        found = check(model, make_batch(FREE, (2, 1), room=1), Learned(), roll_out, cost_names=("edit",))
    assert found.costs.max() > 0


@pytest.mark.parametrize("family", ["bart"])
def test_waves_change_nothing(family):
    model, batch = EncoderDecoder(tiny(family, seed=2, spread=1.5), FREE), make_batch(FREE, (3, 4), room=1)
    rng = torch.Generator
    found = [
        search(model, batch, roll_in=Reference(), roll_out=Learned(budget=budget), cost=EditDistance(), rng=rng())
        for budget in (None, 1)
    ]
    assert torch.equal(found[0].outputs, found[1].outputs)


@families
def test_maximum_likelihood_is_cross_entropy_of_the_librarys_scores(family):
    inner = tiny(family)
    model, batch = EncoderDecoder(inner), make_batch(Vocabulary(9, pad=8, bos=9, eos=0), (3, 3))
    ours = Mle(normalisation="cell")(model, batch, torch.Generator()).loss
    ours.backward()
    gradients = [parameter.grad.clone() for parameter in inner.parameters() if parameter.grad is not None]
    inner.zero_grad()
    labels = batch.targets.masked_fill(batch.targets == 8, -100)
    scores = inner(input_ids=batch.inputs.values, labels=labels).logits[..., :8]  # it shifts the labels itself
    theirs = functional.cross_entropy(scores.flatten(0, 1), labels.flatten())  # PAD, the last, is never chosen here
    theirs.backward()
    close(ours, theirs)
    expected = [parameter.grad for parameter in inner.parameters() if parameter.grad is not None]
    assert len(expected) > 10
    for one, two in zip(gradients, expected, strict=True):
        close(one, two)


def test_dropout_is_off_in_the_search_and_on_in_the_gradient_pass():
    model, batch = EncoderDecoder(tiny("t5", dropout_rate=0.5), FREE).train(), make_batch(FREE, (3, 2), room=1)
    assert isinstance(model, Model)
    searnn = Searnn(roll_in=Learned(), roll_out=Learned(), cost=EditDistance(), loss=KLLoss(alpha=5))
    sought = [
        search(model, batch, roll_in=Learned(), roll_out=Learned(), cost=EditDistance(), rng=torch.Generator())
        for _ in range(2)
    ]
    assert torch.equal(sought[0].outputs, sought[1].outputs)
    losses = [searnn(model, batch, torch.Generator()).loss for _ in range(2)]
    assert losses[0] != losses[1]
    assert model.training


def test_what_cannot_be_adapted_is_refused():
    with pytest.raises(SearnnError, match="a Linear: expected an encoder-decoder"):
        EncoderDecoder(torch.nn.Linear(2, 2))
    with pytest.raises(SearnnError, match="decoder_layerdrop is"):
        EncoderDecoder(tiny("bart", decoder_layerdrop=0.5))
    with pytest.raises(SearnnError, match="20 tokens, the model scores 9"):
        EncoderDecoder(tiny("t5"), Vocabulary(20, pad=20, bos=21, eos=0))
    with pytest.raises(SearnnError, match="decoder_start_token_id is 3, an ordinary token"):
        EncoderDecoder(tiny("t5", decoder_start_token_id=3), FREE)
    with pytest.raises(SearnnError, match="pad_token_id is 3, an ordinary token"):
        EncoderDecoder(tiny("t5", pad_token_id=3), FREE)
    with pytest.raises(SearnnError, match="eos_token_id is not set"):
        EncoderDecoder(tiny("t5", eos_token_id=None))


def test_an_output_beyond_the_positions_is_refused():
    model = EncoderDecoder(tiny("bart", max_position_embeddings=8), FREE)
    memory = model.encode(make_batch(FREE, (3,)).inputs)
    with pytest.raises(SearnnError, match="positions for 8 tokens, an output has 9"):
        model.trace(memory, torch.ones(1, 9, dtype=torch.long))
    EncoderDecoder(tiny("t5"), FREE).encode(make_batch(FREE, (3,)).inputs)
