"""The doctor's look at the course of a run: does it learn, does it go on learning, and what does it spend time on?"""

from __future__ import annotations

from itertools import pairwise
from statistics import fmean, median_high

from searnn.reports.doctor.findings import DROPOUT, Check, Finding, listed, unset
from searnn.reports.numbers import number, percent
from searnn.reports.recorded import VALID, Recorded, in_words

FEW = 3  # evaluations below which nothing can be said
START = 5  # evaluations after which something should have moved
STILL = 0.02  # of the metric: less than that is no movement
STALE = 8  # evaluations without a better model, at least
GROWN = 0.3  # of what the loss has fallen
LOST = 0.5  # of what the metric has gained
OVERFIT = 1.2  # validation loss over its lowest
SLOW = 0.6  # of the speed at first
CLIPPED = 5.0  # mean norm of the gradient over the norm it is cut to
VANISHED = 1e-6
RESTLESS = 5  # evaluations in the second half
JUMP = 0.08  # of the best value
TIRED = 0.01  # of the first learning rate
TIRED_WAYS = {  # where the schedule has a lowest rate
    **dict.fromkeys(("linear", "cosine"), "Stop here, or set --min-lr higher."),
    "plateau": "Stop here, set --min-lr higher, or cut it less (--plateau-factor, --plateau-patience).",
}
BUSY = 0.5  # share of the time that goes into training


def not_finite(run: Recorded) -> Finding | None:
    """Something that was recorded was not a number."""
    names = ["train_loss", "gradient_norm", "teacher_forced_loss", "free_running_loss"]
    names += [VALID + run.metric] if run.metric is not None else []
    for record in run.records:
        bad = next((name for name in names if name in record and record[name] is None), None)
        if bad is not None:
            return Finding(
                "not-finite", "warning", f"{in_words(bad)} was not finite at step {record['step']}",
                "An infinite or undefined number means that the weights or the scores have become too large.",
                "Lower --lr (by 10 to begin with) or --clip, use --lr-warmup 1000, and do without 16-mixed.",
            )  # fmt: skip
    return None


def few_evaluations(run: Recorded) -> Finding | None:
    """Too little to judge by."""
    count = len(run.records)
    if count >= FEW:
        return None
    told = ("is no evaluation", "is one evaluation", f"are {count} evaluations")[count]
    return Finding(
        "few-evaluations", "note", f"There {told} so far, too little to judge by",
        "Most of what can go wrong shows in how things move from evaluation to evaluation.",
        "Wait, train longer, or evaluate more often with --eval-every.",
    )  # fmt: skip


def stuck_at_start(run: Recorded) -> Finding | None:
    """The metric has not moved since the first evaluation."""
    values = [value for _, value in run.judged]
    if len(values) < START or max(values) - min(values) > STILL * max(abs(values[0]), 1e-12):
        return None
    if _perfect(run, values[0]):
        return None
    falling = _falls(run.values("train_loss"))
    losses = "the loss does fall, so it learns something: give it time" if falling else "nor does the loss fall"
    remedy = (
        "Train longer first; if it stays, a finer cost or a larger --lr may help."
        if falling
        else "Try --lr ten times larger and ten times smaller; begin with --algorithm mle to see that the data can be "
        "learned at all."
    )
    return Finding(
        "stuck-at-start", "warning", f"{in_words(str(run.metric))} has not moved in {len(values)} evaluations",
        f"It was {number(values[0])} at first and is {number(values[-1])} now; {losses}.", remedy,
    )  # fmt: skip


def stale(run: Recorded) -> Finding | None:
    """No better model for a long time, while the metric holds."""
    best, judged = run.best, run.judged
    if best is None or stuck_at_start(run) or collapsed(run) or overfitted(run):
        return None
    if run.since_best < max(STALE, len(judged) / 3) or _perfect(run, best[1]):
        return None
    constant = run.setting("schedule", "constant") == "constant"
    lower = "Use --schedule plateau, which lowers the learning rate when nothing improves" if constant else (
        "The learning rate is being lowered already; a larger model or more data is the next thing to try"
    )  # fmt: skip
    return Finding(
        "stale", "note", f"No better model since step {best[0]:,}",
        f"{run.since_best} of {len(judged)} evaluations came after it. "
        "The best model is kept, so nothing is lost but time.",
        f"{lower}; or end such runs with --patience {STALE}.",
    )  # fmt: skip


