"""The check of a model of transformers when it is made: what it gives here must be what it gives by itself."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor

from searnn import tree
from searnn.hf.decoder import Decoder
from searnn.hf.encoder_decoder import EncoderDecoder
from searnn.hf.samples import sample_inputs
from searnn.models.modes import evaluating
from searnn.types import SearnnError

CELLS = 5  # of the outputs that are tried
FORKED = (1, 3)
TOLERANCE = {torch.float64: 1e-6, torch.float32: 1e-3}  # of the spread of the scores; coarser types have 0.1


@torch.no_grad()
def check_model(model: Decoder) -> None:
    """Refuse a model whose scores here are not those of its own forward pass, or not those it generates by."""
    try:
        with evaluating(model):
            found = _first_difference(model)
    except SearnnError:
        raise
    except Exception as error:  # whatever another library's model does with what it does not know
        lines = str(error).splitlines() or [""]
        found = f"raises {type(error).__name__}: {lines[0]}"
    if found:
        raise SearnnError(f"{type(model.model).__name__} cannot be searched exactly: it {found}")


def _first_difference(model: Decoder) -> str | None:
    rng = torch.Generator().manual_seed(0)
    device = next(model.parameters()).device
    inputs = tree.map_leaves(lambda leaf: leaf.to(device), sample_inputs(model, rng))
    padded = _on_other_side(inputs)
    choosable = torch.tensor(model.vocab.choosable)
    tokens = choosable[torch.randint(len(choosable), (2, CELLS), generator=rng)].to(device)
    expected = _own_scores(model, inputs, tokens)
    near = TOLERANCE.get(expected.dtype, 0.1) * float(expected.double().std().clamp(min=1e-3))

    memory = model.encode(inputs)
    traced, trail = model.trace(memory, tokens)
    shifted, _ = model.trace(model.encode(padded), tokens)
    state, stepped = model.start(memory), []
    reads = torch.cat([torch.full_like(tokens[:, :1], model.vocab.bos), tokens[:, :-1]], dim=1)
    for read in reads.unbind(1):
        scores, state = model.step(memory, state, read.unsqueeze(1))
        stepped.append(scores)
    cells = torch.tensor(FORKED, device=device).expand(2, -1)
    # A row forked before cell c reads the token of that cell: it scores the next one.
    after = model.step(*model.fork(memory, trail, cells), tokens.gather(1, cells))[0]
    compared = {
        "scores a given output": (traced, expected),
        "scores a given output after padding on the other side": (shifted, expected),
        "scores step by step": (torch.cat(stepped, dim=1), expected),
        "scores after forking": (after, expected[:, [cell + 1 for cell in FORKED]]),
    }
    for what, (one, other) in compared.items():
        if not torch.isfinite(one).all():
            return f"{what} with NaN or infinity"
        difference = float((one.double() - other.double()).abs().max())
        if difference > near:
            return f"{what} {difference:.2g} away from its own forward pass, where {near:.1g} is rounding"
    written = _generated(model, inputs)
    scores, _ = model.trace(memory, written)
    scores[..., [token for token in (model.vocab.pad, model.vocab.bos) if token < model.vocab.size]] = -torch.inf
    behind = scores.max(-1).values - scores.gather(-1, written.unsqueeze(-1)).squeeze(-1)
    if behind.max() > near:
        return f"writes other tokens than its generate(num_beams=1), of scores {float(behind.max()):.2g} higher"
    return None


def _on_other_side(inputs: dict[str, Tensor]) -> dict[str, Tensor]:
    """The same text with its padding on the left in place of the right."""
    if "input_ids" not in inputs:
        return inputs
    ends = inputs["attention_mask"].sum(1).tolist()
    return {
        name: torch.stack([row.roll(len(row) - end) for row, end in zip(value, ends, strict=True)])
        for name, value in inputs.items()
    }


def _own_scores(model: Decoder, inputs: dict[str, Tensor], tokens: Int[Tensor, "B T"]) -> Float[Tensor, "B T V"]:
    """By one call of the model without any cache; of a causal model for each prompt alone."""
    if isinstance(model, EncoderDecoder):
        prompt = torch.tensor(model.prompt, device=tokens.device).expand(len(tokens), -1)
        reads = torch.cat([prompt, tokens[:, :-1]], dim=1)
        scores = model.model(**inputs, decoder_input_ids=reads, use_cache=False).logits[:, prompt.shape[1] - 1 :]
        return scores[..., : model.vocab.size]  # type: ignore[no-any-return]
    found = []
    for alone, output in zip(_alone(inputs), tokens, strict=True):
        read = torch.cat([alone["input_ids"], output[:-1].unsqueeze(0)], dim=1)
        found.append(model.model(input_ids=read, use_cache=False).logits[:, -CELLS:, : model.vocab.size])
    return torch.cat(found)


def _generated(model: Decoder, inputs: dict[str, Tensor]) -> Int[Tensor, "B T"]:
    """What the library writes greedily, where nothing but the model's scores counts."""
    from transformers import GenerationConfig, GenerationMixin

    size, vocab = model.model.get_output_embeddings().weight.shape[0], model.vocab
    never = [token for token in (vocab.pad, vocab.bos) if token < vocab.size]
    never += range(vocab.size, size)
    settings = GenerationConfig(
        max_new_tokens=CELLS, num_beams=1, do_sample=False, suppress_tokens=never or None,
        pad_token_id=model.filling, use_cache=True,
    )  # fmt: skip
    begin: dict[str, Any] = {}
    if isinstance(model, EncoderDecoder):
        prompt = torch.tensor(model.prompt, device=next(model.parameters()).device)
        begin["decoder_input_ids"] = prompt.expand(2, -1)
        settings.decoder_start_token_id = model.prompt[0]
    given = [inputs] if begin else _alone(inputs)
    with _generation_by(model.model, settings):
        written = [GenerationMixin.generate(model.model, **each, **begin)[:, -CELLS:] for each in given]
    return torch.cat(written)


def _alone(inputs: dict[str, Tensor]) -> list[dict[str, Tensor]]:
    """Every prompt by itself, without padding: some models fail at it."""
    masks = inputs["attention_mask"].bool()
    return [{"input_ids": ids[mask].unsqueeze(0)} for ids, mask in zip(inputs["input_ids"], masks, strict=True)]


@contextmanager
def _generation_by(inner: Any, settings: Any) -> Iterator[None]:
    """The model's own settings of generation may forbid, force or end: here they must not."""
    own = copy.deepcopy(inner.generation_config)
    inner.generation_config = settings
    try:
        yield
    finally:
        inner.generation_config = own
