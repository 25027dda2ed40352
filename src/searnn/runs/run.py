"""A trained run, opened by its folder: used, measured and looked at."""

from __future__ import annotations

import html
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import nn

from searnn.config import Config, trust
from searnn.config.building import make_cost, make_model, make_task
from searnn.decoding.parts import TOGETHER
from searnn.interfaces import KeepsVocabulary, ReadsLines, Task
from searnn.models import Ensemble
from searnn.reports import outputs
from searnn.reports.headroom import Headroom, Plan
from searnn.reports.metrics import Metrics
from searnn.rng import generator
from searnn.runs.folders import SETTINGS, TEXT, settings_of
from searnn.runs.headroom import headroom_of
from searnn.training import evaluate, find_device, load_model, predict_beams, predict_mbr, predict_tokens, read_records
from searnn.training.checkpoints import step_of
from searnn.training.evaluation import unlabelled_for
from searnn.types import Batch, SearnnError

SPLITS = ("valid", "test")
Outputs = list[tuple[list[int], float]]  # of one input: tokens and score, best first


@dataclass(frozen=True, repr=False)
class Run:
    """A trained model with its task, settings and records: `predict`, `evaluate`, `metrics`, `plot`."""

    config: Config
    task: Task
    model: nn.Module
    folder: Path
    step: int  # the update that the model is of
    trust_code: bool = False  # that its settings name
    members: tuple[Path, ...] = ()  # the folders of an ensemble

    def predict(
        self, inputs: Sequence[Any], *, beam: int = 1, length_penalty: float = 1.0, mbr: int | None = None
    ) -> list[str]:
        """The model's output for each input: a text where the task reads text, else an array of features `[S, F]`.

        With `mbr` it is what minimum-Bayes-risk decoding of so many samples chooses.
        """
        found = self.decode(self._sources(inputs), beam=beam, length_penalty=length_penalty, best=1, mbr=mbr)
        return [self.show(*outputs[0]) for outputs in found]

    def n_best(
        self, inputs: Sequence[Any], n: int, *, beam: int | None = None, length_penalty: float = 1.0
    ) -> list[list[tuple[str, float]]]:
        """The `n` best outputs for each input, best first, with their tokens' mean log-probability."""
        width = n if beam is None else beam
        if not 1 <= n <= width:
            raise SearnnError(f"n is {n} and beam {width}: expected an n of at least 1 and a beam at least as wide")
        asked: dict[str, Any] = {"beam": width, "length_penalty": length_penalty, "scored": True, "best": n}
        found = self.decode(self._sources(inputs), **asked)
        return [[(self.show(*output), output[1]) for output in outputs] for outputs in found]

    def evaluate(self, split: str = "test", *, beam: int = 1, length_penalty: float = 1.0) -> dict[str, float]:
        """The task's metrics of the model's free decoding of the validation or the test data."""
        if split not in SPLITS:
            raise SearnnError(f"split is {split!r}, it must be valid or test")
        self.settings_for(trust.METRIC)
        batches = self.task.test if split == "test" else self.task.valid
        return evaluate(self.model, batches(TOGETHER), self.task, beam=beam, length_penalty=length_penalty)

    def outputs(
        self, split: str = "test", *, beam: int = 1, length_penalty: float = 1.0, mbr: int | None = None
    ) -> outputs.Outputs:
        """What the model writes for the validation or the test data beside the truth, and the task's metrics of it.

        With `mbr` that is what minimum-Bayes-risk decoding of so many samples chooses, by the cost that SEARNN would
        train on with the run's settings.
        """
        self.settings_for(trust.METRIC)
        predict = partial(predict_tokens, beam=beam, length_penalty=length_penalty)
        if mbr is not None:
            predict = self._by_risk(mbr)
        return outputs.collect(self.model, self.task, split, predict=predict)

    def headroom(
        self,
        split: str = "valid",
        *,
        examples: int | None = None,
        samples: int = 64,
        beam: int = 5,
        seed: int = 0,
        tell: Callable[[str], None] = lambda _: None,
    ) -> Headroom:
        """How much better the model could be by its metric, by what, and what SEARNN would gain; docs/headroom.md.

        Decodes `examples` of the split, or without a number as many as take about a minute, and as many of training.
        What was found is kept in the run's folder, where the report finds it; `tell` hears how far it is.
        """
        return headroom_of(self, Plan(split, examples, samples, beam, seed), tell)

    def settings_for(self, *axes: str) -> Config:
        """The settings, the parts of these axes imported that are not searnn's; refused where they are not trusted."""
        if not any(axis in axes for axis, _ in trust.parts(self.config.flat())):
            return self.config
        return settings_of(self.folder, self.trust_code, (*trust.MODEL, *axes))

    @property
    def metrics(self) -> Metrics:
        """What was recorded at each evaluation, as far as it is on the disk now."""
        records = read_records(self.folder / "metrics.jsonl")
        judged: dict[str, Any] = {"metric": self.task.metric, "higher_is_better": self.task.higher_is_better}
        return Metrics(records, **judged, title=str(self.folder))

    def plot(self, *names: str) -> Any:
        """The curves of `metrics.plot`: the metric and the loss, or what is named."""
        return self.metrics.plot(*names)

    @property
    def batch_size(self) -> int:
        """How many examples are decoded together, where they fit in memory."""
        return TOGETHER

    def decode(
        self,
        sources: Sequence[Any],
        *,
        beam: int = 1,
        length_penalty: float = 1.0,
        scored: bool = False,
        best: int | None = None,
        mbr: int | None = None,
    ) -> list[Outputs]:
        """The `best` outputs for each source, as the task reads it, or all of the beam, in the order of the sources.

        With `mbr` it is the one of least risk. Scores are 0 where nobody asked for them. Sources of about equal lengths
        are decoded together.
        """
        order = sorted(range(len(sources)), key=lambda number: len(sources[number]))
        blocks = (order[start : start + TOGETHER] for start in range(0, len(order), TOGETHER))
        batches = (self.batch([sources[number] for number in block]) for block in blocks)
        if mbr is not None:
            found = [[(tokens, 0.0)] for tokens in self._by_risk(mbr)(self.model, batches)]
        elif beam == 1 and not scored:
            found = [[(tokens, 0.0)] for tokens in predict_tokens(self.model, batches)]
        else:
            found = predict_beams(self.model, batches, width=beam, best=best, length_penalty=length_penalty)
        return [outputs for _, outputs in sorted(zip(order, found, strict=True), key=lambda pair: pair[0])]

    def _by_risk(self, samples: int) -> partial[list[list[int]]]:
        """Minimum-Bayes-risk decoding by the cost that SEARNN would train on; the same samples at every call."""
        cost = make_cost(self.settings_for("cost"), self.task)
        return partial(predict_mbr, samples=samples, cost=cost, rng=generator(0, "mbr"))

    def show(self, tokens: Sequence[int], score: float = 0.0) -> str:
        """An output as a person reads it; where there are fewer outputs than the beam is wide, the rest are none."""
        return self.task.show(tokens if score > float("-inf") else [])

    def batch(self, sources: Sequence[Any]) -> Batch:
        """The sources as a batch; where the length is free, outputs have the room that the task gives them."""
        return unlabelled_for(self.task, sources)

    def _sources(self, inputs: Sequence[Any]) -> list[Any]:
        """The inputs as the task reads them."""
        if isinstance(inputs, (str, bytes)):
            raise SearnnError(f"inputs is one text, {inputs!r}: give a list of texts")
        found = []
        for number, given in enumerate(inputs):
            if isinstance(self.task, ReadsLines) and not isinstance(given, str):
                raise SearnnError(f"input {number} is a {type(given).__name__}: {self.task.name} reads texts")
            try:
                found.append(self.task.read(given) if isinstance(self.task, ReadsLines) else self._features(given))
            except (SearnnError, ValueError, TypeError) as error:
                raise SearnnError(f"input {number} is bad: {error}") from error
        return found

    def _features(self, given: Any) -> torch.Tensor:
        values = torch.as_tensor(given, dtype=torch.float32)
        if values.ndim != 2 or not len(values) or values.shape[1] != self.task.features:
            raise SearnnError(f"it has shape {list(values.shape)}, expected [S, {self.task.features}]")
        return values

    def _facts(self) -> dict[str, str]:
        """What there is to say of the run in a few words."""
        size = sum(parameter.numel() for parameter in self.model.parameters())
        facts = {"task": self.task.name, "algorithm": str(self.config.method.algorithm)}
        several = f"{len(self.members)} x " if self.members else ""
        facts["model"] = f"{several}{self.config.model.model}, {size:,} parameters"
        if (best := self.metrics.best) is not None:
            value = f"{best[f'valid_{self.task.metric}']:.4g}"
            facts["best"] = f"validation {self.task.metric} {value} at update {best['step']}"
        return facts

    def __repr__(self) -> str:
        return f"Run({str(self.folder)!r}: {'; '.join(f'{name} {told}' for name, told in self._facts().items())})"

    def _repr_html_(self) -> str:
        facts = {"run": str(self.folder), **self._facts()}
        lines = (f"<tr><th>{name}</th><td>{html.escape(told)}</td></tr>" for name, told in facts.items())
        return f"<table>{''.join(lines)}</table>"


