"""Converts the keyword arguments of `Cluster` to the options of a job, and pickles functions for its tasks."""

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

from clusterkit.job.options import OPTIONS, GivenOptions, JobOptions, OptionEntry, OptionKind, Options, text_of
from clusterkit.job.other_launchers import hint_for
from clusterkit.job.spec import UNFIT_CHARACTERS
from clusterkit.system.files import open_regular, read_regular
from clusterkit.system.ownership import is_trusted
from clusterkit.task import call, plain_values
from clusterkit.text import durations
from clusterkit.text.spelling import did_you_mean
from clusterkit.words.errors import BadJob, ClusterkitError
from clusterkit.words.options import Path as PathOption
from clusterkit.words.outcome import RunResult
from clusterkit.words.verification import request_text

F = TypeVar("F", bound=Callable[..., None])
_HINTS = get_type_hints(Options)
__tracebackhide__ = True  # pytest shows the test's own line instead of frames of this module
RUNNER = str(Path(call.__file__).resolve())


class Keywords(Options, total=False):
    """The keyword arguments of `Cluster`, except the program."""

    args: Sequence[object]
    kwargs: Mapping[str, Any] | None
    home: PathOption | None
    patience: float | None


def check_names(options: Mapping[str, object]) -> None:
    """Raise TypeError for a keyword that is not an option."""
    for name in options:
        if name not in OPTIONS:
            hint = hint_for(name, OPTIONS) or did_you_mean(name, OPTIONS, "The options are")
            raise TypeError(f"Cluster has no option {name!r}. {hint}")


def with_options_in_help(constructor: F) -> F:
    """Add all options, with type, purpose and default, to the constructor's signature and docstring."""
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


def gathered(
    program: object | None, args: Sequence[object], options: Options, found: Sequence[str] = ()
) -> GivenOptions:
    """Combine a program, its arguments and options into the options of a job. None and empty lists are ignored.

    The problems of the result are `found`, plus one problem for each invalid value. Further checks are left to the code
    that prepares the job.
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
    return GivenOptions(cast(JobOptions, fit), problems, frozenset(wrong))


def _value(entry: OptionEntry, value: Any) -> object:
    """Convert the value of a keyword to the option's type. Raises BadJob."""
    match entry.kind:
        case OptionKind.SWITCH if value in (True, False):  # also accepts 0 and 1, as a job file does
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
        case OptionKind.REQUEST:
            try:
                return request_text(value)
            except ValueError as error:
                raise BadJob([f"{entry.name}={value!r}: {error}"]) from None
    text = durations.exact(value) if isinstance(value, float) else text_of(value)
    try:
        return _read(entry, text)
    except ValueError as error:
        raise BadJob([f"{entry.flag}: {error}"]) from None


def _read(entry: OptionEntry, text: str) -> object:
    """Convert text to the option's type, as the command line does. Raises ValueError, whose message is a sentence."""
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
    """Replace characters that arguments of a program can't contain. Environment variables are checked elsewhere."""
    if isinstance(value, str):
        return UNFIT_CHARACTERS.sub("\ufffd", value)
    return type(value)(map(_fit, value)) if isinstance(value, list | tuple) else value


def _variables(env: Any) -> dict[str, str]:
    if not isinstance(env, Mapping):
        raise BadJob([f"env={env!r}: it has to be a mapping, such as env={{'OMP_NUM_THREADS': 1}}."])
    if wrong := [name for name in env if not isinstance(name, str) or not name or "=" in name]:
        raise BadJob([f"env: {name!r} can't be the name of a variable." for name in wrong])
    return {name: text_of(value) for name, value in env.items()}


def name_of(function: Callable[..., Any]) -> str:
    """Return the name of a function, such as `train` or `Model.fit`, in a form that is valid as a file name."""
    inner = getattr(function, "func", function)  # the function in a functools.partial
    name = str(getattr(inner, "__qualname__", type(inner).__qualname__))
    return re.sub(r"[^\w.]", "", name.rpartition("<locals>.")[2])[:60] or "call"


_registering = threading.Lock()


def pickle_call(
    function: Callable[..., Any], args: Sequence[object], kwargs: Mapping[str, Any], path: Path, here: Path
) -> None:
    """Pickle a function call to `path`, to be run by RUNNER. Relative entries of `sys.path` are relative to `here`.

    Raises BadJob.
    """
    try:
        with by_value(function):
            data = call.dumps((function, tuple(args), dict(kwargs)))
    except Exception as error:
        name, why = getattr(function, "__qualname__", repr(function)), f"{type(error).__name__}: {error}"
        raise BadJob([f"The function {name} or its arguments can't be pickled: {why}"]) from None
    path.write_bytes(pickle.dumps([str(here / entry) for entry in sys.path]) + data)


@contextmanager
def by_value(function: Callable[..., Any]) -> Iterator[None]:
    """Make cloudpickle include definitions of the function's module in the pickle, instead of their names.

    Tasks could not import a test module or a notebook by name, or would run its top-level code again. Installed modules
    are still pickled by name.
    """
    import cloudpickle  # imported here, since most programs are not functions

    inner = getattr(function, "func", function)  # the function in a functools.partial
    module = sys.modules.get(getattr(inner, "__module__", None) or "")
    with _registering:  # the registry is global to the process
        if module is None or is_installed(module) or module.__name__ in cloudpickle.list_registry_pickle_by_value():
            yield
            return
        cloudpickle.register_pickle_by_value(module)
        try:
            yield
        finally:
            cloudpickle.unregister_pickle_by_value(module)


def is_installed(module: ModuleType) -> bool:
    """Return whether every interpreter of this environment can import the module.

    Also return True for a module without a file, such as a notebook's `__main__`, which cloudpickle already handles.
    """
    file = getattr(module, "__file__", None)
    places = {sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib")}
    return file is None or any(Path(file).is_relative_to(place) for place in places)


def read_returns(result: RunResult, run: Path, form: str) -> dict[str, Any]:
    """Read the function's return value from each task's last attempt. Tasks that failed or were ended are omitted.

    Only files of the given form are read: `pickle`, which runs code that the file names, or `plain`, which runs none.
    """
    last = {str(attempt.task): attempt for attempt in result.attempts}
    files = {name: call.returned_file(run, name, attempt.attempt, form) for name, attempt in last.items()}
    return {name: _load(file, name, form) for name, file in files.items() if file.exists()}


def _load(file: Path, task: str, form: str) -> Any:
    try:
        if form == call.PLAIN:
            return plain_values.loads(read_regular(file, plain_values.LARGEST))
        with open_regular(file) as opened:
            if not is_trusted(os.fstat(opened.fileno()).st_uid):
                raise PermissionError("it belongs to another user")
            return pickle.load(opened)
    except Exception as error:
        raise ClusterkitError(f"What {task} returned can't be read here: {type(error).__name__}: {error}") from None
