"""Functions as programs: pickled for the tasks; what they return is read back."""

from __future__ import annotations

import pickle
import sys
import sysconfig
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from clusterkit.task import call
from clusterkit.words.errors import BadJob, ClusterkitError
from clusterkit.words.outcome import RunResult

__tracebackhide__ = True  # a test that fails here is to show its own line
RUNNER = str(Path(call.__file__).resolve())
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
