"""From a job back to the options that describe it, and to a command line that runs it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from operator import attrgetter
from typing import Any, cast

from clusterkit.job.options import OPTIONS, Entry, JobOptions, Kind
from clusterkit.words import wire
from clusterkit.words.job import JobSpec, Setup
from clusterkit.words.model import Program, ProgramKind, TaskType
from clusterkit.words.secrets import HIDDEN, without_secrets

_BARE = JobSpec(Program(ProgramKind.SCRIPT, ""), {})


def options_of(job: JobSpec) -> JobOptions:
    """The options whose values are not the defaults, with the program."""
    options: dict[str, Any] = {"module" if job.program.kind is ProgramKind.MODULE else "program": job.program.target}
    if job.program.args:
        options["args"] = list(job.program.args)
    options |= _counts(job)
    for name, entry in OPTIONS.items():
        if entry.about.field:
            value = attrgetter(entry.about.field)(job)
            if value != attrgetter(entry.about.field)(_BARE):
                options[name] = wire.encode(value)
    options |= job.hosts.settings
    if job.faults:
        options["fault"] = [str(fault) for fault in job.faults]
    if job.setups:
        options["task"] = {kind: _setup(setup) for kind, setup in job.setups.items()}
    return cast(JobOptions, options)


def command_of(job: JobSpec) -> str:
    """A command line that runs the job, to show; what differs between task types is in a job file, which it names."""
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
    match entry.kind:
        case Kind.SWITCH:
            yield entry.flag if value else f"--no-{entry.key}"
        case Kind.TEXTS:
            for one in [value] if isinstance(value, str) else value:
                yield from (entry.flag, str(one))
        case Kind.VARIABLES:
            for name, text in value.items():
                yield from (entry.flag, name if HIDDEN in text else f"{name}={text}")
        case _:
            short = entry.about.short or entry.flag
            yield from (short if entry.name == "module" else entry.flag, _number(value))


def _number(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
