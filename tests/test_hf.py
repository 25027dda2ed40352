"""Every family of transformers that is searched: the model's own results, whatever the padding; else it is refused."""

from __future__ import annotations

import warnings

import pytest
import torch
from hugging_face_families import EOS, FAMILIES, FIRST, PAD, SIZE, made, transformers
from torch import Tensor, nn

import searnn
from searnn import Batch, Inputs, Model, Searnn, SearnnError
from searnn.costs import EditDistance
from searnn.decoding import decode
from searnn.hf import CausalLM, EncoderDecoder, wrap
from searnn.hf.samples import sample_inputs
from searnn.losses import KLLoss
from searnn.models.stepping import shift_right
from searnn.policies import Learned

close = torch.testing.assert_close
REFUSED = {
    "SwitchTransformers": "raises ValueError",
    "LED": "scores after forking",
    "ProphetNet": "raises ValueError",
    "Moonshine": "raises AttributeError",
    "Mamba": "raises AttributeError",
}
EXACT = [family for family in FAMILIES if family not in REFUSED]
QUICK = {"LED", "Bart", "M2M100", "Whisper", "BERT2GPT2", "GPT2", "Qwen3"}
CELLS = 6


def marked(families: list[str]) -> pytest.MarkDecorator:
    found = [family if family in QUICK else pytest.param(family, marks=pytest.mark.slow) for family in families]
    return pytest.mark.parametrize("family", found)


families = marked(EXACT)
seeds = pytest.mark.parametrize("seed", [0, 1])


def case(family: str, seed: int) -> tuple[nn.Module, EncoderDecoder | CausalLM, dict[str, Tensor], Tensor]:
    """A model as the library has it and as it is here, inputs of two lengths, and outputs to score."""
    inner = made(family, seed)
    model, rng = wrap(inner, check=False), torch.Generator().manual_seed(seed)
    tokens = torch.randint(3, SIZE, (2, CELLS), generator=rng)
    return inner, model, sample_inputs(model, rng), tokens


def alone(inputs: dict[str, Tensor], number: int) -> dict[str, Tensor]:
    """One example of a batch, a text without its padding."""
    one = {name: value[number : number + 1] for name, value in inputs.items()}
    return {"input_ids": one["input_ids"][one["attention_mask"] == 1].unsqueeze(0)} if "input_ids" in one else one


def on_the_left(inputs: dict[str, Tensor]) -> dict[str, Tensor]:
    """The same texts with their padding before them."""
    if "input_ids" not in inputs:
        return inputs
    order = inputs["attention_mask"].sort(dim=1, stable=True).indices
    return {name: value.gather(1, order) for name, value in inputs.items()}


@families
@seeds
def test_every_way_of_scoring_is_the_models_own(family: str, seed: int):
    """Against one call of the library for each example alone, without a cache and without padding."""
    inner, model, inputs, tokens = case(family, seed)
    assert isinstance(model, Model)
    expected = []
    with torch.no_grad():
        for number, output in enumerate(tokens):
            given = alone(inputs, number)
            if isinstance(model, EncoderDecoder):
                reads = torch.cat([torch.tensor([FIRST]), output[:-1]]).unsqueeze(0)
                found = inner(**given, decoder_input_ids=reads, use_cache=False).logits[0]
            else:
                reads = torch.cat([given["input_ids"], output[:-1].unsqueeze(0)], dim=1)
                found = inner(input_ids=reads, use_cache=False).logits[0, -CELLS:]
            expected.append(found)
        wanted = torch.stack(expected)
        assert wanted.std() > 0.1
        for padded in (inputs, on_the_left(inputs)):
            memory = model.encode(padded)
            traced, trail = model.trace(memory, tokens)
            close(traced, wanted)
            state = model.start(memory)
            for cell, read in enumerate(shift_right(tokens, model.vocab.bos).unbind(1)):
                scores, state = model.step(memory, state, read.unsqueeze(1))
                close(scores.squeeze(1), wanted[:, cell])
            cells = torch.tensor([[0, 3, 1], [2, 0, 3]])
            _, state = model.fork(memory, trail, cells)
            for further in range(2):  # rows of different lengths go on as the outputs do
                scores, state = model.step(memory, state, tokens.gather(1, cells + further))
                close(scores, torch.stack([row[at] for row, at in zip(wanted, cells + further + 1, strict=True)]))


@families
@seeds
def test_greedy_decoding_is_the_librarys_generation(family: str, seed: int):
    inner, model, inputs, tokens = case(family, seed)
    batch = Batch(on_the_left(inputs), tokens, torch.full((2,), CELLS), vocab=model.vocab)
    found = decode(model, batch)
    never = [token for token in (model.vocab.pad, model.vocab.bos) if token < SIZE]
    told = {"num_beams": 1, "do_sample": False, "max_new_tokens": CELLS, "suppress_tokens": never, "pad_token_id": PAD}
    for number in range(2):
        given = alone(inputs, number)
        written = transformers.GenerationMixin.generate(inner, **given, **told)[0]  # Whisper has another of its own
        written = written[1:] if isinstance(model, EncoderDecoder) else written[given["input_ids"].shape[1] :]
        close(found[number, : len(written)], written)
        assert len(written) == CELLS or int(written[-1]) == EOS
        assert (found[number, len(written) :] == PAD).all()


@marked(EXACT)
def test_the_check_lets_pass_what_is_exact(family: str):
    inner = made(family)
    settings = inner.generation_config.to_dict()
    wrap(inner)
    assert inner.generation_config.to_dict() == settings


