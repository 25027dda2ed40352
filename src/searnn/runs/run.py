"""Runs in Python: trained with the settings of the command line, opened by their folder, used and looked at."""

from __future__ import annotations

import html
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from pydantic import ValidationError
from rich.console import Console

from searnn.config import Built, Config, build, files, messages, registry, resolve
from searnn.runs.opening import load as open_run
from searnn.runs.folders import is_taken, make_folder, remove_folder
from searnn.runs.opening import SETTINGS, begin_from
from searnn.runs.opening import Run as Opened
from searnn.config.schema import GROUP_OF, grouped
from searnn.reports.logs import telling
from searnn.reports.metrics import Metrics
from searnn.reports.notebook import NotebookLine, in_notebook
from searnn.reports.page import at_end
from searnn.reports.progress import ProgressLine
from searnn.data.batching import unlabelled
from searnn.training import evaluate, find_device, fit, predict_beams, predict_tokens, read_records
from searnn.types import Batch, SearnnError

SPLITS = ("valid", "test")
FILES = ("train", *SPLITS)  # settings that are files
DATA = "data"  # where pairs that were given as lists are kept in a run's folder
Outputs = list[tuple[list[int], float]]  # of one input: tokens and score, best first


@dataclass(frozen=True, repr=False)
class Run(Opened):
    """A trained model with its task, settings and records: `predict`, `evaluate`, `metrics`, `plot`."""

    def predict(self, inputs: Sequence[Any], *, beam: int = 1) -> list[str]:
        """The model's output for each input: a text where the task reads text, else an array of features `[S, F]`."""
        sources = self._sources(inputs)
        found = [outputs for block in self._blocks(sources) for outputs in self.decode(block, beam=beam)]
        return [self.show(*outputs[0]) for outputs in found]

    def n_best(self, inputs: Sequence[Any], n: int, *, beam: int | None = None) -> list[list[tuple[str, float]]]:
        """The `n` best outputs for each input, best first, with their tokens' mean log-probability."""
        width = n if beam is None else beam
        if not 1 <= n <= width:
            raise SearnnError(f"n is {n} and beam {width}: expected an n of at least 1 and a beam at least as wide")
        blocks = self._blocks(self._sources(inputs))
        found = [outputs for block in blocks for outputs in self.decode(block, beam=width, scored=True)]
        return [[(self.show(*output), output[1]) for output in outputs[:n]] for outputs in found]

    def evaluate(self, split: str = "test", *, beam: int = 1) -> dict[str, float]:
        """The task's metrics of the model's free decoding of the validation or the test data."""
        if split not in SPLITS:
            raise SearnnError(f"split is {split!r}, it must be valid or test")
        part = self.task.test if split == "test" else self.task.valid
        return evaluate(self.model, part(self.batch_size), self.task, beam=beam)

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
        """How many examples are decoded together: as many as were trained on together."""
        return self.config.optimisation.batch_size or 1

    def decode(self, sources: Sequence[Any], *, beam: int = 1, scored: bool = False) -> list[Outputs]:
        """The outputs for a block of sources, as the task reads them; scores are 0 where nobody asked for them."""
        batch = self.batch(sources)
        if beam == 1 and not scored:
            return [[(tokens, 0.0)] for tokens in predict_tokens(self.model, [batch])]
        return predict_beams(self.model, [batch], width=beam)

    def show(self, tokens: Sequence[int], score: float = 0.0) -> str:
        """An output as a person reads it; where there are fewer outputs than the beam is wide, the rest are none."""
        return self.task.show(tokens if score > float("-inf") else [])

    def batch(self, sources: Sequence[Any]) -> Batch:
        """The sources as a batch; where the length is free, outputs have the room that the task gives them."""
        if self.task.vocab.eos is None:
            return unlabelled(sources, self.task.vocab)
        lengths = torch.tensor([len(source) for source in sources])
        return unlabelled(sources, self.task.vocab, self.task.cells(lengths).tolist())  # type: ignore[attr-defined]

    def _blocks(self, sources: Sequence[Any]) -> list[Sequence[Any]]:
        return [sources[start : start + self.batch_size] for start in range(0, len(sources), self.batch_size)]

    def _sources(self, inputs: Sequence[Any]) -> list[Any]:
        """The inputs as the task reads them."""
        if isinstance(inputs, (str, bytes)):
            raise SearnnError(f"inputs is one text, {inputs!r}: give a list of texts")
        read = getattr(self.task, "read", None)
        found = []
        for number, given in enumerate(inputs):
            if read is not None and not isinstance(given, str):
                raise SearnnError(f"input {number} is a {type(given).__name__}: {self.task.name} reads texts")
            try:
                found.append(read(given) if read is not None else self._features(given))
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
        facts["model"] = f"{self.config.model.model}, {size:,} parameters"
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


