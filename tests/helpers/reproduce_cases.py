"""A small table in place of the paper's: a toy stands for the data."""

from searnn.jobs.experiments import Table, TableRow

TOY = "--steps 20 --eval-every 10 --width 8 --examples 40 --device cpu"
PLAN = Table(
    title="A table",
    unit="%",
    scale=100,
    columns={"MLE": "mle", "KL, learned": "searnn --loss kl --roll-out learned"},
    rows={
        "Copy": TableRow("copy", TOY, "--steps 10", {"MLE": 12.5}),
        "Reversed": TableRow("copy", f"{TOY} --reverse", own={"KL, learned": "--alpha 7"}),
    },
)
