"""The table of options, which is built from type hints, and functions that merge options and write them as flags."""

from __future__ import annotations

import enum
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from types import MappingProxyType
from typing import Annotated, Any, Literal, NamedTuple, cast, get_args, get_origin, get_type_hints

from clusterkit.engines.options import OPTIONS_OF, EngineOptions, HostOptions
from clusterkit.text import durations
from clusterkit.text.durations import exact
from clusterkit.words import options as words
from clusterkit.words import wire
from clusterkit.words.job import JobSpec, Setup
from clusterkit.words.model import Program, ProgramKind, TaskType
from clusterkit.words.options import Duration, Option, Path, TaskOptions
from clusterkit.words.outcome import RunResult, RunState
from clusterkit.words.secrets import HIDDEN, is_pasteable, masked, without_secrets


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
    """A job's options without its program. Each option is named like its flag of `clusterkit up`."""


class JobOptions(Options, total=False):
    """All options that a command line or a job file can set."""

    program: Path
    args: Sequence[str]
    task: Mapping[TaskType, TaskOptions]


# The docstrings of these classes are headings in the help.
GROUPS = (
    *(words.ShapeOptions, words.ProcessOptions, words.RestartOptions, words.TimeOptions, words.RunOptions),
    *(words.FaultOptions, words.LibraryOptions, words.DeviceOptions, HostOptions, *OPTIONS_OF.values()),
    *(words.DebugOptions, words.ProgressOptions, words.HookOptions),
)


class OptionKind(enum.Enum):
    """The type of an option's value, which decides how it is written and checked."""

    SWITCH = enum.auto()
    NUMBER = enum.auto()
    DURATION = enum.auto()
    TEXT = enum.auto()
    PATH = enum.auto()
    CHOICE = enum.auto()
    REQUEST = enum.auto()  # a switch that may also have a value, such as --verify and --verify 20
    TEXTS = enum.auto()
    VARIABLES = enum.auto()


_KINDS: Mapping[Any, OptionKind] = {
    bool: OptionKind.SWITCH,
    int: OptionKind.NUMBER,
    Duration: OptionKind.DURATION,
    str: OptionKind.TEXT,
    Path: OptionKind.PATH,
    Sequence[str]: OptionKind.TEXTS,
    str | Sequence[str]: OptionKind.TEXTS,
    bool | int | str: OptionKind.REQUEST,
    Mapping[str, object]: OptionKind.VARIABLES,
}
_ANY = Option("")
BARE = JobSpec(Program(ProgramKind.SCRIPT, ""), {})  # provides the defaults of the fields


@dataclass(frozen=True, slots=True)
class OptionEntry:
    """A row of the table: an option's name, kind and description. `choices` are the values of a CHOICE."""

    name: str
    kind: OptionKind
    about: Option = _ANY
    choices: tuple[str | int, ...] = ()
    group: str = ""  # the option's heading in the help
    engine: str = ""  # the engine that has the option; "" if all engines have it

    @property
    def key(self) -> str:
        """The option's name in a job file."""
        return self.name.replace("_", "-")

    @property
    def flag(self) -> str:
        """The option's name on the command line."""
        return f"--{self.key}"

    @property
    def default(self) -> str:
        """The default as the help shows it; empty if the help shows no default."""
        value = attrgetter(self.about.field)(BARE) if self.about.field else None
        if self.about.default or value == "no" or not (value or self.kind is OptionKind.DURATION):
            return self.about.default
        if self.kind is OptionKind.DURATION:
            return durations.compact(value) if value else "off"
        return "yes" if value is True else str(value)


def _entries(options: type) -> Mapping[str, OptionEntry]:
    hints = get_type_hints(options, include_extras=True)
    groups = {name: group.__doc__ or "" for group in GROUPS for name in group.__annotations__}
    engines = {name: engine for engine, group in OPTIONS_OF.items() for name in group.__annotations__}
    return MappingProxyType(
        {name: _entry(name, hint, groups.get(name, ""), engines.get(name, "")) for name, hint in hints.items()}
    )


