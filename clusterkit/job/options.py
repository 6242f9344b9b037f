"""The table of options, made from their types, and the options that were gathered from flags and job files."""

from __future__ import annotations

import enum
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from types import MappingProxyType
from typing import Annotated, Any, Literal, NamedTuple, cast, get_args, get_origin, get_type_hints

from clusterkit.engines.options import OPTIONS_OF, EngineOptions, HostOptions
from clusterkit.text import durations
from clusterkit.words import options as words
from clusterkit.words.job import JobSpec
from clusterkit.words.model import Program, ProgramKind, TaskType
from clusterkit.words.options import Duration, Option, Path, TaskOptions


class Options(
    words.ShapeOptions,
    words.ProcessOptions,
    words.RestartOptions,
    words.TimeOptions,
    words.RunOptions,
    words.FaultOptions,
    words.LibraryOptions,
    words.DeviceOptions,
    EngineOptions,
    words.DebugOptions,
    words.ProgressOptions,
    words.HookOptions,
    total=False,
):
    """The job without its program: the flags of `clusterkit up`, under the same names."""


class JobOptions(Options, total=False):
    """Everything that a command line or a job file can say about a job."""

    program: Path
    args: Sequence[str]
    task: Mapping[TaskType, TaskOptions]


# Their docstrings are headings in the help.
GROUPS = (
    *(words.ShapeOptions, words.ProcessOptions, words.RestartOptions, words.TimeOptions, words.RunOptions),
    *(words.FaultOptions, words.LibraryOptions, words.DeviceOptions, HostOptions, *OPTIONS_OF.values()),
    *(words.DebugOptions, words.ProgressOptions, words.HookOptions),
)


class Kind(enum.Enum):
    """The type of an option's value, which decides how it is written and checked."""

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
BARE = JobSpec(Program(ProgramKind.SCRIPT, ""), {})  # for the defaults of its fields


@dataclass(frozen=True, slots=True)
class Entry:
    """A row of the table: an option with its name and kind. `choices` are the values of a CHOICE."""

    name: str
    kind: Kind
    about: Option = _ANY
    choices: tuple[str | int, ...] = ()
    group: str = ""  # its heading in the help
    engine: str = ""  # the only one that has it

    @property
    def key(self) -> str:
        """Its name in a job file."""
        return self.name.replace("_", "-")

    @property
    def flag(self) -> str:
        """Its name on the command line."""
        return f"--{self.key}"

    @property
    def default(self) -> str:
        """The default as the help shows it; empty if the help shows none."""
        value = attrgetter(self.about.field)(BARE) if self.about.field else None
        if self.about.default or not (value or self.kind is Kind.DURATION):
            return self.about.default
        if self.kind is Kind.DURATION:
            return durations.compact(value) if value else "off"
        return "yes" if value is True else str(value)


def _entries(options: type) -> Mapping[str, Entry]:
    hints = get_type_hints(options, include_extras=True)
    groups = {name: group.__doc__ or "" for group in GROUPS for name in group.__annotations__}
    engines = {name: engine for engine, group in OPTIONS_OF.items() for name in group.__annotations__}
    return MappingProxyType(
        {name: _entry(name, hint, groups.get(name, ""), engines.get(name, "")) for name, hint in hints.items()}
    )


def _entry(name: str, hint: Any, group: str, engine: str) -> Entry:
    hint, about = get_args(hint) if get_origin(hint) is Annotated else (hint, _ANY)
    choices = get_args(hint) if get_origin(hint) is Literal else ()
    return Entry(name, Kind.CHOICE if choices else _KINDS[hint], about, choices, group, engine)


OPTIONS = _entries(Options)
TASK_OPTIONS = _entries(TaskOptions)


class Gathered(NamedTuple):
    """The usable options, the problems and names of the unusable ones, and notes for the user."""

    options: JobOptions
    problems: Sequence[str] = ()
    wrong: frozenset[str] = frozenset()
    notes: Sequence[str] = ()


def merged(below: Gathered, above: Gathered) -> Gathered:
    """Both together; `above` wins, environments merge, and a program in `above` does not get the arguments of `below`.

    A value in `above` replaces a wrong one in `below`, whose problem is still reported.
    """
    over = above.options
    gone = ("program", "module", "args") if "program" in over or "module" in over else ()
    options = cast(JobOptions, {name: value for name, value in below.options.items() if name not in gone} | over)
    if env := {**below.options.get("env", {}), **over.get("env", {})}:
        options["env"] = env
    wrong = above.wrong | (below.wrong - over.keys())
    return Gathered(options, [*above.problems, *below.problems], wrong)
