"""Calls a pickled function: the program of every task of `Cluster(function)`.

Run by path, so that neither PYTHONPATH nor the task's directory matters:

    python call.py FILE

FILE holds two pickles: the `sys.path` with which the function was pickled, and the function with its arguments, by
cloudpickle. What it returns is pickled into the task's directory.
"""

from __future__ import annotations

import os
import pickle
import sys
from pathlib import Path
from types import TracebackType
from typing import Any


def without_this_file(traceback: TracebackType | None) -> TracebackType | None:
    """The traceback from the function's own frame on."""
    while traceback is not None and traceback.tb_frame.f_code.co_filename == __file__:
        traceback = traceback.tb_next
    return traceback


def show(kind: type[BaseException], error: BaseException, traceback: TracebackType | None) -> None:
    """Show an uncaught exception as if the function had been called by nobody."""
    traceback = without_this_file(traceback)
    sys.__excepthook__(kind, error.with_traceback(traceback), traceback)


def call(path: str) -> Any:
    """Load the function with the path it was made with, and call it."""
    with Path(path).open("rb") as file:
        # First of all: this file's directory, which is first in the path now, has modules of clusterkit's own.
        sys.path[:] = pickle.load(file)
        function, args, kwargs = pickle.load(file)
    return function(*args, **kwargs)


def returned_file(run: Path, task: str, attempt: int) -> Path:
    """Where an attempt's return value is."""
    return run / "tasks" / task / f"return-{attempt}.pkl"


def store(value: Any) -> None:
    """Write the return value, whole or not at all. Ends the task with a sentence where it can't be pickled."""
    import cloudpickle

    task, attempt = os.environ["CLUSTERKIT_TASK"], int(os.environ["CLUSTERKIT_ATTEMPT"])
    try:
        data = cloudpickle.dumps(value)
    except Exception as error:
        sys.exit(f"clusterkit: what the function returned in {task} can't be pickled: {type(error).__name__}: {error}")
    file = returned_file(Path(os.environ["CLUSTERKIT_RUN_DIR"]), task, attempt)
    part = file.with_suffix(".part")
    part.write_bytes(data)
    part.replace(file)


def main() -> None:
    """See the module's docstring."""
    sys.excepthook = show
    store(call(sys.argv[1]))


if __name__ == "__main__":
    main()