def load(
    run: str | Path | Sequence[str | Path], which: str = "best", device: str = "cpu", *, trust_code: bool = False
) -> Run:
    """Open a run by its folder: the best model by the validation metric, or with `which="last"` the last.

    Several runs of one task and vocabulary are opened as one, whose model is an `Ensemble`; settings and records are
    those of the first.

    With `average` both are averages of the weights, which is what was evaluated. A model, a metric or another part
    that the run names as `package.module:Name` is imported where it is needed, and refused without `trust_code`.
    """
    return opened(run, which, device, trust_code, [trust.METRIC] if trust_code else [])


def opened(
    run: str | Path | Sequence[str | Path], which: str, device: str, trust_code: bool, axes: Collection[str]
) -> Run:
    """Open a run, or several as one, with the model, and with the parts of further axes."""
    folders = [run] if isinstance(run, (str, Path)) else list(run)
    if not folders:
        raise SearnnError("there is no run to open: give the folder of at least one")
    first, *others = [_opened(folder, which, device, trust_code, axes) for folder in folders]
    if not others:
        return first
    for other in others:
        _check_alike(first, other)
    models: list[Any] = [each.model for each in (first, *others)]
    return replace(first, model=Ensemble(models).eval(), members=tuple(each.folder for each in (first, *others)))