@marked(list(REFUSED))
def test_what_would_be_wrong_is_refused_when_it_is_made(family: str):
    inner = made(family)
    with pytest.raises(SearnnError, match=f"{type(inner).__name__} cannot be searched exactly: it {REFUSED[family]}"):
        wrap(inner)


WRONG = {"fork": "forking", "step": "step by step", "trace": "a given output"}


@pytest.mark.parametrize("way", WRONG)
@pytest.mark.parametrize("family", ["GPT2", "Bart"])
def test_the_check_notices(family: str, way: str, monkeypatch: pytest.MonkeyPatch):
    kind = CausalLM if family == "GPT2" else EncoderDecoder
    original = getattr(kind, way)

    def wrong(model, memory, *others):
        if way == "fork":
            return original(model, memory, others[0], others[1] * 0)
        if way == "step":
            return original(model, memory, others[0]._replace(seen=(others[0].seen - 1).clamp(min=0)), others[1])
        return original(model, memory, others[0].flip(1))

    monkeypatch.setattr(kind, way, wrong)
    with pytest.raises(SearnnError, match=WRONG[way]):
        wrap(made(family))
    wrap(made(family), check=False)


def test_the_check_notices_what_is_not_a_number_and_another_generation(monkeypatch: pytest.MonkeyPatch):
    broken = made("GPT2")
    with torch.no_grad():
        broken.transformer.wpe.weight.fill_(torch.nan)
    with pytest.raises(SearnnError, match=r"GPT2LMHeadModel cannot be searched exactly: it .* NaN"):
        wrap(broken)
    inner = made("Bart")
    monkeypatch.setattr(
        "searnn.hf.checking._generated", lambda model, inputs: torch.tensor([[5, 6, 7, 8, 9], [9, 8, 7, 6, 5]])
    )
    with pytest.raises(SearnnError, match="other tokens than its generate"):
        wrap(inner)


def test_a_batch_of_a_task_is_read_like_that_of_a_tokenizer():
    for family in ("Bart", "GPT2"):
        _, model, inputs, tokens = case(family, 0)
        as_here = Inputs(inputs["input_ids"], inputs["attention_mask"].sum(1))
        one, two = (model.trace(model.encode(given), tokens)[0] for given in (as_here, {**inputs, "labels": tokens}))
        assert torch.equal(one, two)


def test_a_forced_first_token_is_part_of_the_decoders_prompt():
    """As for mBART and NLLB, whose outputs begin with the language."""
    inner = made("M2M100")
    inner.generation_config.forced_bos_token_id = 7
    model = wrap(inner)
    assert model.prompt == (FIRST, 7)
    inputs, tokens = sample_inputs(model, torch.Generator().manual_seed(0)), torch.full((2, CELLS), 5)
    found = decode(model, Batch(inputs, tokens, torch.full((2,), CELLS), vocab=model.vocab))
    for number in range(2):
        written = inner.generate(
            **alone(inputs, number), num_beams=1, do_sample=False, max_new_tokens=CELLS + 1, suppress_tokens=[PAD]
        )[0]
        assert written[:2].tolist() == [FIRST, 7]
        close(found[number, : len(written) - 2], written[2:])


def test_whisper_takes_a_prompt_of_its_decoder():
    inner = made("Whisper")
    model, rng = wrap(inner, prompt=(2, 11, 12)), torch.Generator().manual_seed(0)
    inputs, tokens = sample_inputs(model, rng), torch.randint(3, SIZE, (2, CELLS), generator=rng)
    reads = torch.cat([torch.tensor([[2, 11, 12]]).expand(2, -1), tokens[:, :-1]], dim=1)
    close(model.trace(model.encode(inputs), tokens)[0], inner(**inputs, decoder_input_ids=reads).logits[:, 2:])


@pytest.mark.parametrize("family", ["GPT2", "Whisper"])
def test_a_step_of_training_moves_the_models_own_weights(family: str):
    inner, model, inputs, tokens = case(family, 0)
    tokens[:, -1] = EOS
    batch = Batch(inputs, tokens, torch.full((2,), CELLS), vocab=model.vocab)
    learn = Searnn(roll_in=Learned(), roll_out=Learned(), cost=EditDistance(), loss=KLLoss(alpha=5))
    learn(model.train(), batch, torch.Generator().manual_seed(0)).loss.backward()
    gradients = [parameter.grad for parameter in inner.parameters() if parameter.grad is not None]
    assert sum(bool(gradient.abs().max() > 0) for gradient in gradients) > 10


def test_gradient_checkpointing_is_refused_where_it_would_lose_the_cache():
    inner, model, inputs, _ = case("Bart", 0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # newer releases have another name
        inner.gradient_checkpointing_enable()
    model.encode(inputs)
    with pytest.raises(SearnnError, match="gradient_checkpointing_disable"):
        model.train().encode(inputs)


def test_what_cannot_be_wrapped_is_refused():
    with pytest.raises(SearnnError, match="a Linear: expected"):
        wrap(nn.Linear(2, 2))
    with pytest.raises(SearnnError, match="prompt is given"):
        wrap(made("GPT2"), prompt=(3,))
    _, model, _, _ = case("GPT2", 0)
    with pytest.raises(SearnnError, match="needs input_ids"):
        model.encode({"pixel_values": torch.zeros(1, 3, 8, 8)})
    with pytest.raises(SearnnError, match="the inputs are a list"):
        model.encode([[1, 2]])


def test_the_old_place_still_works():
    from searnn.adapters.transformers import HuggingFace

    with pytest.warns(DeprecationWarning, match=r"say searnn\.hf\.wrap"):
        assert isinstance(HuggingFace(made("Bart")), EncoderDecoder)


def test_it_can_be_had_without_an_import_of_its_own():
    assert searnn.hf.wrap is wrap
