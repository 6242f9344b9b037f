"""Writes options as flags: the words that `clusterkit up` reads as the same options."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast

from clusterkit.job.options import OPTIONS, Entry, Kind
from clusterkit.words.durations import exact
from clusterkit.words.options import JobOptions
from clusterkit.words.secrets import HIDDEN, masked


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
    """The environment as flags for people to type; hidden values are to come from their own environment."""
    return [f"--env={name}" if HIDDEN in text else f"--env={name}={text}" for name, text in masked(env, show).items()]


def text_of(value: Any) -> str:
    """Write a value that is text, a path or a number."""
    return str(value.__fspath__() if hasattr(type(value), "__fspath__") else value)
