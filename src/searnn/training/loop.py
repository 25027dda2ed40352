"""The training loop: take a batch, ask the algorithm for a loss, step; evaluate, keep the best, save, stop.

Every batch and every random number is a function of the seed, a name and the step: a run that is stopped and resumed
goes through the same bits as one that never stopped.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from searnn import rng, schedules
from searnn.algorithms import diagnose
from searnn.devices import keep_memory, reads_are_free
from searnn.interfaces import Algorithm, Cost, Task
from searnn.training import checkpoints
from searnn.training.devices import find_device, make_fabric, to_device
from searnn.training.evaluation import evaluate
from searnn.training.interruption import EvaluationStoppedError, interruption, stopping
from searnn.training.meters import Guard, Meter
from searnn.training.objective import Objective, seeded_work
from searnn.training.optimisation import (
    Plateau,
    is_better,
    learning_rate,
    make_optimizer,
    optimizer_tensors,
    restore_optimizer,
)
from searnn.training.progress import Plan, Silent, Watcher
from searnn.training.records import Records
from searnn.training.settings import TrainingSettings
from searnn.training.state import Counters, Outcome, check_settings, claim
from searnn.types import Batch, SearnnError

DECODED_TOGETHER = 256  # examples, at least: decoding takes little memory, and few large batches are faster
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
    watch: Watcher | None = None,
) -> Outcome:
    """Train the model on the task; keep the best in `folder/best` and what resuming needs in `folder/last`.

    The model is left as the last step made it. `cost` is what an algorithm without a search is diagnosed with. Ctrl-C
    lets the step under way end, saves and returns.
    """
    keep_memory()
    resuming = claim(folder, resume)
    if (save := getattr(task, "save", None)) is not None:  # what prediction needs of the data besides the model
        save(folder / "text")
    watch = watch or Silent()
    run = _Run(model, algorithm, task, settings, folder, cost, watch, resuming)
    try:
        with interruption() as interrupted:
            stopped = run.train(interrupted)
    finally:
        watch.stop()
        run.records.close()
    end = run.counters
    per_step = end.training_seconds / end.step if end.step else math.nan
    return Outcome(end.step, end.best_step, end.best_metric, stopped, end.seconds, per_step)


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
    ) -> None:
        self.model, self.algorithm, self.task, self.settings = model, algorithm, task, settings
        self.folder, self.cost, self.watch = folder, cost, watch
        self.device = find_device(settings.device)
        self.data = task.train(settings.batch_size, settings.seed)
        self.fabric = make_fabric(self.device, settings.precision)
        self.raw_objective = Objective(model, algorithm)
        self.objective = self.fabric.setup_module(self.raw_objective)
        self.objective.train()
        self.raw_optimizer = make_optimizer(settings, self.raw_objective)
        self.optimizer = self.fabric.setup_optimizers(self.raw_optimizer)
        self.dtype = next(model.parameters()).dtype
        self.counters, self.plateau, self.meter = Counters(), Plateau(), Meter(self.device)
        self.clock = time.perf_counter()
        if resuming:
            self._restore()
        self.guard = Guard(self.counters.step, self.device)
        self.saved_step = self.counters.step
        self.records = Records(folder, self.counters.recorded, settings.tensorboard)
        if not resuming:
            self.save()  # so that there is always a checkpoint to return to

    def train(self, interrupted: Callable[[], bool]) -> str:
        """Go on until something ends it; returns what did."""
        settings, counters = self.settings, self.counters
        self.watch.start(Plan(counters.step, settings.steps, settings.minutes, counters.seconds, self.task.metric))
        while (stopped := self._stopped(interrupted)) is None:
            if not counters.due:
                loss = self.update()
                if reads_are_free(self.device) or counters.step % CHECK_EVERY == 0:
                    self._check()
                self._tick(training=True)
                self.watch.on_step(counters.step, loss, counters.seconds)
                counters.due = counters.step % settings.eval_every == 0
            if counters.due and self.evaluate(interrupted):
                counters.due = False
                self.save()
        if stopped != "interrupted" and counters.recorded != counters.step:
            stopped = stopped if self.evaluate(interrupted) else "interrupted"
            self.save()
        elif self.saved_step != counters.step:
            self.save()
        return stopped

    def update(self) -> Tensor:
        """One step of the optimiser; returns the loss, still on the device."""
        settings, step = self.settings, self.counters.step
        for group in self.raw_optimizer.param_groups:
            group["lr"] = learning_rate(settings, step, self.plateau)
        batch = to_device(self.data.batch(step), self.device, self.dtype)
        self.optimizer.zero_grad()
        output, logs = self.objective(seeded_work(batch, settings.seed, step))
        self.fabric.backward(output)
        loss: Tensor = output.detach()
        norm = self.fabric.clip_gradients(
            self.objective, self.optimizer, max_norm=settings.clip or math.inf, error_if_nonfinite=False
        )
        if settings.precision == "16-mixed":  # its scaler skips steps whose gradient overflows: they are no failure
            self.guard.note(loss, loss)
        else:
            self.raw_optimizer.found_inf = self.guard.note(loss, norm)  # type: ignore[attr-defined]
        self.optimizer.step()
        train_logs = {f"train_{name}": value for name, value in logs.items()}
        self.meter.add({**train_logs, "train_loss": loss, "gradient_norm": norm})
        self.counters.step += 1
        return loss

    def evaluate(self, interrupted: Callable[[], bool]) -> bool:
        """Decode the validation data freely, record what was found, keep the model if it is the best so far.

        False, and nothing of it, where it was interrupted: it is then still due.

        An evaluation between the regular ones, at the end of training, leaves no trace but its record and the best
        model, so that a run that is later taken further goes on as if it had not been stopped there.
        """
        settings, counters, task = self.settings, self.counters, self.task
        self._check()
        self._tick(training=True)
        many = max(settings.batch_size, DECODED_TOGETHER)
        try:
            batches = stopping(task.valid(many), interrupted)
            metrics = evaluate(self.model, batches, task, beam=settings.beam, device=self.device)
        except EvaluationStoppedError:
            return False
        diagnosis = self.diagnose(list(task.valid(settings.batch_size)))
        spent = counters.training_seconds - counters.seconds_at_record
        self._tick(training=False)
        record = self.records.append(
            {
                "step": counters.step,
                **{f"valid_{name}": value for name, value in metrics.items()},
                **({"signature": signature} if (signature := getattr(task, "signature", None)) else {}),
                **self.meter.means(),
                "learning_rate": learning_rate(settings, max(counters.step - 1, 0), self.plateau),
                **{name: float(value) for name, value in diagnosis.items()},
                "steps_per_second": (counters.step - max(counters.recorded, 0)) / spent if spent else math.nan,
                "seconds": counters.seconds,
            }
        )
        metric = metrics[task.metric]
        improved = is_better(metric, counters.best_metric, task.higher_is_better)
        if improved:
            counters.best_metric, counters.best_step = metric, counters.step
            meta = {"record": record, **self.identity()}
            checkpoints.save(self.folder / "best", self.raw_objective.state_dict(), meta)
        if counters.step % settings.eval_every == 0:
            counters.stale = 0 if improved else counters.stale + 1
            self.plateau.observe(metric, task.higher_is_better, settings)
            counters.recorded, counters.seconds_at_record = counters.step, counters.training_seconds
            self.meter.reset()
        self.watch.on_evaluation(record, counters.best_metric, counters.best_step)
        return True

    def diagnose(self, batches: Sequence[Batch]) -> dict[str, Tensor]:
        """The diagnosis of three of the batches, a mean over their examples.

        Batches come in the order of length: three from all over stand for the rest, at little cost.
        """
        step = self.counters.step
        chosen = sorted({len(batches) * part // 6 for part in (1, 3, 5)})
        examples = sum(len(batches[number].targets) for number in chosen)
        algorithm = schedules.at(self.algorithm, step)
        means: dict[str, Tensor] = {}
        for number in chosen:
            batch = to_device(batches[number], self.device, self.dtype)
            generator = rng.generator(self.settings.seed, "diagnose", step, number)
            found = diagnose(self.model, batch, algorithm, generator, cost=self.cost)  # type: ignore[arg-type]
            for name, value in found.items():
                means[name] = means.get(name, 0) + value * (len(batch.targets) / examples)
        return means

    def save(self) -> None:
        """Save all that resuming needs."""
        self._check()
        self._tick(training=False)
        tensors = {
            **self.raw_objective.state_dict(),
            **optimizer_tensors(self.raw_optimizer, self.raw_objective),
            **self.meter.tensors(),
        }
        meta = {
            "counters": asdict(self.counters),
            "plateau": asdict(self.plateau),
            "meter": self.meter.counts,
            "scaler": self.fabric.strategy.precision.state_dict(),
            "settings": asdict(self.settings),
            "data": getattr(self.data, "fingerprint", None),
            **self.identity(),
        }
        checkpoints.save(self.folder / "last", tensors, meta)
        self.saved_step = self.counters.step
        self._tick(training=False)

    def identity(self) -> dict[str, Any]:
        """What ties a checkpoint to the task it was made with: its vocabulary, where it has one of its own."""
        return {"identity": getattr(self.task, "identity", None)}

    def _restore(self) -> None:
        last = self.folder / "last"
        tensors, meta = checkpoints.load(last)
        check_settings(self.settings, meta["settings"], self.folder)
        if meta.get("data") != getattr(self.data, "fingerprint", None):
            told = "the training data is not what it was when the run was stopped"
            raise SearnnError(f"cannot resume {self.folder}: {told}; give it the same data, or train anew")
        weights = {name: value for name, value in tensors.items() if name.startswith(("model.", "algorithm."))}
        checkpoints.restore(self.raw_objective, weights, last)
        restore_optimizer(self.raw_optimizer, self.raw_objective, tensors)
        self.counters, self.plateau = Counters(**meta["counters"]), Plateau(**meta["plateau"])
        self.meter.restore(tensors, meta["meter"])
        self.fabric.strategy.precision.load_state_dict(meta["scaler"])

    def _stopped(self, interrupted: Callable[[], bool]) -> str | None:
        settings, counters = self.settings, self.counters
        if counters.due and interrupted():
            return "interrupted"
        reasons: dict[str, Any] = {
            "steps": settings.steps is not None and counters.step >= settings.steps,
            "patience": settings.patience is not None and counters.stale >= settings.patience,
            "minutes": settings.minutes is not None and counters.seconds >= 60 * settings.minutes,
            "interrupted": interrupted(),
        }
        return next((reason for reason, holds in reasons.items() if holds), None)

    def _check(self) -> None:
        """Stop where a step's loss or gradient was not finite; the parameters are as they were before that step."""
        bad = self.guard.bad_step()
        if bad is None:
            return
        ids = self.data.batch(bad).ids
        examples = "unknown" if ids is None else " ".join(map(str, ids))
        raise SearnnError(
            f"the loss or its gradient is not finite at step {bad}, whose batch has the examples {examples}: "
            f"try a lower lr or clip; the last good checkpoint is {self.folder / 'last'}, of step {self.saved_step}"
        )

    def _tick(self, training: bool) -> None:
        """Move the clock on."""
        now = time.perf_counter()
        self.counters.seconds += now - self.clock
        self.counters.training_seconds += (now - self.clock) * training
        self.clock = now
