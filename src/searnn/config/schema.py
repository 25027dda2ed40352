"""The one typed configuration, made from the constructors of all that can be chosen and from the training's settings.

Every setting may be left unset (None); `resolve` fills in what the task's recipe says, and only where the setting
applies. pydantic converts and checks what comes from flags and files. Its dataclasses, or jsonargparse, would take the
constructors as they are, but would nest the settings by class (`--loss.init_args.alpha`), know neither what applies
where nor defaults that depend on the task: so names and sections are found here, and pydantic's models made of them.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, create_model

from searnn.config import kinds, registry
from searnn.config.registry import AXES, SEAMS, flag
from searnn.devices import MOST_THREADS
from searnn.settings import PLAIN, Argument, Setting, arguments, expected
from searnn.training import TrainingSettings
from searnn.types import SearnnError

Own = tuple[tuple[str, str], ...]  # parts of the user's own: each an axis and a name
May = Callable[[str, str], bool]  # whether one of them may be imported

SECTIONS = {
    "task": "What is learned, and on which part of the data.",
    "model": "The encoder-decoder.",
    "method": "How it is learned.",
    "search": "Roll in, branch, roll out, cost: the paper's Algorithm 1.",
    "loss": "From costs to a gradient.",
    "optimisation": "Where it starts, steps, step sizes and when to stop.",
    "run": "Where and how it runs.",
}
GIVEN = ("vocab", "features", "source_size", "rng", "tags", "unknown", "text", "progress", "measure")  # by no setting


THREADS = Setting("CPU threads, or auto", ge=1, le=MOST_THREADS, none="auto", section="run")


@dataclass(frozen=True)
class Elsewhere:
    """Settings that belong to no member and not to the training."""

    init_from: Annotated[str | None, Setting("begin with the best model of another run", kind="run")] = None
    threads: Annotated[int | None, THREADS] = None


LOOP = (TrainingSettings, Elsewhere)  # whose settings belong to no axis


@dataclass(frozen=True)
class Declared:
    """A setting of the command line and of files: what it may be, and which arguments it is given to."""

    name: str
    section: str
    help: str
    type: Any  # for pydantic
    expected: str
    choices: tuple[str, ...] = ()
    metavar: str = "NAME"
    setting: Setting = field(default_factory=lambda: Setting(""))
    owners: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # arguments by axis; "" is the training
    inside: Mapping[str, tuple[str, ...]] = field(default_factory=dict)  # arguments that are a member with it
    own: Own = ()  # the user's parts that it belongs to


def chooses(axis: str) -> str:
    """The setting that chooses a member of an axis."""
    return "name" if axis == "task" else axis


def chosen(axis: str, values: Mapping[str, Any]) -> list[str]:
    """The members of an axis that the settings choose."""
    name = values.get(chooses(axis))
    if not isinstance(name, str):
        return []
    return [member for member, _ in kinds.split_tokens(name)] if axis == "tokens" else [name]


def _choice(axis: str) -> Declared:
    """The setting that chooses a member."""
    seam = SEAMS[axis]
    if axis == "task":
        return Declared("name", seam.section, seam.help, str, "a text")
    kind = kinds.tokens if axis == "tokens" else kinds.member(axis)
    kept = Annotated[str, AfterValidator(kind)]
    return Declared(axis, seam.section, seam.help, kept, kind.expected, kind.choices, kind.metavar)


def _declared(found: list[tuple[str, Argument, Setting]], section: str, own: Own = ()) -> Declared:
    """A setting that one or more arguments have, each found on an axis: it may be what any of them may be."""
    _, first, setting = found[0]
    words = [word for _, argument, mark in found for word in mark.choices or argument.choices]
    least = min((mark.ge for *_, mark in found if mark.ge is not None), default=None)
    argument, setting = replace(first, choices=tuple(dict.fromkeys(words))), replace(setting, ge=least, choices=())
    kept, told, metavar = _kept(argument, setting)
    owners: dict[str, tuple[str, ...]] = {}
    for axis, each, _ in found:
        owners[axis] = tuple(dict.fromkeys((*owners.get(axis, ()), each.name)))
    inside = {axis: tuple(dict.fromkeys(_handed_on(axis, each))) for axis, each, _ in found}
    name = setting.name or argument.name
    return Declared(name, section, setting.help, kept, told, argument.choices, metavar, setting, owners, inside, own)


def _kept(argument: Argument, setting: Setting) -> tuple[Any, str, str]:
    """The type for pydantic, what may be given in words, and a letter or a word for it."""
    kept: Any = Literal[argument.choices] if argument.choices else argument.type
    told, metavar = expected(argument, setting), {int: "N", float: "X"}.get(argument.type, "NAME")
    kind = kinds.KINDS.get(setting.kind) or (kinds.scheduled(argument, setting) if setting.schedule else None)
    if kind is not None:
        plain: Any = int | str if setting.whole else float | str if setting.schedule else str
        kept = Annotated[list[str] if setting.kind == "files" else plain, AfterValidator(kind)]
        told, metavar = kind.expected, kind.metavar
    elif setting.bounds:
        bounds: dict[str, Any] = {**setting.bounds}
        kept = Annotated[kept, Field(**bounds)]
    if setting.none:
        return Literal[setting.none] | kept, f"{setting.none} or {told}", metavar
    return kept, told, metavar


def _handed_on(axis: str, argument: Argument) -> Iterator[str]:
    """Arguments of other members that are a member with this argument: a mixed roll-out has a learned one inside."""
    members = AXES.get(axis, {}).values()
    for other in (one for member in members for one in arguments(member).values()):
        if other.type in members and arguments(other.type).get(argument.name) == argument:
            yield other.name


def _found() -> Iterator[tuple[str, str, Argument, Setting]]:
    """The arguments of all that is here and has a flag: section, axis, argument, setting."""
    for axis, seam in SEAMS.items():
        for argument in (one for member in AXES[axis].values() for one in arguments(member).values()):
            if (setting := argument.setting(axis)) is not None and setting.public:
                yield setting.section or seam.section, axis, argument, setting
    for argument in (one for maker in LOOP for one in arguments(maker).values()):
        if (setting := argument.setting()) is not None and setting.public:
            yield setting.section or "optimisation", "", argument, setting


def _all() -> dict[str, Declared]:
    """Every setting, section by section: those of its own axes, then what stands there beside them."""
    by_name: dict[str, list[tuple[str, Argument, Setting]]] = {}
    sections: dict[str, str] = {}
    for section, axis, argument, setting in _found():
        name = setting.name or argument.name
        by_name.setdefault(name, []).append((axis, argument, setting))
        sections.setdefault(name, section)
    items = {chooses(axis): _choice(axis) for axis in SEAMS}
    items |= {name: _declared(found, sections[name]) for name, found in by_name.items()}
    places = list(SEAMS)

    def place(item: Declared) -> tuple[int, bool, int]:
        axes = [axis for axis in SEAMS if chooses(axis) == item.name] or [axis for axis in item.owners if axis]
        at_home = [axis for axis in axes if SEAMS[axis].section == item.section]
        axis = next(iter(at_home or axes), None)
        return list(SECTIONS).index(item.section), axes != [] and not at_home, places.index(axis) if axis else -1

    return {item.name: item for item in sorted(items.values(), key=place)}


DECLARED: dict[str, Declared] = _all()
GROUP_OF: dict[str, str] = {name: item.section for name, item in DECLARED.items()}
NAMES: dict[str, dict[str, str]] = {  # the setting of an argument, by axis
    axis: {argument: item.name for item in DECLARED.values() for argument in item.owners.get(axis, ())}
    for axis in ("", *SEAMS)
}


class Group(BaseModel):
    """A section of the configuration: nothing unknown, nothing infinite, nothing changed afterwards."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, protected_namespaces=())


