"""From a job back to the options that describe it, and to a command line that runs it."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from operator import attrgetter
from typing import Any, cast

from clusterkit.job.flags import env_flags, flags_of
from clusterkit.job.options import OPTIONS, Entry, Kind
from clusterkit.words import wire
from clusterkit.words.job import JobSpec, Setup
from clusterkit.words.model import Program, ProgramKind, TaskType
from clusterkit.words.options import JobOptions
from clusterkit.words.secrets import without_secrets

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
    """The flags of an option as people type them."""
    if entry.kind is Kind.VARIABLES:
        yield from (word for name in env_flags(value, True) for word in name.split("=", 1))
        return
    for word in flags_of(entry, value):
        flag, equals, text = word.partition("=")
        short = entry.about.short if entry.name == "module" and entry.about.short else flag
        yield from (short, text) if equals and not text.startswith("-") else (word,)
