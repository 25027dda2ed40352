"""Tasks: data sets with their vocabulary, their batches and their own metric."""

from searnn.tasks.chunking import Chunking
from searnn.tasks.copying import Copy
from searnn.tasks.ocr import Ocr
from searnn.tasks.pairs import Pairs
from searnn.tasks.pronunciation import Pronunciation
from searnn.tasks.spelling import Spelling
from searnn.tasks.translation import Translation

__all__ = ["Chunking", "Copy", "Ocr", "Pairs", "Pronunciation", "Spelling", "Translation"]