def still_improving(run: Recorded) -> Finding | None:
    """The run ended while it was getting better."""
    best, judged = run.best, run.judged
    if best is None or len(judged) < START or stuck_at_start(run):
        return None
    before = [value for step, value in judged if step < judged[-1][0]][-FEW]
    if best[0] != judged[-1][0] or abs(best[1] - before) <= STILL * max(abs(before), 1e-12):
        return None
    return Finding(
        "still-improving", "note", "The last model is the best: it was still getting better",
        f"{in_words(str(run.metric))} went from {number(before)} to {number(best[1])} in the last {FEW} evaluations.",
        "If the run has ended, go on with --resume and more --steps or --minutes; where the step size fell to its end "
        "(--schedule cosine or linear), train anew with more --steps.",
    )  # fmt: skip


def collapsed(run: Recorded) -> Finding | None:
    """The metric was good once and has got much worse."""
    best, judged = run.best, run.judged
    if best is None or len(judged) < START:
        return None
    first, last = judged[0][1], fmean(value for _, value in judged[-2:])
    gained, lost = abs(best[1] - first), abs(last - best[1])
    if not lost or lost < LOST * gained or lost < STILL * max(abs(best[1]), abs(first)):
        return None
    return Finding(
        "collapsed", "warning", f"{in_words(str(run.metric))} was better and has got much worse",
        f"It was {number(best[1])} at step {best[0]:,} and is {number(last)} now. Training on a cost, or with a large "
        "learning rate, can leave a good place and not come back.",
        f"The best model is kept. {_calmer(run)}.",
    )  # fmt: skip


def _calmer(run: Recorded) -> str:
    """Smaller steps, and what stops in time, as far as the run has not had them."""
    ways = ["lower --lr"]
    ways += ["use --schedule plateau"] if run.setting("schedule", "constant") == "constant" else []
    ways += ["give --patience to stop in time"] if run.setting("patience") in (None, "none") else []
    ways += ["give a smaller --alpha"] if run.setting("alpha") not in (None, "auto") else []
    return listed(ways, "or").capitalize()


def growing_loss(run: Recorded) -> Finding | None:
    """The training loss rises."""
    column = run.column("train_loss")
    if len(column) < START:
        return None
    values = [value for _, value in column]
    step, lowest = min(column, key=lambda pair: pair[1])
    fallen, risen = values[0] - lowest, fmean(values[-2:])
    if risen - lowest < GROWN * max(fallen, 0.1 * abs(lowest)) or not values[-1] > values[-3]:
        return None
    return Finding(
        "growing-loss", "warning", "The training loss rises",
        f"It was {number(lowest)} at step {step:,} and is {number(values[-1])} now. Where the roll-in changes with the "
        "model, or a schedule changes the algorithm, the loss may rise for a while; else the steps are too large.",
        "If the metric gets worse too, lower --lr or --clip.",
    )  # fmt: skip


