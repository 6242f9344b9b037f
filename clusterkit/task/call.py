"""Calls a pickled function: the program of every task that `Cluster(function)` starts.

This file is run by path, so that neither PYTHONPATH nor the working directory matters:

    python call.py FILE [FORM]

FILE contains two pickles: the caller's `sys.path`, and the function with its arguments (pickled by cloudpickle). The
return value is written into the task's directory in the form that FORM or the variable CLUSTERKIT_RETURNS names:
`pickle` (the default), or `plain`, which the caller can read without running code.
"""

from __future__ import annotations

import io
import os
import pickle
import sys
from pathlib import Path
from types import CodeType
from typing import Any

PICKLE, PLAIN = "pickle", "plain"
ENDINGS = {PICKLE: "pkl", PLAIN: "json"}
FORM = "CLUSTERKIT_RETURNS"  # a variable, set on hosts
NO_FILE = "<dynamic-code>"  # cloudpickle 3.1.3 replaces the file name of each code object with this text


def call(path: str) -> Any:
    with Path(path).open("rb") as file:
        # `sys.path` comes first: otherwise, modules next to this file would shadow those that the function imports.
        sys.path[:] = pickle.load(file)
        function, args, kwargs = pickle.load(file)
    return function(*args, **kwargs)


def returned_file(run: Path, task: str, attempt: int, form: str = PICKLE) -> Path:
    return run / "tasks" / task / f"return-{attempt}.{ENDINGS[form]}"


def dumps(value: object) -> bytes:
    """Pickle a value with cloudpickle, but keep the file names of functions, so that tracebacks show source lines."""
    import cloudpickle

    class Pickler(cloudpickle.Pickler):  # type: ignore[misc]  # cloudpickle ships no types
        def reducer_override(self, obj: object) -> Any:
            if not isinstance(obj, CodeType):
                return super().reducer_override(obj)
            make, values = self.dispatch_table[CodeType](obj)
            return make, tuple(obj.co_filename if value == NO_FILE else value for value in values)

    file = io.BytesIO()
    Pickler(file).dump(value)
    return file.getvalue()


def dumps_plain(value: object, task: str) -> bytes:
    """Encode a value as JSON; exit with a message if it contains an object that JSON can't hold."""
    from importlib.util import module_from_spec, spec_from_file_location

    # By path, since `sys.path` is the caller's, and may not have clusterkit.
    spec = spec_from_file_location("clusterkit_plain_values", Path(__file__).with_name("plain_values.py"))
    assert spec is not None
    assert spec.loader is not None
    values = module_from_spec(spec)
    spec.loader.exec_module(values)
    try:
        data: bytes = values.dumps(value)
    except values.NotPlain as error:
        sys.exit(
            f"clusterkit: what the function returned in {task} contains an object of the type {error}. From other "
            f"hosts come {values.KINDS}, since reading a pickle could run code of the host. If you trust the hosts, "
            'write Cluster(..., returns="pickle").'
        )
    return data


def store(value: Any, form: str) -> None:
    """Write a return value to the attempt's return file atomically; exit with a message if it can't be written."""
    task, attempt = os.environ["CLUSTERKIT_TASK"], int(os.environ["CLUSTERKIT_ATTEMPT"])
    try:
        data = dumps_plain(value, task) if form == PLAIN else dumps(value)
    except Exception as error:
        how = "written as JSON" if form == PLAIN else "pickled"
        sys.exit(f"clusterkit: what the function returned in {task} can't be {how}: {type(error).__name__}: {error}")
    file = returned_file(Path(os.environ["CLUSTERKIT_RUN_DIR"]), task, attempt, form)
    part = file.with_suffix(".part")
    part.write_bytes(data)
    part.replace(file)


def main() -> None:
    path, *form = sys.argv[1:]
    store(call(path), form[0] if form else os.environ.get(FORM, PICKLE))


if __name__ == "__main__":
    main()
