"""Shapes in signatures are checked while testing; tests run on one thread unless they say otherwise."""

from jaxtyping import install_import_hook

install_import_hook("searnn", "beartype.beartype")

import torch  # noqa: E402

torch.set_num_threads(1)