def _group(section: str, items: Iterable[Declared]) -> type[Group]:
    """The model of a section."""
    made: dict[str, Any] = {
        item.name: (item.type | None, Field(default=None, description=item.help))
        for item in items
        if item.section == section
    }
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a user's argument may be called like a method of pydantic
        return create_model(f"{section.capitalize()}Group", __base__=Group, __doc__=SECTIONS[section], **made)


GROUPS: dict[str, type[Group]] = {section: _group(section, DECLARED.values()) for section in SECTIONS}
if TYPE_CHECKING:
    from typing import Any as LossGroup
    from typing import Any as MethodGroup
    from typing import Any as ModelGroup
    from typing import Any as OptimisationGroup
    from typing import Any as RunGroup
    from typing import Any as SearchGroup
    from typing import Any as TaskGroup
else:
    TaskGroup, ModelGroup, MethodGroup, SearchGroup, LossGroup, OptimisationGroup, RunGroup = GROUPS.values()


class Config(Group):
    """Every setting of a run, in groups; the names are unique over all groups."""

    declared: ClassVar[Mapping[str, Declared]] = DECLARED
    own: ClassVar[Own] = ()  # the user's parts whose arguments are settings too
    task: TaskGroup = Field(default_factory=GROUPS["task"])
    model: ModelGroup = Field(default_factory=GROUPS["model"])
    method: MethodGroup = Field(default_factory=GROUPS["method"])
    search: SearchGroup = Field(default_factory=GROUPS["search"])
    loss: LossGroup = Field(default_factory=GROUPS["loss"])
    optimisation: OptimisationGroup = Field(default_factory=GROUPS["optimisation"])
    run: RunGroup = Field(default_factory=GROUPS["run"])

    def flat(self) -> dict[str, Any]:
        """All settings by name, unset ones as None, in the order of the groups."""
        return {name: getattr(getattr(self, item.section), name) for name, item in self.declared.items()}