def overfitted(run: Recorded) -> Finding | None:
    """The loss on validation data rises while that on training data falls."""
    valid, train = run.column("teacher_forced_loss"), run.values("train_loss")
    if len(valid) < START or not _falls(train[len(train) // 2 :]) or run.best is None:
        return None
    step, lowest = min(valid, key=lambda pair: pair[1])
    now = fmean(value for _, value in valid[-2:])
    if now < OVERFIT * lowest or run.since_best < FEW:
        return None
    return Finding(
        "overfitted", "warning", "The model learns the training data by heart",
        f"The training loss still falls, but the loss on validation data was {number(lowest)} at step {step:,} and is "
        f"{number(now)} now, and no better model was found for {run.since_best} evaluations.",
        _against_overfitting(run),
    )  # fmt: skip


def _against_overfitting(run: Recorded) -> str:
    """What the run has not had yet comes first."""
    dropout, patience = run.setting("dropout"), run.setting("patience")
    has_dropout = isinstance(dropout, (int, float)) and dropout >= DROPOUT
    more = [f"raise --dropout above {number(dropout)}" if has_dropout else f"add --dropout {DROPOUT}"]
    more += ["raise --weight-decay" if run.setting("weight_decay") else "add --weight-decay"]
    more += ["make the model smaller (--width)", "give it more data"]
    more += ["stop earlier with --patience"] if patience in (None, "none") else []
    return f"{listed(more, 'or').capitalize()}."


def restless(run: Recorded) -> Finding | None:
    """The metric jumps from evaluation to evaluation."""
    values = [value for _, value in run.judged][len(run.judged) // 2 :]
    best = run.best
    if len(values) < RESTLESS or best is None or not best[1] or collapsed(run):
        return None
    moves = [after - before for before, after in pairwise(values)]
    ups, downs = sum(move for move in moves if move > 0), -sum(move for move in moves if move < 0)
    jump = 2 * min(ups, downs) / len(moves)
    if jump < JUMP * abs(best[1]):
        return None
    steps = [*unset(run), "a smaller --lr"]
    return Finding(
        "restless", "note", f"{in_words(str(run.metric))} jumps from evaluation to evaluation",
        f"In the second half it goes up and down by {number(jump)} on average, its best value is {number(best[1])}: "
        "which model is kept is partly luck, and it will do worse on other data than it did here.",
        f"Give {listed(steps, 'or')}; or more validation data.",
    )  # fmt: skip


def gradient(run: Recorded) -> Finding | None:
    """Gradients that are nearly always cut, or that have vanished."""
    norm, clip = run.mean("gradient_norm", FEW), run.setting("clip")
    if norm is None or len(run.records) < FEW:
        return None
    if norm < VANISHED:
        return Finding(
            "no-gradient", "warning", "There is no gradient: nothing is learned any more",
            f"Its norm is {norm:.1e}: all costs of a cell are equal, or the scores have grown so large that the "
            "softmax does not move.",
            "Look at the share of equal costs; if it is low, begin anew with a smaller --lr.",
        )  # fmt: skip
    if isinstance(clip, (int, float)) and norm > CLIPPED * clip:
        return Finding(
            "clipped", "note", f"Nearly every step is cut: the gradient is {number(norm / clip)} times --clip",
            f"Its norm is {number(norm)} on average and is cut to {number(clip)}: the length of a step is then given "
            "by --lr and --clip alone, not by how wrong the model is.",
            "Often harmless. If learning is slow raise --clip, if it is restless lower --lr.",
        )  # fmt: skip
    return None


def tired_rate(run: Recorded) -> Finding | None:
    """The learning rate has become so small that nothing changes."""
    rates = run.values("learning_rate")
    if len(rates) < START or run.since_best < FEW or max(rates) <= 0 or rates[-1] > TIRED * max(rates):
        return None
    return Finding(
        "tired-rate", "note", f"The learning rate has fallen to {rates[-1]:.1e}: hardly anything changes any more",
        f"It began at {max(rates):.1e}, and the last {run.since_best} evaluations brought no better model.",
        TIRED_WAYS.get(str(run.setting("schedule")), "Stop here, or begin anew with a larger --lr."),
    )  # fmt: skip


def slower(run: Recorded) -> Finding | None:
    """Steps take longer than they did."""
    speeds = run.values("steps_per_second")[1:]  # the first evaluation's has the warm-up in it
    third = len(speeds) // 3
    if third < 2:
        return None
    before, now = median_high(speeds[:third]), median_high(speeds[-third:])
    if now > SLOW * before:
        return None
    return Finding(
        "slower", "note", f"It has become slower: {number(now)} steps a second, at first {number(before)}",
        "Outputs that have grown longer take longer to roll out; another program on the machine does it too.",
        "See whether the machine is shared; if outputs are too long, look at the worst examples."
        + (" --cells uniform with --n-cells bounds the work of a step." if run.setting("cells") is not None else ""),
    )  # fmt: skip


def evaluations_cost(run: Recorded) -> Finding | None:
    """More time goes into evaluation than into training."""
    steps = [(record["step"], record.get("steps_per_second"), record.get("seconds")) for record in run.records]
    if len(steps) < FEW or not steps[-1][2] or any(not speed for _, speed, _ in steps):
        return None
    spans = zip(steps, [(0, None, None), *steps[:-1]], strict=True)
    training = sum((step - before) / speed for (step, speed, _), (before, _, _) in spans if speed)
    share = training / steps[-1][2]
    if share > BUSY:
        return None
    return Finding(
        "evaluations-cost", "note", f"Only {percent(share)} of the time goes into training",
        "The rest is spent on evaluation and saving.", "Raise --eval-every.",
    )  # fmt: skip


def _falls(values: list[float]) -> bool:
    """Whether the second half lies clearly below the first."""
    half = len(values) // 2
    return half > 0 and (first := fmean(values[:half])) - fmean(values[half:]) > STILL * abs(first)


def _perfect(run: Recorded, value: float) -> bool:
    return value == 0 and not run.higher_is_better


CHECKS: tuple[Check, ...] = (
    not_finite, stuck_at_start, collapsed, growing_loss, overfitted, restless, gradient, stale, tired_rate,
    still_improving, slower, evaluations_cost, few_evaluations,
)  # fmt: skip
