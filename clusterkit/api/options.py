"""The keywords of `Cluster`, and the one place where they become the options of a job."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any, TypeVar, cast, get_type_hints

from clusterkit.job.options import OPTIONS, Entry, Gathered, JobOptions, Kind, Options, text_of
from clusterkit.job.spec import UNFIT
from clusterkit.text import durations
from clusterkit.text.spelling import did_you_mean
from clusterkit.words.errors import BadJob
from clusterkit.words.options import Path

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


def gathered(program: object | None, args: Sequence[object], options: Options, found: Sequence[str] = ()) -> Gathered:
    """The job as options. Those that are None are as if they were not given, and so are empty lists.

    A value that can't be used is a problem, like those `found` before; who prepares the job adds its own.
    """
    given: dict[str, object] = {name: value for name, value in options.items() if value is not None}
    problems, wrong, usable = list(found), set[str](), dict[str, Any]()
    if program is not None and given.pop("module", None) is not None:
        problems.append("Give a program or module=, not both.")
    if program is None and args and "module" not in given:
        problems.append("There are args, but no program that they could be for.")
        args = ()
    for name, value in given.items():
        try:
            usable[name] = _value(OPTIONS[name], value)
        except BadJob as error:
            problems += error.problems
            wrong.add(name)
    usable |= {} if program is None else {"program": text_of(program)}
    usable |= {"args": [*map(text_of, args)]} if "program" in usable or "module" in usable else {}
    fit = {name: _fit(value) for name, value in usable.items() if value != ()}
    if fit != {name: usable[name] for name in fit}:
        problems.append("A NUL character or half a character can't be part of a program's arguments or options.")
    return Gathered(cast(JobOptions, fit), problems, frozenset(wrong))


def _value(entry: Entry, value: Any) -> object:
    """The value of a keyword as the option's own type. Raises BadJob."""
    match entry.kind:
        case Kind.SWITCH if value in (True, False):  # 0 and 1 too, as in a job file
            return bool(value)
        case Kind.SWITCH:
            raise BadJob([f"{entry.name}={value!r}: it has to be True or False, since a cluster has at most one."])
        case Kind.TEXTS if isinstance(value, str) and entry.name == "preload":
            raise BadJob([f"preload={value!r}: it has to be a list of module names, such as ['pandas']."])
        case Kind.TEXTS if not isinstance(value, Iterable):
            raise BadJob([f"{entry.name}={value!r}: it has to be a list."])
        case Kind.TEXTS:
            return (value,) if isinstance(value, str) else tuple(map(text_of, value))
        case Kind.VARIABLES:
            return _variables(value)
    text = durations.exact(value) if isinstance(value, float) else text_of(value)
    try:
        return _read(entry, text)
    except ValueError as error:
        raise BadJob([f"{entry.flag}: {error}"]) from None


def _read(entry: Entry, text: str) -> object:
    """What the command line takes the text for. Raises ValueError, with a sentence."""
    match entry.kind:
        case Kind.NUMBER:
            with suppress(ValueError):
                return int(text)
            raise ValueError(f"{text!r} is not a valid integer.")
        case Kind.DURATION:
            return durations.seconds(text)
        case Kind.CHOICE:
            choices = {str(choice): choice for choice in entry.choices}
            if text not in choices:
                raise ValueError(f"{text!r} is not one of {', '.join(map(repr, choices))}.")
            return choices[text]
    return text


def _fit(value: Any) -> Any:
    """Without what no argument of a program can have in it. Variables are checked where the job is."""
    if isinstance(value, str):
        return UNFIT.sub("\ufffd", value)
    return type(value)(map(_fit, value)) if isinstance(value, list | tuple) else value


def _variables(env: Any) -> dict[str, str]:
    if not isinstance(env, Mapping):
        raise BadJob([f"env={env!r}: it has to be a mapping, such as env={{'OMP_NUM_THREADS': 1}}."])
    if wrong := [name for name in env if not isinstance(name, str) or not name or "=" in name]:
        raise BadJob([f"env: {name!r} can't be the name of a variable." for name in wrong])
    return {name: text_of(value) for name, value in env.items()}
