"""The keywords of `Cluster`, and the one place where they become flags of `up`."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar, get_type_hints

from clusterkit.job.flags import flags_of, text_of
from clusterkit.job.handed import Handed
from clusterkit.job.options import OPTIONS, Entry, Options
from clusterkit.job.spec import UNFIT
from clusterkit.words.errors import BadJob
from clusterkit.words.options import Path
from clusterkit.words.secrets import HIDDEN, masked
from clusterkit.words.spelling import did_you_mean

T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., None])
_HINTS = get_type_hints(Options)
__tracebackhide__ = True  # a test that fails here is to show its own line


class Keywords(Options, total=False):
    """What `Cluster` takes beside its program."""

    args: Sequence[object]
    kwargs: Mapping[str, Any] | None
    home: Path | None
    patience: float | None


def check_names(options: Mapping[str, object]) -> None:
    """Raise TypeError for a keyword that is not an option."""
    for name in options:
        if name not in OPTIONS:
            raise TypeError(f"Cluster has no option {name!r}. {did_you_mean(name, OPTIONS, 'The options are')}")


def with_options_in_help(constructor: F) -> F:
    """List every option in the constructor's help: its type, what it is for, and its default."""
    plain = inspect.signature(constructor)
    own = [one for one in plain.parameters.values() if one.kind is not one.VAR_KEYWORD]
    named = [inspect.Parameter(name, own[-1].kind, default=None, annotation=_hint_of(name)) for name in OPTIONS]
    constructor.__signature__ = plain.replace(parameters=[*own, *named])  # type: ignore[attr-defined]
    constructor.__doc__ = "\n".join([inspect.cleandoc(constructor.__doc__ or ""), "", *map(_help, OPTIONS.values())])
    return constructor


def _hint_of(name: str) -> Any:
    hint = _HINTS[name]
    return str | os.PathLike[str] if hint == Path else hint


def _help(entry: Entry) -> str:
    default = f" [default: {entry.default}]" if entry.default else ""
    kind = inspect.formatannotation(_hint_of(entry.name)).replace("collections.abc.", "")
    return f"{entry.name}: {kind}\n    {entry.about.help}{default}"


class Invocation(NamedTuple):
    """A `clusterkit up` that is about to be started: the words after it, and what is handed to it beside them."""

    words: list[str]
    handed: Handed


def invocation(
    program: object | None, args: Sequence[object], options: Options, found: Sequence[str] = ()
) -> Invocation:
    """The job as `up` takes it. Options that are None are as if they were not given.

    A value that can't be a flag is a problem, like those `found` before; `up` adds its own and reports all at once.
    """
    given: dict[str, object] = {name: value for name, value in options.items() if value is not None}
    problems = list(found)
    if program is not None and given.pop("module", None) is not None:
        problems.append("Give a program or module=, not both.")
    if program is None and args and "module" not in given:
        problems.append("There are args, but no program that they could be for.")
        args = ()
    env = _collected(_variables, given.pop("env", {}), problems)
    words = [
        flag for name, value in given.items() for flag in _collected(partial(flags_of, OPTIONS[name]), value, problems)
    ]
    words += ["--", *([] if program is None else [text_of(program)]), *map(text_of, args)]
    if any(map(UNFIT.search, words)):
        problems.append("A NUL character or half a character can't be part of a program's arguments or options.")
    return Invocation([UNFIT.sub("\ufffd", word) for word in words], Handed(dict(env), problems))


def env_flags(env: Mapping[str, str], show: bool) -> list[str]:
    """The environment as flags for people to type; hidden values are to come from their own environment."""
    return [f"--env={name}" if HIDDEN in text else f"--env={name}={text}" for name, text in masked(env, show).items()]


def _collected(make: Callable[[Any], Iterator[T]], value: Any, problems: list[str]) -> list[T]:
    """What is made of a value; where nothing can be, the problem is noted."""
    try:
        return list(make(value))
    except BadJob as error:
        problems += error.problems
        return []


def _variables(env: Any) -> Iterator[tuple[str, str]]:
    if not isinstance(env, Mapping):
        raise BadJob([f"env={env!r}: it has to be a mapping, such as env={{'OMP_NUM_THREADS': 1}}."])
    if wrong := [name for name in env if not isinstance(name, str) or not name or "=" in name]:
        raise BadJob([f"env: {name!r} can't be the name of a variable." for name in wrong])
    yield from ((name, text_of(value)) for name, value in env.items())
