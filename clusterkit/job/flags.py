"""A job as flags: options written for `clusterkit up`, and the options that describe a job."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from operator import attrgetter
from typing import Any, cast

from clusterkit.job.options import BARE, OPTIONS, Entry, JobOptions, Kind
from clusterkit.text.durations import exact
from clusterkit.words import wire
from clusterkit.words.job import JobSpec, Setup
from clusterkit.words.model import ProgramKind, TaskType
from clusterkit.words.secrets import HIDDEN, masked, without_secrets


def job_flags(options: JobOptions) -> list[str]:
    """Write the options of a job, and at the end the program with its arguments.

    Tables of task types, `task`, can't be flags: they have to be in a job file.
    """
    given = cast(Mapping[str, object], options)
    words = [word for name, entry in OPTIONS.items() if name in given for word in flags_of(entry, given[name])]
    program = [text_of(given["program"])] if "program" in given else []
    rest = [*program, *map(text_of, cast(Sequence[object], given.get("args", ())))]
    # The program ends the options; where there is none, or it looks like an option, `--` does.
    return [*words, *(["--"] if rest and (not program or rest[0].startswith("-")) else []), *rest]


def flags_of(entry: Entry, value: Any) -> Iterator[str]:
    """Write one option, each of its values in a word with the flag."""
    match entry.kind:
        case Kind.SWITCH:
            yield entry.flag if value else f"--no-{entry.key}"
        case Kind.TEXTS:
            yield from (f"{entry.flag}={text_of(item)}" for item in ([value] if isinstance(value, str) else value))
        case Kind.VARIABLES:
            yield from (f"{entry.flag}={name}={text_of(item)}" for name, item in value.items())
        case _:
            text = exact(value) if isinstance(value, float) else text_of(value)
            yield f"{entry.flag}={text}"  # with =, or a value that begins with a dash would be a flag


def env_flags(env: Mapping[str, str], show: bool) -> list[str]:
    """The environment as flags for people to type; NAME alone stands for a hidden value."""
    return [f"--env={name}" if HIDDEN in text else f"--env={name}={text}" for name, text in masked(env, show).items()]


def text_of(value: Any) -> str:
    """Write a value that is text, a path or a number."""
    return str(value.__fspath__() if hasattr(type(value), "__fspath__") else value)


def options_of(job: JobSpec) -> JobOptions:
    """The program, and the options whose values are not the defaults."""
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


def command_of(job: JobSpec) -> str:
    """A command line that runs the job, to show. Settings of one task type are in a job file, which it names."""
    options = cast(dict[str, Any], options_of(without_secrets(job)))
    words = ["clusterkit", "up", *(["-f", "job.toml"] if "task" in options else [])]
    for name, entry in OPTIONS.items():
        if name in options:
            words += _words(entry, options[name])
    words += [str(options["program"])] if "program" in options else []
    return shlex.join([*words, *options.get("args", ())])


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


def _words(entry: Entry, value: Any) -> Iterator[str]:
    """The flags of an option as people type them."""
    if entry.kind is Kind.VARIABLES:
        yield from (word for name in env_flags(value, True) for word in name.split("=", 1))
        return
    for word in flags_of(entry, value):
        flag, equals, text = word.partition("=")
        short = entry.about.short if entry.name == "module" and entry.about.short else flag
        yield from (short, text) if equals and not text.startswith("-") else (word,)
