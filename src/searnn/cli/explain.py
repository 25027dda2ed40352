"""`searnn explain RUN`: what every token costs at every cell of one example, as a page or a picture."""

from __future__ import annotations

import argparse
from copy import deepcopy
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from searnn.cli.places import check_place
from searnn.config import recipes, registry
from searnn.config.building import knowledge, make_algorithm, make_cost
from searnn.config.parser import whole
from searnn.data import sharding
from searnn.data.batching import unlabelled
from searnn.data.sheets import read_letters
from searnn.decoding import decode
from searnn.files import write
from searnn.interfaces import RollIn, RollOut
from searnn.policies import Learned, Mixed, Reference
from searnn.reports.explain import LOSSES, Choices, Moment, Start, describe, draw, make_page, read_target
from searnn.reports.outputs import batches_of
from searnn.runs.opening import Run, load
from searnn.samplers import AllTokens
from searnn.sequences.ends import strip
from searnn.training import checkpoints
from searnn.training.devices import to_device
from searnn.types import Batch, SearnnError

MOST_MOMENTS = 12  # checkpoints in one page: each adds to its size
PLAIN = ("reference", "learned", "mixed")


def add(commands: Any) -> None:
    """Add the command's parser."""
    text = "show what every token costs at every cell of one example, as a page to play with"
    notes = (
        "The page opens without a network; it has the roll-ins, roll-outs and losses to switch between and every "
        "checkpoint that the run kept (searnn train --keep-every N keeps more). Without --target the model's own "
        "output stands in for the truth. --example takes the numbers that the page of searnn report shows: the line of "
        "the file where the data are lines, else they count from 0. Pictures show the view that the page opens with."
    )
    parser = commands.add_parser("explain", help=text, description=text.capitalize() + ".", epilog=notes)
    parser.add_argument("run", metavar="RUN", type=Path, help="folder of the run")
    parser.add_argument("--input", metavar="TEXT", help="the input; ocr: an .npz or .png of letters")
    parser.add_argument("--target", metavar="TEXT", help="the true output [the model's own]")
    told = "example N of the data, as the report numbers them, or of the letters in --input"
    parser.add_argument("--example", metavar="N", type=whole, help=told)
    told = "where --example is: valid or test [test, where there is any]"
    parser.add_argument("--split", choices=["valid", "test"], metavar="NAME", help=told)
    parser.add_argument("--out", metavar="FILE", type=Path, help="write the page here")
    parser.add_argument("--png", metavar="FILE", type=Path, help="write a picture here")
    parser.add_argument("--svg", metavar="FILE", type=Path, help="write a picture here")
    parser.add_argument("--roll-in", metavar="NAME", help="the roll-in shown first [as trained]")
    parser.add_argument("--roll-out", metavar="NAME", help="the roll-out shown first [as trained]")
    losses = list(LOSSES)
    parser.add_argument("--loss", choices=losses, metavar="NAME", help="the loss shown first: kl or ll [as trained]")
    parser.add_argument("--alpha", metavar="X", type=float, help="its weight of the costs [as trained]")
    parser.add_argument("--device", metavar="NAME", default="auto", help="auto, cpu, cuda or cuda:N [auto]")
    parser.set_defaults(command=run, parser=parser)


def run(arguments: argparse.Namespace) -> int:
    """Search from the one example under every choice, and write what was found."""
    places = {flag: path for flag in ("out", "png", "svg") if (path := getattr(arguments, flag)) is not None}
    if not places:
        raise SearnnError("nothing would be written: give --out FILE for a page, --png FILE or --svg FILE")
    for flag, path in places.items():
        check_place(flag, path)
    if arguments.alpha is not None and not 0 <= arguments.alpha < float("inf"):
        raise SearnnError(f"--alpha is {arguments.alpha}, it must be a finite number of at least 0")
    loaded = load(arguments.run, device=arguments.device)
    batch, stands_in = _example(loaded, arguments)
    choices, start, notes = _choices(loaded)
    given = {"roll_in": arguments.roll_in, "roll_out": arguments.roll_out, "loss": arguments.loss}
    start = replace(start, **{name: value for name, value in given.items() if value is not None})
    if arguments.alpha is not None:
        start = replace(start, alpha=arguments.alpha)
    moments, best, left_out = _moments(loaded)
    unknown = knowledge(loaded.task).get("unknown")
    if arguments.target is not None and unknown is not None and unknown in batch.targets[0].tolist():
        told = "the cost takes <unk> for the same, the metric counts no output as right there"
        notes.append(f"The target has what is not in the vocabulary: {told}.")
    if left_out:
        notes.append(f"Of {len(moments) + left_out} checkpoints {len(moments)} are shown.")
    explanation = describe(
        loaded.task, moments, batch, choices, start,
        title=str(arguments.run), stands_in=stands_in, notes=notes, at=best, seed=loaded.config.run.seed or 0,
    )  # fmt: skip
    made = [make_page(explanation).encode() if flag == "out" else draw(explanation, flag) for flag in places]
    for path, content in zip(places.values(), made, strict=True):  # nothing is written before all is there
        write(path, content)
        print(path)
    return 0


