"""Products inside kernels: in which numbers their operands are multiplied. Sums are always in float32."""

# mypy: disable-error-code="no-untyped-def, no-untyped-call, untyped-decorator, misc"

from __future__ import annotations

import torch
import triton  # type: ignore
import triton.language as tl  # type: ignore
from torch import Tensor

from searnn.fast.host import interpreted

# "tf32x3" is float32 in three products of the tensor cores: as exact as "ieee", which does without them.
PRODUCTS = {"float32": "tf32x3", "tf32": "tf32", "bf16": "bf16"}


@triton.jit
def multiply(left, right, total, product: tl.constexpr):
    """`total + left @ right`."""
    if product == "bf16":
        total = tl.dot(left.to(tl.bfloat16), right.to(tl.bfloat16), total)
    elif product == "rounded":
        left, right = left.to(tl.bfloat16).to(tl.float32), right.to(tl.bfloat16).to(tl.float32)
        total = tl.dot(left, right, total, input_precision="ieee")
    else:
        total = tl.dot(left, right, total, input_precision=product)
    return total


def product_of(precision: str) -> str:
    """The product for an engine's precision. Triton's interpreter cannot multiply in bfloat16: it only rounds so."""
    product = PRODUCTS.get(precision, precision)
    return "rounded" if product == "bf16" and interpreted() else product


def stored_as(product: str) -> torch.dtype:
    """How operands of this product are kept: in 16 bits where it takes no more."""
    return torch.bfloat16 if product in ("bf16", "rounded") else torch.float32


def operand(values: Tensor, product: str) -> Tensor:
    """The values as kernels read them for this product."""
    return values.detach().to(stored_as(product)).contiguous()