def own_parts(values: Mapping[str, Any]) -> Own:
    """The parts of the user's own among the settings."""
    return tuple((axis, name) for axis in SEAMS for name in chosen(axis, values) if registry.is_own(name))


def schema(values: Mapping[str, Any], own: Own = (), closed: Own = ()) -> type[Config]:
    """The configuration that has these settings by name: with those of the user's own parts where one is not known.

    Parts that are `closed` are not imported, so theirs are none.
    """
    parts = tuple(part for part in dict.fromkeys((*own, *own_parts(values))) if part not in closed)
    return extended(parts) if any(name not in DECLARED for name in values) else Config


@cache
def extended(own: Own) -> type[Config]:
    """The configuration with the arguments of the user's own parts as settings of the same section as the part's."""
    by_name: dict[str, list[tuple[str, Argument, Setting, Own]]] = {}
    for axis, name in own:
        for argument, setting in _own_settings(axis, name):
            entry = (axis, argument, setting, ((axis, name),))
            public = setting.name or argument.name
            others = by_name.setdefault(public, [])
            if public in DECLARED or any(SEAMS[other].section != SEAMS[axis].section for other, *_ in others):
                told = f"a setting of [{GROUP_OF.get(public) or SEAMS[others[0][0]].section}]: rename the argument"
                raise SearnnError(f"{flag(axis)} {name} takes {public!r}, which is already {told}")
            others.append(entry)
    if not by_name:
        return Config
    items = [
        _declared([entry[:3] for entry in found], SEAMS[found[0][0]].section, tuple(one for *_, [one] in found))
        for found in by_name.values()
    ]
    in_order = sorted((*DECLARED.values(), *items), key=lambda item: list(SECTIONS).index(item.section))
    groups = {item.section: _group(item.section, in_order) for item in items}
    made: dict[str, Any] = {section: (group, Field(default_factory=group)) for section, group in groups.items()}
    found_type = create_model("Config", __base__=Config, **made)
    found_type.declared, found_type.own = {item.name: item for item in in_order}, own
    return found_type


def _own_settings(axis: str, name: str) -> Iterator[tuple[Argument, Setting]]:
    """The arguments of a part of the user's own that are a number, a word or marked, and that no setting has yet."""
    maker = registry.find(axis, name)
    if axis == "cost" and not isinstance(maker, type):  # a plain function is the cost itself
        return
    for argument in arguments(maker).values():
        setting = argument.setting(axis)
        if setting is None and argument.type in PLAIN:
            setting = Setting(f"of {name}")
        taken = argument.name in (*NAMES[axis], *GIVEN) or argument.name.startswith("_")
        if setting is not None and setting.public and not taken:
            yield argument, setting


def names(axis: str, name: str) -> dict[str, str]:
    """The settings that a member of an axis takes, by argument."""
    taken = {
        argument: NAMES[axis][argument] for argument in arguments(registry.find(axis, name)) if argument in NAMES[axis]
    }
    own = _own_settings(axis, name) if registry.is_own(name) else ()
    return taken | {argument.name: setting.name or argument.name for argument, setting in own}


def grouped(values: Mapping[str, Any], known: Mapping[str, Declared] = DECLARED) -> dict[str, dict[str, Any]]:
    """Settings by name put under their groups; unset ones are left out."""
    sections: dict[str, dict[str, Any]] = {}
    for name, value in values.items():
        if value is not None:
            sections.setdefault(known[name].section, {})[name] = value
    return sections


def validated(values: Mapping[str, Any], own: Own = ()) -> Config:
    """The configuration with these settings, checked."""
    kind = schema(values, own)
    return kind.model_validate(grouped(values, kind.declared))