def _example(loaded: Run, arguments: argparse.Namespace) -> tuple[Batch, bool]:
    """The example as a batch where the model is, and whether the model's own output stands in for the truth."""
    reads_lines = hasattr(loaded.task, "read")
    if arguments.input is None and arguments.example is None:
        what = "an input with --input TEXT" if reads_lines else "letters with --input FILE"
        raise SearnnError(f"there is nothing to explain: give {what}, or an example of the data with --example N")
    if arguments.input is not None and arguments.split is not None:
        raise SearnnError("--split says where --example is: leave it out with --input")
    if arguments.input is not None and reads_lines and arguments.example is not None:
        raise SearnnError("--input and --example are two inputs: leave one of them out")
    if arguments.input is None:
        batch = _of_data(loaded, arguments.example, arguments.split)
        if arguments.target is not None:
            batch = _with_target(loaded, batch, read_target(loaded.task, arguments.target))
        return _moved(loaded, batch), False
    batch = _of_input(loaded, arguments.input, arguments.example or 0)
    if arguments.target is not None:
        return _moved(loaded, _with_target(loaded, batch, read_target(loaded.task, arguments.target))), False
    batch = _moved(loaded, batch)
    own = strip(decode(loaded.model, batch), loaded.task.vocab)[0]  # type: ignore[arg-type]
    return _moved(loaded, _with_target(loaded, batch, own)), True


def _of_input(loaded: Run, text: str, number: int) -> Batch:
    """A line of text, or word `number` of a file of letters, counted from 0; its targets are PAD."""
    task = loaded.task
    if not hasattr(task, "read"):
        words = read_letters(Path(text))
        if number >= len(words):
            raise SearnnError(f"--example is {number}, {text} has the words 0 to {len(words) - 1}")
        return unlabelled([words[number]], task.vocab)
    try:
        source = task.read(text)
    except SearnnError as error:
        raise SearnnError(f"--input {text!r} is bad: {error}") from error
    if task.vocab.eos is None:
        return unlabelled([source], task.vocab)
    room: Tensor = task.cells(torch.tensor([len(source)]))  # type: ignore[attr-defined]
    return unlabelled([source], task.vocab, room.tolist())


def _of_data(loaded: Run, number: int, split: str | None) -> Batch:
    """The example that the report shows under this number; without a split that of the test data, if there is any."""
    task = loaded.task
    part, batches = batches_of(task, split)
    for numbers, batch in batches:
        if number in numbers:
            return sharding.take(batch, torch.tensor([numbers.index(number)]))
    known = [each for numbers, _ in batches for each in numbers]
    told = f"{len(known)} examples between {min(known)} and {max(known)}" if known else "no examples"
    raise SearnnError(f"--example is {number}, the {part} data has {told}: take a number that the report shows")


def _with_target(loaded: Run, batch: Batch, target: list[int]) -> Batch:
    """The batch with this truth; where outputs end by themselves there is room for it."""
    vocab, room = loaded.task.vocab, batch.limits()[0]
    if vocab.eos is None and len(target) != room:
        raise SearnnError(f"--target has {len(target)} tokens, the input has {room}: expected one for each")
    if vocab.eos is not None:
        target = [*target, vocab.eos]
        room = max(room, len(target))
    targets = torch.full((1, room), vocab.pad, device=batch.targets.device)
    targets[0, : len(target)] = torch.tensor(target)
    return replace(batch, targets=targets, lengths=torch.full_like(batch.lengths, room), host_lengths=(room,))


def _moved(loaded: Run, batch: Batch) -> Batch:
    anchor = next(loaded.model.parameters())
    return to_device(batch.with_vocab(loaded.task.vocab), anchor.device, anchor.dtype)


