"""The decoder's weights as the kernel of whole roll-outs reads them: one padded matrix, in the numbers it multiplies.

All of it multiplies the hidden state. Its rows are those of the gates r, z and n, of the attention's query, and of the
scores, each part padded with zeros to its tiles; so the kernel needs no masks, and its loads are aligned.
"""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator, misc"

from __future__ import annotations

from dataclasses import dataclass

import torch
import triton  # type: ignore
import triton.language as tl  # type: ignore
from jaxtyping import Float
from torch import Tensor

from searnn.fast.gpu.gru_tiles import Product, Sizes

BLOCK = 16  # rows of the packed matrix per program
SCALE = 32.0  # of weights in halves, that the lower ones do not vanish: float16 ends at 6e-8
TYPES = dict.fromkeys(("tf32x3", "ieee", "tf32"), torch.float32) | {"halves": torch.float16, "bf16": torch.bfloat16}


@dataclass(frozen=True)
class Packed:
    """Weights `[parts, total, padded]` (in halves times `SCALE`), and the biases that no other sum contains."""

    weights: Tensor
    biases: Float[Tensor, "N"]


@triton.jit
def _pack(recurrent, recurrent_bias, query, query_bias, scores, score_bias, weights, biases,
          query_rows, score_rows, score_stride, width: tl.constexpr, padded: tl.constexpr, attended: tl.constexpr,
          total: tl.constexpr, columns: tl.constexpr, halves: tl.constexpr, scale: tl.constexpr,
          block: tl.constexpr):  # fmt: skip
    """Some rows of the packed matrix, each from the one of three sources that it belongs to."""
    row = tl.program_id(0) * block + tl.arange(0, block)
    column = tl.arange(0, columns)
    unit = row % padded
    gated = (row < 3 * padded) & (unit < width)
    asking = row - 3 * padded
    asked = (asking >= 0) & (asking < query_rows) & (asking < attended)
    scoring = asking - attended
    scored = (scoring >= 0) & (scoring < score_rows)
    inside = (column < width)[None, :]
    source = row // padded * width + unit
    values = tl.load(recurrent + source[:, None] * width + column[None, :], mask=gated[:, None] & inside, other=0.0)
    values += tl.load(query + asking[:, None] * width + column[None, :], mask=asked[:, None] & inside, other=0.0)
    place = scoring[:, None] * score_stride + column[None, :]
    values += tl.load(scores + place, mask=scored[:, None] & inside, other=0.0)
    # The biases of r and z are in the table of the tokens' gates.
    bias = tl.load(recurrent_bias + source, mask=gated & (row >= 2 * padded), other=0.0)
    bias += tl.load(query_bias + asking, mask=asked, other=0.0)
    bias += tl.load(score_bias + scoring, mask=scored, other=0.0)
    tl.store(biases + row, bias, mask=row < total)
    real = (row < total)[:, None] & (column < padded)[None, :]
    target = weights + row[:, None] * padded + column[None, :]
    if halves:
        # No weight is as large as 65504 / SCALE; if one were, it would be cut here and not become infinite.
        values = tl.minimum(tl.maximum(values * scale, -65504.0), 65504.0)
        upper = values.to(tl.float16)
        tl.store(target, upper, mask=real)
        tl.store(target + total * padded, (values - upper.to(tl.float32)).to(tl.float16), mask=real)
    else:
        tl.store(target, values.to(weights.dtype.element_ty), mask=real)


def pack(
    recurrent: tuple[Tensor, Tensor],
    query: tuple[Tensor, Tensor] | None,
    scores: tuple[Tensor, Tensor],
    sizes: Sizes,
    product: Product,
) -> Packed:
    """Pack the weights and biases of the recurrence, of the attention's query and of the scores, in one launch."""
    weight = recurrent[0]
    parts = 2 if product == "halves" else 1
    weights = torch.empty(parts, sizes.total, sizes.padded, dtype=TYPES[product], device=weight.device)
    biases = torch.empty(sizes.total, dtype=torch.float32, device=weight.device)
    asked, asked_bias = recurrent if query is None else query
    with torch.cuda.device_of(weight):
        _pack[(triton.cdiv(sizes.total, BLOCK),)](
            weight.contiguous(), recurrent[1].contiguous(), asked.contiguous(), asked_bias.contiguous(), scores[0],
            scores[1], weights, biases, 0 if query is None else len(asked), len(scores[0]), scores[0].stride(0),
            width=sizes.width, padded=sizes.padded, attended=sizes.attended, total=sizes.total,
            columns=triton.next_power_of_2(sizes.padded), halves=parts == 2, scale=SCALE, block=BLOCK, num_warps=4,
        )  # fmt: skip
    return Packed(weights, biases)
