"""The configuration: one typed schema, the tasks' recipes, and what is built from them."""

from searnn.config.building import Built, build
from searnn.config.files import from_flags, read, write
from searnn.config.resolving import merge, resolve
from searnn.config.schema import Config

__all__ = ["Built", "Config", "build", "from_flags", "merge", "read", "resolve", "write"]
