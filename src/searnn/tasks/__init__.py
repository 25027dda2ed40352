"""Tasks: data sets with their vocabulary, their batches and their own metric."""

from searnn.tasks.ocr import Ocr
from searnn.tasks.toy import Copy

__all__ = ["Copy", "Ocr"]
