"""Runs a training program unchanged and notes when it was started, served, and had done its steps.

    python stamped.py STAMPS PROGRAM [ARGS...]

Each note is a JSON line with monotonic time, which is the same for all processes.
"""

from __future__ import annotations

import atexit
import json
import os
import runpy
import sys
import time
from pathlib import Path
from typing import Any

from clusterkit import training
from clusterkit.training import progress

EVERY = 0.25  # seconds between two notes of steps


class Notes:
    """The open file of notes."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        self._report = training.report
        self._noted = 0.0
        self._step = -1

    def note(self, kind: str, step: int = 0) -> None:
        """Append one."""
        line = {"kind": kind, "at": time.monotonic(), "task": training.task(), "pid": os.getpid(), "step": step}
        os.write(self._file, json.dumps(line).encode() + b"\n")

    def report(self, step: int, **metrics: Any) -> None:
        """In the place of `training.report`."""
        if time.monotonic() - self._noted >= EVERY:
            self._noted = time.monotonic()
            self.note("step", step)
        self._step = step
        self._report(step, **metrics)

    def last(self) -> None:
        """The last step, when the program ends."""
        if self._step >= 0:
            self.note("end", self._step)


def main() -> None:
    """See the module's docstring."""
    notes = Notes(sys.argv[1])
    notes.note("started")
    send = progress.ProgressChannel.send

    def noted_send(channel: progress.ProgressChannel, kind: str, **fields: object) -> None:
        notes.note(f"{fields['phase']} {'begun' if fields['begun'] else 'over'}" if kind == "phase" else kind)
        send(channel, kind, **fields)

    vars(training)["report"] = notes.report
    progress.ProgressChannel.send = noted_send  # type: ignore[method-assign, assignment]
    atexit.register(notes.last)
    program = sys.argv[2]
    sys.argv[:] = sys.argv[2:]
    sys.path[0] = str(Path(program).parent)
    import tensorflow  # noqa: F401 - as the program does; clusterkit looks whether a program's text does

    runpy.run_path(program, run_name="__main__")


if __name__ == "__main__":
    main()
