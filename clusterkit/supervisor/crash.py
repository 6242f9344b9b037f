"""Where clusterkit itself fails: a file with the traceback, one sentence that names it, and a result."""

from __future__ import annotations

import os
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

from clusterkit.client.store import RESULT, read_json, write_json
from clusterkit.words.events import Crashed
from clusterkit.words.outcome import CRASHED

FILE = "crash.txt"


def keep(run: Path, event: Crashed) -> str:
    """Write the traceback into the run's directory, or where there is room; return the sentence for the user."""
    for directory in (run, Path(tempfile.gettempdir())):
        path = directory / (FILE if directory == run else f"clusterkit-{os.getpid()}-{FILE}")
        with suppress(OSError), path.open("a") as file:
            file.write(f"In {event.where}:\n{event.traceback}\n")
            return f"{event.sentence}; the run is ended at once. Please report it, with the traceback in {path}"
    return f"{event.sentence}; the run is ended at once. Please report it:\n{event.traceback}"


def end(run: Path, event: Crashed) -> int:
    """For what fails beside the loop: say it, put it into the result, and return the exit code."""
    with suppress(OSError):  # whoever started the run may have closed its output
        print(f"clusterkit: {keep(run, event)}", file=sys.stderr)
    if run.is_dir():
        write_bare_result(run, CRASHED, event.sentence)
    return CRASHED


def write_bare_result(run: Path, exit_code: int, reason: str) -> None:
    """Say in result.json that the run failed and why, beside what it may say already. For the last moment: no error."""
    with suppress(OSError, ValueError):
        known = read_json(run / RESULT)
        write_json(run / RESULT, {**known, "state": "failed", "exit_code": exit_code, "reason": reason})