def _entry(name: str, hint: Any, group: str, engine: str) -> OptionEntry:
    hint, about = get_args(hint) if get_origin(hint) is Annotated else (hint, _ANY)
    choices = get_args(hint) if get_origin(hint) is Literal else ()
    return OptionEntry(name, OptionKind.CHOICE if choices else _KINDS[hint], about, choices, group, engine)


OPTIONS = _entries(Options)
TASK_OPTIONS = _entries(TaskOptions)


class GivenOptions(NamedTuple):
    """The valid options, the problems and names (`wrong`) of invalid options, and notes for the user."""

    options: JobOptions
    problems: Sequence[str] = ()
    wrong: frozenset[str] = frozenset()
    notes: Sequence[str] = ()


def merged(below: GivenOptions, above: GivenOptions) -> GivenOptions:
    """Merge two sets of options. `above` takes precedence; environments are merged by variable.

    A program in `above` does not get the arguments of `below`. A value in `above` replaces an invalid value in `below`,
    but the problem is still reported.
    """
    overridden = above.options
    removed = ("program", "module", "args") if "program" in overridden or "module" in overridden else ()
    options = cast(
        JobOptions, {name: value for name, value in below.options.items() if name not in removed} | overridden
    )
    if env := {**below.options.get("env", {}), **overridden.get("env", {})}:
        options["env"] = env
    wrong = above.wrong | (below.wrong - overridden.keys())
    return GivenOptions(options, [*above.problems, *below.problems], wrong)


def job_flags(options: JobOptions) -> list[str]:
    """Write a job's options as flags, followed by the program and its arguments.

    The tables of task types (`task`) are left out, since only a job file can hold them.
    """
    given = cast(Mapping[str, object], options)
    words = [word for name, entry in OPTIONS.items() if name in given for word in flags_of(entry, given[name])]
    program = [text_of(given["program"])] if "program" in given else []
    rest = [*program, *map(text_of, cast(Sequence[object], given.get("args", ())))]
    # The program ends the options. Without a program, or if the program looks like an option, `--` ends the options.
    return [*words, *(["--"] if rest and (not program or rest[0].startswith("-")) else []), *rest]


def flags_of(entry: OptionEntry, value: Any) -> Iterator[str]:
    """Write an option as `--flag=value`, once for each value."""
    match entry.kind:
        case OptionKind.SWITCH:
            yield entry.flag if value else f"--no-{entry.key}"
        case OptionKind.TEXTS:
            yield from (f"{entry.flag}={text_of(item)}" for item in ([value] if isinstance(value, str) else value))
        case OptionKind.VARIABLES:
            yield from (f"{entry.flag}={name}={text_of(item)}" for name, item in value.items())
        case _:
            text = exact(value) if isinstance(value, float) else text_of(value)
            yield f"{entry.flag}={text}"  # with =, since a value may begin with a dash


def env_flags(env: Mapping[str, str], show: bool) -> list[str]:
    """Write the environment as flags to show to the user. A hidden value is left out: `--env=NAME`."""
    return [f"--env={name}" if HIDDEN in text else f"--env={name}={text}" for name, text in masked(env, show).items()]


def pasteable_env_flags(env: Mapping[str, str], show: bool, shell: Mapping[str, str]) -> list[str]:
    """Write the environment as flags of a command that works when it is pasted into a shell.

    `shell` contains the variables of the shell. The value of a variable is left out (`--env=NAME`) if the shell has the
    same value, so that the command finds it there, or if it looks like a secret.
    """
    flags = env_flags(env, show)
    for place, (name, value) in enumerate(env.items()):
        if flags[place] == f"--env={name}" and shell.get(name) != value and is_pasteable(name, value):
            flags[place] = f"--env={name}={value}"
    return flags


def missing_in_shell(env: Mapping[str, str], show: bool, shell: Mapping[str, str]) -> list[str]:
    """Return the variables whose values `pasteable_env_flags` leaves out although the shell does not have them."""
    flags = pasteable_env_flags(env, show, shell)
    return [name for name, value in env.items() if f"--env={name}" in flags and shell.get(name) != value]


def text_of(value: Any) -> str:
    """Return a value (text, a path or a number) as text."""
    return str(value.__fspath__() if hasattr(type(value), "__fspath__") else value)


