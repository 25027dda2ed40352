"""The training loop: take a batch, ask the algorithm for a loss, step; evaluate, keep the best, save, stop.

Every batch and every random number is a function of the seed, a name and the step: a run that is stopped and resumed
goes through the same bits as one that never stopped. Under torchrun all ranks run this loop on their share of every
batch; they make the same updates, stop together, and rank 0 writes.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from searnn import engine, rng, schedules
from searnn.decoding.parts import TOGETHER
from searnn.devices import keep_memory, reads_are_free
from searnn.files import remove_folder
from searnn.interfaces import Algorithm, Cost, Fingerprinted, KeepsVocabulary, Signed, Task
from searnn.sealed import RESTORE
from searnn.training import checkpoints
from searnn.training.devices import check_engine, check_precision, find_device, to_device
from searnn.training.diagnosis import diagnose
from searnn.training.evaluation import evaluate
from searnn.training.gradients import check_shards
from searnn.training.interruption import EvaluationStoppedError, interruption, stopping
from searnn.training.learner import Learner
from searnn.training.optimisation import Plateau, is_better, learning_rate
from searnn.training.pace import is_time_to_evaluate, time_gone
from searnn.training.progress import Plan, Record, Silent, Watcher
from searnn.training.records import Records
from searnn.training.saved import RESUMING, Counters
from searnn.training.settings import TrainingSettings
from searnn.training.state import Outcome, check_same_data, check_settings, claim, held
from searnn.training.world import AgreedError, World, joined
from searnn.types import Batch, SearnnError

CHECK_EVERY = 50  # steps between looks at a device that makes the host wait for the answer


def fit(
    model: nn.Module,
    algorithm: Algorithm,
    task: Task,
    settings: TrainingSettings,
    folder: Path,
    *,
    cost: Cost | None = None,
    resume: bool = False,
    is_held: bool = False,
    watch: Watcher | None = None,
) -> Outcome:
    """Train the model on the task; keep the best in `folder/best` and what resuming needs in `folder/last`.

    The model is left as the last step made it, also where the average of its weights is what is kept. `cost` is what
    an algorithm without a search is diagnosed with. Ctrl-C lets the step under way end, saves and returns. Under
    torchrun every process calls this; rank 0 alone tells `watch`. `is_held`: the caller keeps others out of the folder.
    """
    keep_memory()
    with joined() as world, ExitStack() as until_the_end:
        watch = watch if watch is not None and world.first else Silent()
        resuming = world.by_first(lambda: _claim(folder, task, resume, is_held, until_the_end))
        run = _Run(model, algorithm, task, settings, folder, cost, watch, resuming, world)
        try:
            with engine.using(run.engine), interruption() as interrupted:
                stopped = run.train(interrupted)
        finally:
            watch.stop()
            if run.records is not None:
                run.records.close()
    end = run.counters
    per_step = end.training_seconds / end.step if end.step else math.nan
    return Outcome(end.step, end.best_step, end.best_metric, stopped, end.seconds, per_step)


def _claim(folder: Path, task: Task, resume: bool, is_held: bool, until_the_end: ExitStack) -> bool:
    """Whether there is something to resume in the folder; puts there what prediction needs besides the model."""
    if resume and not folder.is_dir():
        raise SearnnError(f"there is no run to resume in {folder}: no such folder; give the folder of a run")
    if not is_held:
        until_the_end.enter_context(held(folder))
    resuming = claim(folder, resume)
    if isinstance(task, KeepsVocabulary):
        if not resuming:
            remove_folder(folder / "text")  # of a start that was killed, perhaps on other data
        task.save(folder / "text")
    return resuming


class _Run:
    """One run of `fit`: everything it works with, and the three things it does (update, evaluate, save)."""

    def __init__(
        self,
        model: nn.Module,
        algorithm: Algorithm,
        task: Task,
        settings: TrainingSettings,
        folder: Path,
        cost: Cost | None,
        watch: Watcher,
        resuming: bool,
        world: World,
    ) -> None:
        self.model, self.algorithm, self.task, self.settings = model, algorithm, task, settings
        self.folder, self.cost, self.watch, self.world = folder, cost, watch, world
        with world.together():
            self.device = find_device(settings.device, world)
            check_precision(self.device, settings.precision)
            self.engine = engine.Engine(settings.engine, settings.search_precision)
            check_engine(self.engine, self.device)
            self.data = task.train(settings.batch_size, settings.seed)
            check_shards(settings, world)
        check_same_data(world, (self.fingerprint(), *self.identity().values()))
        self.learner = Learner(model, algorithm, self.data, settings, world, self.device)
        self.dtype = next(model.parameters()).dtype
        self.counters, self.plateau = Counters(), Plateau()
        self.clock, self.cpu_clock = time.perf_counter(), time.process_time()
        with world.together():
            if resuming:
                self._restore()
        if resuming:
            self.counters.best_metric, self.counters.best_step = world.by_first(self._find_best)
        self.saved_step = self.counters.step
        self.records: Records | None = None
        with world.together():
            if world.first:
                self.records = Records(folder, self.counters.recorded, settings.tensorboard)
        if not resuming:
            self.keep()  # first: once there is something to resume, nothing before it is made again
            self.save()  # so that there is always a checkpoint to return to

    def train(self, interrupted: Callable[[], bool]) -> str:
        """Go on until something ends it; returns what did."""
        settings, counters = self.settings, self.counters
        self.watch.start(Plan(counters.step, settings.steps, settings.minutes, counters.seconds, self.task.metric))
        while (stopped := self._stopped(interrupted)) is None:
            self._follow_time()
            if not counters.due:
                loss = self.update()
                if self._may_look():
                    self._check()
                self._tick(training=True)
                self.keep()
                self.watch.on_step(counters.step, loss, counters.seconds)
                counters.due = settings.eval_every is not None and counters.step % settings.eval_every == 0
            if counters.due and self.evaluate(interrupted):
                self.save()
        if stopped != "interrupted" and counters.recorded != counters.step:
            stopped = stopped if self.evaluate(interrupted) else "interrupted"
            self.save()
        elif self.saved_step != counters.step or stopped == "minutes":  # the last save may have taken the last seconds
            self.save()
        return stopped

    def update(self) -> Tensor:
        """One step of the optimiser; returns the loss, still on the device."""
        step = self.counters.step
        loss = self.learner.update(step, learning_rate(self.settings, step, self.plateau, self.counters.gone))
        self.counters.step += 1
        return loss

    def evaluate(self, interrupted: Callable[[], bool]) -> bool:
        """Decode the validation data freely, record what was found, keep the model if it is the best so far.

        False, and nothing of it, where it was interrupted: it is then still due.
        An evaluation between the regular ones, at the end of training, leaves no trace but its record and the best
        model, so that a run that is later taken further goes on as if it had not been stopped there.
        """
        with self.learner.averaged():
            return self._evaluate(interrupted)

    def _evaluate(self, interrupted: Callable[[], bool]) -> bool:
        settings, counters, task = self.settings, self.counters, self.task
        self._check()
        self._tick(training=True)
        began = counters.seconds
        many = max(settings.batch_size, TOGETHER * self.world.size)
        try:
            batches = stopping(task.valid(many), interrupted)
            metrics = evaluate(self.model, batches, task, beam=settings.beam, device=self.device, world=self.world)
        except EvaluationStoppedError:
            return False
        diagnosis = self.diagnose(list(task.valid(settings.batch_size)))
        spent = counters.training_seconds - counters.seconds_at_record
        self._tick(training=False)
        line = {
            "step": counters.step,
            **{f"valid_{name}": value for name, value in metrics.items()},
            **({"signature": task.signature} if isinstance(task, Signed) and task.signature else {}),
            **self.learner.meter.means(),
            "learning_rate": learning_rate(settings, max(counters.step - 1, 0), self.plateau, counters.gone),
            **diagnosis,
            "steps_per_second": (counters.step - max(counters.recorded, 0)) / spent if spent else math.nan,
            "seconds": counters.seconds,
        }
        metric = metrics[task.metric]
        again = (metric, counters.step) == (counters.best_metric, counters.best_step)  # after a kill before the save
        improved = again or is_better(metric, counters.best_metric, task.higher_is_better)
        record = self.world.by_first(lambda: self._write(line, improved))
        if improved:
            counters.best_metric, counters.best_step = metric, counters.step
        if counters.due:
            counters.due = False
            counters.stale = 0 if improved else counters.stale + 1
            self.plateau.observe(metric, task.higher_is_better, settings)
            counters.recorded, counters.seconds_at_record = counters.step, counters.training_seconds
            counters.seconds_at_evaluation, counters.evaluation_seconds = began, counters.seconds - began
            self.learner.meter.reset()
        self.watch.on_evaluation(record, counters.best_metric, counters.best_step)
        return True

    def diagnose(self, batches: Sequence[Batch]) -> dict[str, float]:
        """The diagnosis of three of the batches, a mean over their examples.

        Batches come in the order of length: three from all over stand for the rest, at little cost. Ranks share them.
        """
        step = self.counters.step
        chosen = sorted({len(batches) * part // 6 for part in (1, 3, 5)})
        examples = sum(len(batches[number].targets) for number in chosen)
        algorithm = schedules.at(self.algorithm, step)
        own: dict[str, Tensor] = {}
        for number in chosen[self.world.rank :: self.world.size]:
            batch = to_device(batches[number], self.device, self.dtype)
            generator = rng.generator(self.settings.seed, "diagnose", step, number)
            found = diagnose(self.model, batch, algorithm, generator, cost=self.cost)  # type: ignore[arg-type]
            for name, value in found.items():
                own[name] = own.get(name, 0) + value * (len(batch.targets) / examples)
        means: dict[str, float] = {}
        for share in self.world.gather({name: float(value) for name, value in own.items()}):
            means = {**means, **{name: means.get(name, 0.0) + value for name, value in share.items()}}
        return means

    def save(self) -> None:
        """Save all that resuming needs."""
        self._check()
        self._tick(training=False)
        self.world.by_first(self._write_state)
        self.saved_step = self.counters.step
        self._tick(training=False)

    def keep(self) -> None:
        """Keep the model as it is now, where that was asked for at this step."""
        step, every = self.counters.step, self.settings.keep_every
        if every is not None and step % every == 0:
            with self.learner.averaged():
                weights = self.learner.weights()
                self.world.by_first(lambda: checkpoints.keep(self.folder, step, weights, self.identity()))
            self._tick(training=False)

    def _write_state(self) -> None:
        meta = {
            "counters": asdict(self.counters),
            "plateau": asdict(self.plateau),
            **self.learner.meta(),
            "settings": asdict(self.settings),
            "data": self.fingerprint(),
            **self.identity(),
        }
        checkpoints.save(self.folder / "last", self.learner.tensors(), meta)

    def _write(self, line: dict[str, Any], best: bool) -> Record:
        """Record an evaluation and keep the model if it is the best so far."""
        assert self.records is not None
        record = self.records.append(line)
        if best:
            checkpoints.save(self.folder / "best", self.learner.weights(), {"record": record, **self.identity()})
        return record

    def identity(self) -> dict[str, Any]:
        """What ties a checkpoint to the task it was made with: its vocabulary, where it has one of its own."""
        return {"identity": self.task.identity if isinstance(self.task, KeepsVocabulary) else None}

    def fingerprint(self) -> str | None:
        """What ties a checkpoint to the data it was trained on, where they say what they are."""
        return self.data.fingerprint if isinstance(self.data, Fingerprinted) else None

    def _restore(self) -> None:
        last = self.folder / "last"
        tensors, meta = checkpoints.load(last)
        if missing := [name for name in RESUMING if meta.get(name) is None]:
            raise SearnnError(f"{last / checkpoints.STATE} is damaged (it has no {missing[0]}): {RESTORE}")
        check_settings(self.settings, meta["settings"], self.folder)
        if meta.get("data") != self.fingerprint():
            told = "the training data is not what it was when the run was stopped"
            raise SearnnError(f"cannot resume {self.folder}: {told}; give it the same data, or train anew")
        self.counters, self.plateau = Counters(**meta["counters"]), Plateau(**meta["plateau"])
        self.learner.restore(tensors, meta, self.counters.step, last)

    def _find_best(self) -> tuple[float | None, int]:
        """The metric and the step of the model in `best/`, which may be ahead of the last save, or lost."""
        counters, best = self.counters, self.folder / "best"
        there = checkpoints.exists(best)
        try:
            record = checkpoints.load(best)[1]["record"]
            return record[f"valid_{self.task.metric}"], record["step"]
        except (SearnnError, KeyError):
            if there or counters.best_metric is not None:
                told = f"the best model, of step {counters.best_step}, is lost: {best}"
                advice = "restore it from a copy, or train on: the next evaluation begins anew"
                engine.log.warning("%s is %s; %s", told, "damaged" if there else "missing", advice)
            return None, 0

    def _stopped(self, interrupted: Callable[[], bool]) -> str | None:
        """What ends the training here, the same on all ranks."""
        settings, counters = self.settings, self.counters
        late = asked = False
        if self.world.size == 1 or counters.due or self._may_look():
            late = settings.minutes is not None and counters.seconds >= 60 * settings.minutes
            late, asked = self.world.any(late, interrupted())
        if counters.due and asked:
            return "interrupted"
        reasons: dict[str, Any] = {
            "steps": settings.steps is not None and counters.step >= settings.steps,
            "patience": settings.patience is not None and counters.stale >= settings.patience,
            "minutes": late,
            "interrupted": asked,
        }
        return next((reason for reason, holds in reasons.items() if holds), None)

    def _follow_time(self) -> None:
        """Let time pass for all that follows it, the same on all ranks."""
        settings, counters = self.settings, self.counters
        if settings.follows_time and self._may_look():
            self._tick(training=True)
            gone, is_time = self.world.by_first(
                lambda: (time_gone(settings, counters), is_time_to_evaluate(settings, counters))
            )
            counters.gone, counters.due = gone, counters.due or (settings.eval_every is None and is_time)

    def _may_look(self) -> bool:
        """Whether the host may wait here for the device and for other ranks."""
        return reads_are_free(self.device) or self.counters.step % CHECK_EVERY == 0

    def _check(self) -> None:
        """Stop where a step's loss or gradient was not finite; the parameters are as they were before that step."""
        bad = self.learner.guard.bad_step()
        if bad is None:
            return
        examples = " ".join(map(str, self.data.batch(bad).ids or ("unknown",)))
        raise AgreedError(
            f"the loss or its gradient is not finite at step {bad}, whose batch has the examples {examples}: "
            f"try a lower lr or clip; the last good checkpoint is {self.folder / 'last'}, of step {self.saved_step}"
        )

    def _tick(self, training: bool) -> None:
        """Move the clock on."""
        now, busy = time.perf_counter(), time.process_time()
        self.counters.cpu_seconds += busy - self.cpu_clock
        self.cpu_clock = busy
        self.counters.seconds += now - self.clock
        self.counters.training_seconds += (now - self.clock) * training
        self.clock = now
