"""The doctor's look at the signal: do the costs teach anything, and does the model live on its own prefixes?"""

from __future__ import annotations

from math import exp

from searnn.reports.doctor.findings import Check, Finding, listed, unset
from searnn.reports.headroom.words import BY_HEART, seen
from searnn.reports.numbers import number, percent
from searnn.reports.recorded import Recorded

LOOKED_AT = 3  # evaluations at the end: one alone may be an accident
FLAT = 0.5  # share of cells with equal costs
UNIFORM, ONE_HOT = 1.0, 300.0  # alpha times the spread of a cell's costs
GAP = 0.3  # nats per token
SURE = 0.05  # entropy over loss, on the model's own prefixes
LOST = 0.5  # share of cells in which the truth is not the cheapest
EDITED = 0.5  # edits of a perturbed target for each token of the truth


def flat_costs(run: Recorded) -> Finding | None:
    """Most cells have candidates that all cost the same."""
    share = run.mean("equal_cost_share", LOOKED_AT)
    if share is None or share < FLAT:
        return None
    cost = run.setting("cost")
    if cost is None:
        return Finding(
            "flat-costs", "note", f"{percent(share)} of cells have equal costs",
            "In such a cell every next token leads to the same cost. This run does not learn from costs, but one that "
            "does would learn little here.",
            "Before you train on it by --algorithm searnn, choose one that tells bad from worse, such as --cost edit.",
        )  # fmt: skip
    finer = "choose a cost that also tells bad from worse, such as --cost edit"
    remedies = {
        "exact": finer,
        "bleu": "try --cost gleu or --cost edit, which move with every word, or start from an MLE model",
        "chunk-f1": "try --cost hamming, which moves with every tag",
    }
    remedy = remedies.get(str(cost), finer if cost not in ("edit", "hamming") else "")
    sampled = run.setting("tokens") not in (None, "all")
    more = [remedy] if remedy else []
    ways = "--k, or --tokens all" if run.setting("k") is not None else "--tokens all"
    more += [f"cost more candidates ({ways}): those of a cell may be too much alike"] if sampled else []
    by_reference = "end outputs by the reference more often (--roll-out mixed or reference), so that one token matters"
    more += [by_reference] if run.setting("roll_out") is not None else []
    return Finding(
        "flat-costs", "warning", f"{percent(share)} of cells have equal costs: the metric gives no signal there",
        "Whatever token is chosen in such a cell, the finished output costs the same, so nothing can be learned from "
        "it.",
        _sentence("; or ".join(more or ["train longer: a better model's outputs differ more in what they cost"])),
    )  # fmt: skip


def alpha(run: Recorded) -> Finding | None:
    """Targets that are almost uniform, or almost one token."""
    weight, spread = run.setting("alpha"), run.mean("cost_spread", LOOKED_AT)  # auto looks after itself
    kind = str(run.setting("loss"))
    if not isinstance(weight, (int, float)) or spread is None or spread == 0 or "kl" not in kind:
        return None
    product = weight * spread
    seen = f"alpha is {number(weight)} and the costs of a cell differ by {number(spread)} on average"
    if product < UNIFORM:
        return Finding(
            "alpha-small", "warning", "The targets are almost uniform: alpha is too small for these costs",
            f"{seen}: the dearest token still gets {percent(exp(-product))} of the cheapest one's weight, "
            "so the model is taught to have no opinion.",
            f"Raise --alpha to about {number(10 / spread)}, or use --loss ll, which takes the cheapest token alone.",
        )  # fmt: skip
    if product > ONE_HOT:
        return Finding(
            "alpha-large", "note", "The targets are almost one token each: alpha is very large for these costs",
            f"{seen}: all weight goes to the cheapest token, as with --loss ll, and small differences between costs "
            "count as much as large ones.",
            f"Try --alpha {number(10 / spread)} to {number(100 / spread)}, or say --loss ll.",
        )  # fmt: skip
    return None


