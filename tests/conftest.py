"""Shapes in signatures are checked while testing; tests run on one thread unless they say otherwise."""

from jaxtyping import install_import_hook

# Whole numbers may be given where a float is asked for, as everywhere in Python.
install_import_hook("searnn", "beartype.beartype(conf=beartype.BeartypeConf(is_pep484_tower=True))")

import torch  # noqa: E402

torch.set_num_threads(1)
