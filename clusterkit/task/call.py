"""Calls a pickled function: the program of every task that `Cluster(function)` starts.

This file is run by path, so that neither PYTHONPATH nor the working directory matters:

    python call.py FILE

FILE contains two pickles: the caller's `sys.path`, and the function with its arguments (pickled by cloudpickle). The
return value is pickled into the task's directory.
"""

from __future__ import annotations

import io
import os
import pickle
import sys
from pathlib import Path
from types import CodeType
from typing import Any

NO_FILE = "<dynamic-code>"  # cloudpickle 3.1.3 replaces the file name of each code object with this text


def call(path: str) -> Any:
    with Path(path).open("rb") as file:
        # `sys.path` comes first: otherwise, modules next to this file would shadow those that the function imports.
        sys.path[:] = pickle.load(file)
        function, args, kwargs = pickle.load(file)
    return function(*args, **kwargs)


def returned_file(run: Path, task: str, attempt: int) -> Path:
    return run / "tasks" / task / f"return-{attempt}.pkl"


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


def store(value: Any) -> None:
    """Pickle a return value and write the attempt's return file atomically; exit with a message if pickling fails."""
    task, attempt = os.environ["CLUSTERKIT_TASK"], int(os.environ["CLUSTERKIT_ATTEMPT"])
    try:
        data = dumps(value)
    except Exception as error:
        sys.exit(f"clusterkit: what the function returned in {task} can't be pickled: {type(error).__name__}: {error}")
    file = returned_file(Path(os.environ["CLUSTERKIT_RUN_DIR"]), task, attempt)
    part = file.with_suffix(".part")
    part.write_bytes(data)
    part.replace(file)


def main() -> None:
    store(call(sys.argv[1]))


if __name__ == "__main__":
    main()