def _choices(loaded: Run) -> tuple[Choices, Start, list[str]]:
    """What the page offers: the plain policies, and whatever else the run was trained with."""
    config, task = loaded.config, loaded.task
    values, notes = config.flat(), []
    cost = make_cost(config, task)
    algorithm: Any = make_algorithm(config, cost, knowledge(task))
    algorithm = getattr(algorithm, "then", algorithm)  # after its warm-up
    reference = _reference(loaded, algorithm)
    roll_ins: dict[str, RollIn] = {"reference": reference, "learned": Learned()}
    coin = Mixed(reference, 0.5, per="cell")
    roll_outs: dict[str, RollOut] = {"reference": reference, "learned": Learned(), "mixed": coin}
    shown = {"roll_in": "learned", "roll_out": "mixed"}
    for kind, known in (("roll_in", roll_ins), ("roll_out", roll_outs)):
        policy, name = getattr(algorithm, kind, None), values.get(kind)
        if policy is None or name is None:
            continue
        shown[kind] = name
        if isinstance(policy, Mixed) and kind == "roll_out" and policy.per == "example":
            policy = replace(policy, per="cell")  # one coin would make it the reference's or the model's all over
            notes.append("The mixed roll-out has a coin for each cell here; in training one decides for the example.")
        known[name] = policy
    loss: Any = getattr(algorithm, "loss", None)
    name = getattr(loss, "name", "kl")
    if loss is None:
        notes.append(f"The run was trained by {values['algorithm']}: this is what SEARNN would have seen.")
    elif name not in ("kl", "ll", "reverse-kl", "js"):
        notes.append(f"The run was trained with the loss {name}; the page shows the targets of KL and LL.")
    alpha = getattr(loss, "alpha", None)
    if alpha is None:
        chosen = values["cost"] or recipes.default("cost", values)
        normalised = recipes.default("normalised_cost", {**values, "cost": chosen})
        alpha = recipes.default("alpha", {**values, "cost": chosen, "normalised_cost": normalised})
    tokens = getattr(algorithm, "tokens", None)
    sampler = None if tokens is None or isinstance(tokens, AllTokens) else tokens
    start = Start(**shown, loss="ll" if name in ("ll", "llcas", "hinge") else "kl", alpha=float(alpha))
    return Choices(roll_ins, roll_outs, cost, sampler), start, notes


def _reference(loaded: Run, algorithm: Any) -> Reference:
    """The reference that the run was trained with, or that its task would have."""
    for policy in (getattr(algorithm, "roll_out", None), getattr(algorithm, "roll_in", None)):
        found = policy if isinstance(policy, Reference) else getattr(policy, "reference", None)
        if isinstance(found, Reference):
            return found
    values = loaded.config.flat()
    cost = values["cost"] or recipes.default("cost", values)
    name = values["oracle"] or recipes.default("oracle", {**values, "cost": cost})
    return Reference(registry.make("oracle", name, **knowledge(loaded.task)))


def _moments(loaded: Run) -> tuple[list[Moment], int, int]:
    """The models that the run kept, in the order of their steps; the number of the best; how many are left out."""
    folder = loaded.folder
    found: dict[int, list[str]] = {step: [] for step in checkpoints.kept(folder)}
    paths = dict(checkpoints.kept(folder))
    for name in ("best", "last"):
        if checkpoints.exists(folder / name):
            _, meta = checkpoints.load(folder / name)
            step = int(meta["record"]["step"] if name == "best" else meta["counters"]["step"])
            found.setdefault(step, []).append(name)
            paths[step] = folder / name
    steps = sorted(found)
    marked = [step for step in steps if found[step]]
    if len(steps) > MOST_MOMENTS:
        free = MOST_MOMENTS - len(marked)
        others = [step for step in steps if step not in marked]
        spread = {others[place * (len(others) - 1) // (free - 1)] for place in range(free)}
        kept = sorted({*marked, *spread})
    else:
        kept = steps
    moments = []
    for step in kept:
        model = deepcopy(loaded.model)
        checkpoints.load_model(paths[step], model)
        marks = f" ({' and '.join(found[step])})" if found[step] else ""
        moments.append(Moment(f"step {step}{marks}", step, model.eval()))
    best = next(number for number, step in enumerate(kept) if "best" in found[step])
    return moments, best, len(steps) - len(kept)