def options_of(job: JobSpec) -> JobOptions:
    """Return the job's program and those options that differ from the defaults."""
    options: dict[str, Any] = {"module" if job.program.kind is ProgramKind.MODULE else "program": job.program.target}
    if job.program.args:
        options["args"] = list(job.program.args)
    options |= _counts(job)
    for name, entry in OPTIONS.items():
        if entry.about.field:
            value = attrgetter(entry.about.field)(job)
            if value != attrgetter(entry.about.field)(BARE):
                options[name] = wire.encode(value)
    options |= job.hosts.settings
    if job.faults:
        options["fault"] = [str(fault) for fault in job.faults]
    if job.setups:
        options["task"] = {kind: _setup(setup) for kind, setup in job.setups.items()}
    return cast(JobOptions, options)


def texts_of(job: JobSpec) -> dict[str, str]:
    """Return the program, and the options that differ from the defaults, as texts to show, without hidden values."""
    options = cast(dict[str, Any], options_of(without_secrets(replace(job, part_of=None))))
    found = {"program": str(job.program)}
    for name, entry in OPTIONS.items():
        if name in options and name != "module":
            found[entry.flag] = _shown_words(entry, options[name])
    return found | {f"[task.{kind}]": str(table) for kind, table in options.get("task", {}).items()}


def _shown_words(entry: OptionEntry, value: Any) -> str:
    if entry.kind is OptionKind.SWITCH:
        return "yes" if value else "no"
    if entry.kind is OptionKind.DURATION:
        return durations.compact(value)
    if entry.kind is OptionKind.REQUEST:
        return str(value)
    return ", ".join(word.partition("=")[2] for word in _shown_flags(entry, value))


def _shown_flags(entry: OptionEntry, value: Any) -> list[str]:
    """Write an option as `flags_of` does, but leave out the values of hidden variables."""
    return env_flags(value, True) if entry.kind is OptionKind.VARIABLES else [*flags_of(entry, value)]


def command_of(job: JobSpec) -> str:
    """Return a command line that shows the job. The command names a job file if task types have their own settings."""
    options = cast(dict[str, Any], options_of(without_secrets(replace(job, part_of=None))))
    words = ["clusterkit", "up", *(["-f", "job.toml"] if "task" in options else [])]
    for name, entry in OPTIONS.items():
        if name in options:
            words += _words(entry, options[name])
    words += [str(options["program"])] if "program" in options else []
    return shlex.join([*words, *options.get("args", ())])


def resume_command(run_id: str, job: JobSpec, result: RunResult | None, saved: bool) -> str | None:
    """Return the command line that continues a finished run; None if there is nothing to continue.

    `saved` is True if a checkpoint was reported.
    """
    if result is None or not result.final:
        words = f"--run-id {run_id} --continue"
    elif result.state is not RunState.SUCCEEDED and (saved or result.checkpoint is not None):
        words = f"--resume {run_id}"
    else:
        return None
    command = start_command(job) or "clusterkit up"
    return command.replace("clusterkit up", f"clusterkit up {words}", 1)


def start_command(job: JobSpec) -> str | None:
    """Return the command line that starts the job anew; None if the job is not known."""
    return command_of(replace(job, resume=None)) if job.counts else None


def _counts(job: JobSpec) -> dict[str, Any]:
    workers, ps, chief, evaluator = (
        job.counts.get(kind, 0) for kind in (TaskType.WORKER, TaskType.PS, TaskType.CHIEF, TaskType.EVALUATOR)
    )
    found: dict[str, Any] = {"workers": workers} if workers else {}
    found |= {"ps": ps} if ps else {}
    found |= {"chief": bool(chief)} if bool(chief) != (ps > 0) else {}
    return found | ({"evaluator": True} if evaluator else {})


def _setup(setup: Setup) -> dict[str, Any]:
    values = cast(dict[str, Any], wire.encode(setup))
    return {name: value for name, value in values.items() if value not in (None, {}, [])}


def _words(entry: OptionEntry, value: Any) -> Iterator[str]:
    """Write an option as a person would type it: `--flag value`."""
    for word in _shown_flags(entry, value):
        flag, equals, text = word.partition("=")
        short = entry.about.short if entry.name == "module" and entry.about.short else flag
        yield from (short, text) if equals and not text.startswith("-") else (word,)