def _check_alike(first: Run, other: Run) -> None:
    """Refuse what cannot be a member beside the first run: it reads or writes something else."""

    def reads(run: Run) -> list[Any]:
        task = run.task
        identity = task.identity if isinstance(task, KeepsVocabulary) else None
        return [task.name, task.vocab, task.features, task.source_size, identity]

    kinds = ("task", "vocabulary of the outputs", "width of the inputs", "number of input units", "vocabulary")
    for kind, ours, theirs in zip(kinds, reads(first), reads(other), strict=True):
        if ours != theirs:
            told = f"{other.folder} has another {kind} than {first.folder}"
            raise SearnnError(f"{told}: an ensemble is of runs on the same training data")


def _opened(run: str | Path, which: str, device: str, trust_code: bool, axes: Collection[str]) -> Run:
    """Open one run."""
    if which not in ("best", "last"):
        raise SearnnError(f"which is {which!r}, it must be best or last")
    folder = Path(run)
    place = find_device(device)
    config = settings_of(folder, trust_code, (*trust.MODEL, *axes))
    if not (folder / which).is_dir():
        how = "train it further with --resume" if (folder / "last").is_dir() else "train anew in another folder"
        raise SearnnError(f"{folder} has no checkpoint {which!r}: {how}")
    metric = str(config.optimisation.metric)
    closed = None if trust.METRIC in axes else trust.refusing(folder / SETTINGS, trust.METRIC, metric)
    task = make_task(config, text=folder / TEXT, measure=closed)
    model = make_model(config, task)
    if config.run.precision == "64-true":
        model.to(torch.float64)  # as it was saved: nothing is cast in reading
    meta = load_model(folder / which, model)
    model.to(torch.float64 if config.run.precision == "64-true" else torch.float32)
    if meta.get("identity") != (task.identity if isinstance(task, KeepsVocabulary) else None):
        told = "is not the vocabulary that the model was trained with"
        raise SearnnError(f"{folder / TEXT} {told}: restore it from a copy, or train anew")
    return Run(config, task, model.to(place).eval(), folder, step_of(meta), trust_code)
