"""The options of a job as a table, read from their types, and options as they are gathered from several places."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from types import MappingProxyType
from typing import Annotated, Any, Literal, NamedTuple, cast, get_args, get_origin, get_type_hints

from clusterkit.words import durations
from clusterkit.words.job import Duration, JobOptions, JobSpec, Option, Options, Path, TaskOptions
from clusterkit.words.model import Program, ProgramKind


class Kind(enum.Enum):
    """How the value of an option is written."""

    SWITCH = enum.auto()
    NUMBER = enum.auto()
    DURATION = enum.auto()
    TEXT = enum.auto()
    PATH = enum.auto()
    CHOICE = enum.auto()
    TEXTS = enum.auto()
    VARIABLES = enum.auto()


_KINDS: Mapping[Any, Kind] = {
    bool: Kind.SWITCH,
    int: Kind.NUMBER,
    Duration: Kind.DURATION,
    str: Kind.TEXT,
    Path: Kind.PATH,
    Sequence[str]: Kind.TEXTS,
    str | Sequence[str]: Kind.TEXTS,
    Mapping[str, object]: Kind.VARIABLES,
}
_ANY = Option("")
_BARE = JobSpec(Program(ProgramKind.SCRIPT, ""), {})  # for its defaults


@dataclass(frozen=True, slots=True)
class Entry:
    """An option with its name and kind, and the values of a choice."""

    name: str
    kind: Kind
    about: Option = _ANY
    choices: tuple[str | int, ...] = ()

    @property
    def key(self) -> str:
        """In a job file."""
        return self.name.replace("_", "-")

    @property
    def flag(self) -> str:
        """On the command line."""
        return f"--{self.key}"

    @property
    def default(self) -> str:
        """As the help shows it; empty where there is nothing to show."""
        value = attrgetter(self.about.field)(_BARE) if self.about.field else None
        if self.about.default or not (value or self.kind is Kind.DURATION):
            return self.about.default
        if self.kind is Kind.DURATION:
            return durations.compact(value) if value else "off"
        return "yes" if value is True else str(value)


def _entries(options: type) -> Mapping[str, Entry]:
    hints = get_type_hints(options, include_extras=True)
    return MappingProxyType({name: _entry(name, hint) for name, hint in hints.items()})


def _entry(name: str, hint: Any) -> Entry:
    hint, about = get_args(hint) if get_origin(hint) is Annotated else (hint, _ANY)
    choices = get_args(hint) if get_origin(hint) is Literal else ()
    return Entry(name, Kind.CHOICE if choices else _KINDS[hint], about, choices)


OPTIONS = _entries(Options)
TASK_OPTIONS = _entries(TaskOptions)


class Gathered(NamedTuple):
    """Options that can be used, the problems with the others, and the names of the others."""

    options: JobOptions
    problems: Sequence[str] = ()
    wrong: frozenset[str] = frozenset()


def merged(below: Gathered, above: Gathered) -> Gathered:
    """Both together. What is right above makes up for what is wrong below, which is a problem all the same.

    Single values replace each other, environments merge; a program given anew has its own arguments.
    """
    over = above.options
    gone = ("program", "module", "args") if "program" in over or "module" in over else ()
    options = cast(JobOptions, {name: value for name, value in below.options.items() if name not in gone} | over)
    if env := {**below.options.get("env", {}), **over.get("env", {})}:
        options["env"] = env
    wrong = above.wrong | (below.wrong - over.keys())
    return Gathered(options, [*above.problems, *below.problems], wrong)
