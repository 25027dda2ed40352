"""Training: the loop, evaluation by free decoding, checkpoints and records; on one device or on many."""

from searnn.training.checkpoints import load_model
from searnn.training.devices import find_device
from searnn.training.diagnosis import diagnose
from searnn.training.evaluation import evaluate, predict_beams, predict_mbr, predict_tokens
from searnn.training.loop import fit
from searnn.training.progress import Plan, Record, Silent, Watcher
from searnn.training.records import read_records
from searnn.training.settings import TrainingSettings
from searnn.training.state import Outcome
from searnn.training.world import AgreedError, World, joined

__all__ = [
    "AgreedError",
    "Outcome",
    "Plan",
    "Record",
    "Silent",
    "TrainingSettings",
    "Watcher",
    "World",
    "diagnose",
    "evaluate",
    "find_device",
    "fit",
    "joined",
    "load_model",
    "predict_beams",
    "predict_mbr",
    "predict_tokens",
    "read_records",
]
