"""If clusterkit itself fails: a file with the traceback, a sentence that names it, and a result."""

from __future__ import annotations

import os
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

from clusterkit.client.directory import RunDirectory
from clusterkit.words.events import Crashed
from clusterkit.words.outcome import CRASHED

FILE = "crash.txt"


def keep(run: RunDirectory, event: Crashed) -> str:
    """Write the traceback to the run's directory, or elsewhere if that is full; return a sentence for the user.

    If the machine has run out of something, that is the sentence.
    """
    if event.lack:
        return f"The run is ended at once. {event.lack}"
    for directory in (run.path, Path(tempfile.gettempdir())):
        path = directory / (FILE if directory == run.path else f"clusterkit-{os.getpid()}-{FILE}")
        with suppress(OSError), path.open("a") as file:
            file.write(f"In {event.where}:\n{event.traceback}\n")
            return f"{event.sentence}; the run is ended at once. Please report it, with the traceback in {path}"
    return f"{event.sentence}; the run is ended at once. Please report it:\n{event.traceback}"


def end(run: RunDirectory, event: Crashed) -> int:
    """Report a failure outside the loop, write it to the result, and return the exit code."""
    with suppress(OSError):  # whoever started the run may have closed its output
        print(f"clusterkit: {keep(run, event)}", file=sys.stderr)
    if run.path.is_dir():
        run.write_failure(CRASHED, event.sentence)
    return CRASHED