def exposure(run: Recorded) -> Finding | None:
    """The model is much worse on its own prefixes than on true ones."""
    forced, free = (run.mean(name, LOOKED_AT) for name in ("teacher_forced_loss", "free_running_loss"))
    if forced is None or free is None or free - forced < max(GAP, forced):
        return None
    roll_in = run.setting("roll_in")
    if run.setting("cost") is None:
        settings = unset(run)
        first = f"First give {listed(settings)}, which close a part of it; then train" if settings else "Train"
        remedy = f"{first} with --algorithm searnn (its roll-in is the model's own), from this model if you like."
    elif roll_in == "reference":
        remedy = "Use --roll-in learned or mixed: with reference roll-ins it never sees its own mistakes in training."
    else:
        remedy = (
            "Train longer. Where outputs end by themselves a part of the gap stays: after a token too many or too "
            "few, the truth no longer stands at the same position."
        )
    return Finding(
        "exposure", "warning", "The model is much worse on its own prefixes than on true ones",
        f"The true token costs {number(free)} nats after what the model itself wrote, {number(forced)} after the "
        "truth: it has not learned to go on after a mistake (exposure bias).",
        remedy,
    )  # fmt: skip


def sure_and_wrong(run: Recorded) -> Finding | None:
    """Hardly any entropy while the loss on own prefixes is high."""
    entropy, free = (run.mean(name, LOOKED_AT) for name in ("entropy", "free_running_loss"))
    if entropy is None or free is None or free < 1.0 or entropy > SURE * free:
        return None
    loss, smoothed = run.setting("loss"), run.setting("label_smoothing")
    softer = "Lower --lr"
    if loss is not None:
        softer = f"{'Lower --alpha' if 'kl' in str(loss) else 'Use --loss kl'}, and lower --lr"
    elif smoothed is not None:
        softer = f"{'Raise --label-smoothing' if smoothed else 'Add --label-smoothing 0.1'}, and lower --lr"
    return Finding(
        "sure-and-wrong", "warning", "The model is sure of itself and often wrong",
        f"Its distribution has an entropy of only {number(entropy)} nats, yet the true token costs it "
        f"{number(free)}: it has collapsed to few answers.",
        f"{softer}; then look at the worst examples for the answer that returns.",
    )  # fmt: skip


def truth_not_cheapest(run: Recorded) -> Finding | None:
    """Roll-outs make something of other tokens more often than of the true one."""
    share = run.mean("cheapest_not_true_share", LOOKED_AT)
    if share is None or share < LOST or run.setting("roll_out") is None:
        return None
    by_model = run.setting("roll_out") in ("learned", "sampled")
    return Finding(
        "truth-not-cheapest", "note", f"In {percent(share)} of cells another token than the true one is the cheapest",
        "After such roll-ins the truth at that position is often no longer the best way on, which is right; but a "
        "model that cannot end outputs well gives the same picture.",
        "Use --roll-out mixed, so that the reference ends some of the outputs."
        if by_model
        else "Watch that the share falls; if the metric does not improve, use an oracle that looks at what was written "
        "(--oracle optimal-edit or best-suffix).",
    )  # fmt: skip


def edits(run: Recorded) -> Finding | None:
    """Targets of RAML that have little left of the truth."""
    share = run.mean("train_edited_share", LOOKED_AT)
    if share is None or share <= EDITED:
        return None
    return Finding(
        "edited-away", "warning", f"The perturbed targets have {number(share)} edits for every token of the truth",
        "More than half of a target is then drawn at random, and says little of the truth. At one temperature there "
        "are the more edits the larger the vocabulary is.",
        "Use --tau auto, which follows from the vocabulary, or a smaller one.",
    )  # fmt: skip


def by_heart(run: Recorded) -> Finding | None:
    """`searnn headroom` has found that a search on the training data sees few of the mistakes on new data."""
    found = run.headroom
    if found is None or not found.judged.visible or (sees := seen(found.judged, found.train)) > BY_HEART:
        return None
    weight, smoothing = run.setting("cross_entropy_weight"), run.setting("label_smoothing")
    if run.setting("cost") is None:
        remedy = "Expect little from --algorithm searnn; more data would do more."
    elif weight == 0:
        remedy = (
            "Add --cross-entropy-weight 1 and --label-smoothing 0.1; else it is as good as maximum likelihood at best."
        )
    elif smoothing == 0:
        remedy = "Add --label-smoothing 0.1: it gains most where there is little to learn from costs."
    else:
        remedy = "Expect little more than from maximum likelihood; more data would do more."
    return Finding(
        "by-heart", "note", f"A search on the training data sees {percent(sees)} of the mistakes",
        f"The model errs at {percent(found.train.visible, 1)} of the cells of training data and at "
        f"{percent(found.judged.visible, 1)} of new data: where it makes no mistake, costs say what the truth says.",
        remedy,
    )  # fmt: skip


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + "."


CHECKS: tuple[Check, ...] = (flat_costs, alpha, exposure, sure_and_wrong, truth_not_cheapest, edits, by_heart)
