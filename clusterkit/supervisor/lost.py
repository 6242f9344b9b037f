"""What the guardian writes and prints if the supervisor was killed."""

from __future__ import annotations

import sys
import time
from contextlib import suppress

from clusterkit.client.directory import RunDirectory
from clusterkit.client.store import RunStore
from clusterkit.views.screen import CLEAR_LINE, is_screen
from clusterkit.words.errors import ClusterkitError
from clusterkit.words.model import number_of


def supervisor_lost(run_id: str, how: str, left: int) -> None:
    """Write the result to the run's directory, then tell the user. Raises nothing.

    `how` the supervisor was killed is a clause with it as its subject; `left` processes were killed after that.
    """
    with suppress(OSError, ClusterkitError):
        run = RunStore().run(run_id)
        if run.path.is_dir() and not run.result_file.exists():
            _write(run, f"the supervisor {how}")
    with suppress(OSError, ValueError):  # the output may be closed
        what = f"{number_of('process', left)} of the run {'was' if left == 1 else 'were'} ended"
        told = f"clusterkit: the supervisor {how}; {what}."
        begin = CLEAR_LINE if is_screen(sys.stderr) else ""  # the status line may still be there
        print(f"{begin}{told}", file=sys.stderr, flush=True)


def _write(run: RunDirectory, reason: str) -> None:
    """Write how far the run had come; if that can't be found out, the reason alone."""
    with suppress(Exception):  # whatever is in the journal, or hinders the imports, which no other run needs
        from clusterkit.client.journal import JournalReader, events_of
        from clusterkit.recovery.account import account
        from clusterkit.recovery.lost import lost_result

        lines, info = JournalReader(run).new(), run.info()
        events, written = events_of(lines, "m"), max((at for at, _ in events_of(lines)), default=0.0)
        later = max(0.0, time.time() - written)
        if info is not None and (result := lost_result(events, reason, later)) is not None:
            run.write_result(result, account(info.job, events))
            return
    run.write_failure(1, reason, lost=True)
