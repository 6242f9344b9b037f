"""The results and messages of a run whose supervisor was killed, or in which clusterkit itself failed."""

from __future__ import annotations

import os
import secrets
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

from clusterkit.store.directory import RunDirectory
from clusterkit.store.store import RunStore
from clusterkit.system.files import regular_fd
from clusterkit.views.screen import CLEAR_LINE, is_screen
from clusterkit.words.errors import ClusterkitError
from clusterkit.words.events import Crashed
from clusterkit.words.model import number_of
from clusterkit.words.outcome import CRASHED


def supervisor_lost(run_id: str, cause: str, left_behind: int) -> None:
    """Write the result of a run whose supervisor was killed, and report the loss to the user. Raises nothing.

    `cause` is a clause that describes how the supervisor was killed. The guardian has killed `left_behind` other
    processes.
    """
    with suppress(OSError, ClusterkitError):
        run = RunStore().run(run_id)
        if run.path.is_dir() and not run.result_file.exists():
            _write(run, f"the supervisor {cause}")
    with suppress(OSError, ValueError):  # the output may be closed
        what = f"{number_of('process', left_behind)} of the run {'was' if left_behind == 1 else 'were'} ended"
        message = f"clusterkit: the supervisor {cause}; {what}."
        begin = CLEAR_LINE if is_screen(sys.stderr) else ""  # the console's status line may still be on the screen
        print(f"{begin}{message}", file=sys.stderr, flush=True)


def _write(run: RunDirectory, reason: str) -> None:
    """Write the result derived from the journal, or only the reason if the journal can't be read."""
    with suppress(Exception):  # a damaged journal, or a failed import
        from clusterkit.ledger.ledger import ledger_of
        from clusterkit.ledger.takeover import lost_result
        from clusterkit.store.journal import JournalReader, events_of

        lines, info = JournalReader(run).new(), run.info()
        events, written_at = events_of(lines, "m"), max((at for at, _ in events_of(lines)), default=0.0)
        later = max(0.0, time.time() - written_at)
        if info is not None:
            ledger = ledger_of(info.job, events)
            if (result := lost_result(ledger, reason, later)) is not None:
                run.write_result(result, ledger.account())
                return
    run.write_failure(1, reason, lost=True)


FILE = "crash.txt"


def save_crash(run: RunDirectory, event: Crashed) -> str:
    """Write the traceback to the run directory, or else to the system's temporary directory; return a message."""
    if event.lack:
        return f"The run is ended at once. {event.lack}"
    text = f"In {event.where}:\n{event.traceback}\n".encode(errors="replace")
    # Others can make files in the temporary directory, so the name is not known beforehand, and the file is new.
    elsewhere = Path(tempfile.gettempdir(), f"clusterkit-{secrets.token_hex(8)}-{FILE}")
    for path, flags in ((run.path / FILE, os.O_APPEND), (elsewhere, os.O_EXCL)):
        with suppress(OSError), regular_fd(path, os.O_WRONLY | os.O_CREAT | flags) as file:
            os.write(file, text)
            return f"{event.sentence}; the run is ended at once. Please report it, with the traceback in {path}"
    return f"{event.sentence}; the run is ended at once. Please report it:\n{event.traceback}"


def end_crashed(run: RunDirectory, event: Crashed) -> int:
    """Report a crash outside the loop, write it as the run's result, and return the exit code."""
    with suppress(OSError):  # the output may be closed
        print(f"clusterkit: {save_crash(run, event)}", file=sys.stderr)
    if run.path.is_dir():
        run.write_failure(CRASHED, event.sentence)
    return CRASHED