def load(run: str | Path, which: str = "best", device: str = "cpu") -> Run:
    """Open a run by its folder: the best model by the validation metric, or with `which="last"` the last.

    With `average` both are averages of the weights, which is what was evaluated.
    """
    return Run(**vars(open_run(run, which, device)))


def train(task: str, *, run: str | Path | None = None, show: bool = True, **settings: Any) -> Run:
    """Train as `searnn train TASK` does, and open the run with its best model.

    `settings` are the flags of the command line without their dashes, such as `algorithm="mle"` or `steps=1000`. For
    pairs `train`, `valid` and `test` are files, or lists of (source, target), which are kept in the run's folder. Where
    the command line takes `package.module:Name`, a function or class does too. `run` is the folder [runs/TASK-...-N].
    The folder gets its `report.html`. Ctrl-C ends the training; what was best so far is opened, without a report.
    """
    folder = None if run is None else Path(run)
    if folder is not None and is_taken(folder):
        raise SearnnError(f"run is {folder}, which exists already: give another folder, or open it with searnn.load")
    lists: dict[str, Any] = {name: settings[name] for name in FILES if _is_pairs(settings.get(name))}
    named = {name: value if name in lists else _named(name, value) for name, value in settings.items()}
    config = _resolved(task, {**named, **{name: [f"{name}.tsv"] for name in lists}})
    if isinstance(config.run.threads, int):
        torch.set_num_threads(config.run.threads)
    find_device(config.run.device or "auto")
    existed = folder is not None and folder.is_dir()
    place = make_folder(folder, config)
    try:
        for name, pairs in lists.items():
            named[name] = [str(_write_pairs(name, pairs, place / DATA))]
        config = _resolved(task, named)
        files.write(config, place / SETTINGS)
        _fit(config, place, show)
    except BaseException:
        if not any((place / "best").glob("*.json")):
            remove_folder(place, keep=existed)
        raise
    return load(place, device=config.run.device or "auto")


def _fit(config: Config, folder: Path, show: bool) -> None:
    """Build, train, watched from a terminal or a notebook, and write the report."""
    built: Built = build(config)
    if config.optimisation.init_from is not None:
        begin_from(config.optimisation.init_from, config, built.task, built.model)
    shown = show and in_notebook()
    console = Console(stderr=True, quiet=shown or not show)
    watch = NotebookLine() if shown else ProgressLine(console)
    with telling(console):
        outcome = fit(built.model, built.algorithm, built.task, built.settings, folder, cost=built.cost, watch=watch)
    if outcome.stopped != "interrupted":
        say = print if shown else partial(console.print, highlight=False, markup=False, soft_wrap=True)
        at_end(folder, built.task, built.model, say)


def _resolved(task: str, settings: Mapping[str, Any]) -> Config:
    """The complete settings; what is wrong is said by the argument's name."""
    known = [name for name in GROUP_OF if name != "name"]
    for name in settings:
        if name not in known:
            raise SearnnError(f"there is no setting {name!r}{registry.suggestion(name, known)}")
    try:
        given = Config.model_validate(grouped({**settings, "name": task}))
    except ValidationError as error:
        raise SearnnError(messages.sentence(error, str)) from error
    return resolve(given, say=str)


def _named(name: str, value: Any) -> Any:
    """A setting as a file can hold it: paths as text, one file as a list, functions and classes by where they stand."""
    if name in FILES and value is not None:
        paths = [value] if isinstance(value, (str, Path)) else value
        return [str(path) for path in paths]
    if isinstance(value, Path):
        return str(value)
    if callable(value):
        return _importable(name, value)
    return value


def _importable(name: str, value: Callable[..., Any]) -> str:
    place, word = getattr(value, "__module__", None), getattr(value, "__qualname__", "")
    if place is None or not word.isidentifier():
        told = "give a function or class that stands by its name in a module"
        raise SearnnError(f"{name} is {value!r}, which cannot be found again when the run is opened: {told}")
    return f"{place}:{word}"


def _is_pairs(value: Any) -> bool:
    """Whether a part of the data was given as sources and targets, not as files."""
    is_list = isinstance(value, Sequence) and not isinstance(value, str)
    return is_list and len(value) > 0 and not isinstance(value[0], (str, Path))


def _write_pairs(name: str, pairs: Sequence[Any], folder: Path) -> Path:
    """Keep the pairs as a file with tabs, so that the run can be opened again."""
    lines = []
    for number, pair in enumerate(pairs):
        good = isinstance(pair, Sequence) and len(pair) == 2 and all(isinstance(side, str) for side in pair)
        if not good or any(sign in side for side in pair for sign in "\t\n\r\0"):
            told = "expected (source, target), two texts of one line without tabs"
            raise SearnnError(f"{name}[{number}] is {pair!r}: {told}")
        lines.append(f"{pair[0]}\t{pair[1]}\n")
    folder.mkdir(exist_ok=True)
    path = folder / f"{name}.tsv"
    path.write_text("".join(lines), encoding="utf-8")
    return path.resolve()
