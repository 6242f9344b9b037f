"""What `Cluster` takes: keywords that become the options of a job, and functions that are pickled for its tasks."""

from __future__ import annotations

import inspect
import os
import pickle
import re
import sys
import sysconfig
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar, cast, get_type_hints

from clusterkit.job.foreign import meant
from clusterkit.job.options import OPTIONS, Gathered, JobOptions, OptionEntry, OptionKind, Options, text_of
from clusterkit.job.spec import UNFIT
from clusterkit.task import call
from clusterkit.text import durations
from clusterkit.text.spelling import did_you_mean
from clusterkit.words.errors import BadJob, ClusterkitError
from clusterkit.words.options import Path as PathOption
from clusterkit.words.outcome import RunResult

F = TypeVar("F", bound=Callable[..., None])
_HINTS = get_type_hints(Options)
__tracebackhide__ = True  # a test that fails here is to show its own line
RUNNER = str(Path(call.__file__).resolve())


class Keywords(Options, total=False):
    """What `Cluster` takes beside its program."""

    args: Sequence[object]
    kwargs: Mapping[str, Any] | None
    home: PathOption | None
    patience: float | None


def check_names(options: Mapping[str, object]) -> None:
    """Raise TypeError for a keyword that is not an option."""
    for name in options:
        if name not in OPTIONS:
            hint = meant(name, OPTIONS) or did_you_mean(name, OPTIONS, "The options are")
            raise TypeError(f"Cluster has no option {name!r}. {hint}")


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
    return str | os.PathLike[str] if hint == PathOption else hint


def _help(entry: OptionEntry) -> str:
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


def _value(entry: OptionEntry, value: Any) -> object:
    """The value of a keyword as the option's own type. Raises BadJob."""
    match entry.kind:
        case OptionKind.SWITCH if value in (True, False):  # 0 and 1 too, as in a job file
            return bool(value)
        case OptionKind.SWITCH:
            raise BadJob([f"{entry.name}={value!r}: it has to be True or False, since a cluster has at most one."])
        case OptionKind.TEXTS if isinstance(value, str) and entry.name == "preload":
            raise BadJob([f"preload={value!r}: it has to be a list of module names, such as ['pandas']."])
        case OptionKind.TEXTS if not isinstance(value, Iterable):
            raise BadJob([f"{entry.name}={value!r}: it has to be a list."])
        case OptionKind.TEXTS:
            return (value,) if isinstance(value, str) else tuple(map(text_of, value))
        case OptionKind.VARIABLES:
            return _variables(value)
    text = durations.exact(value) if isinstance(value, float) else text_of(value)
    try:
        return _read(entry, text)
    except ValueError as error:
        raise BadJob([f"{entry.flag}: {error}"]) from None


def _read(entry: OptionEntry, text: str) -> object:
    """What the command line takes the text for. Raises ValueError, with a sentence."""
    match entry.kind:
        case OptionKind.NUMBER:
            with suppress(ValueError):
                return int(text)
            raise ValueError(f"{text!r} is not a valid integer.")
        case OptionKind.DURATION:
            return durations.seconds(text)
        case OptionKind.CHOICE:
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


def name_of(function: Callable[..., Any]) -> str:
    """The name of a function, as a file can have it: `train`, `Model.fit`."""
    inner = getattr(function, "func", function)  # of functools.partial
    name = str(getattr(inner, "__qualname__", type(inner).__qualname__))
    return re.sub(r"[^\w.]", "", name.rpartition("<locals>.")[2])[:60] or "call"


_registering = threading.Lock()


def pickle_call(
    function: Callable[..., Any], args: Sequence[object], kwargs: Mapping[str, Any], path: Path, here: Path
) -> None:
    """Write what RUNNER calls. Relative directories of `sys.path` are those of `here`. Raises BadJob."""
    try:
        with by_value(function):
            data = call.dumps((function, tuple(args), dict(kwargs)))
    except Exception as error:
        name, why = getattr(function, "__qualname__", repr(function)), f"{type(error).__name__}: {error}"
        raise BadJob([f"The function {name} or its arguments can't be pickled: {why}"]) from None
    path.write_bytes(pickle.dumps([str(here / entry) for entry in sys.path]) + data)


@contextmanager
def by_value(function: Callable[..., Any]) -> Iterator[None]:
    """Let cloudpickle take what is defined in the function's module along, rather than its name.

    The tasks could not import a test module or a notebook, or would run its top level once more. A module that is
    installed is imported there as everywhere.
    """
    import cloudpickle  # not everybody's programs are functions

    inner = getattr(function, "func", function)  # of functools.partial
    module = sys.modules.get(getattr(inner, "__module__", None) or "")
    with _registering:  # the registry is the whole process's
        if module is None or is_installed(module) or module.__name__ in cloudpickle.list_registry_pickle_by_value():
            yield
            return
        cloudpickle.register_pickle_by_value(module)
        try:
            yield
        finally:
            cloudpickle.unregister_pickle_by_value(module)


def is_installed(module: ModuleType) -> bool:
    """Whether every interpreter of this environment can import the module. Of a notebook, cloudpickle knows better."""
    file = getattr(module, "__file__", None)
    places = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    return file is None or any(Path(file).is_relative_to(place) for place in places)


def read_returns(result: RunResult, run: Path) -> dict[str, Any]:
    """What the function returned in each task's last attempt. Tasks that were ended, or failed, are left out."""
    last = {str(attempt.task): attempt for attempt in result.attempts}
    files = {name: call.returned_file(run, name, attempt.attempt) for name, attempt in last.items()}
    return {name: _load(file, name) for name, file in files.items() if file.exists()}


def _load(file: Path, task: str) -> Any:
    try:
        with file.open("rb") as opened:
            return pickle.load(opened)
    except Exception as error:
        raise ClusterkitError(f"What {task} returned can't be read here: {type(error).__name__}: {error}") from None
