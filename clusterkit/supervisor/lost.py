"""What the guardian writes and prints if the supervisor was killed."""

from __future__ import annotations

import signal
import sys
from contextlib import suppress

from clusterkit.client.store import RunStore
from clusterkit.views.screen import CLEAR_LINE, is_screen
from clusterkit.words.model import number_of


def supervisor_lost(run_id: str, number: int, left: int) -> None:
    """Write the result to the run's directory, then tell the user; `left` processes were killed. Raises nothing."""
    name = _name(number)
    with suppress(OSError, RuntimeError):  # no home directory
        run = RunStore().run(run_id)
        if run.path.is_dir() and not run.result_file.exists():
            run.write_failure(1, f"the supervisor was killed by {name}", lost=True)
    with suppress(OSError, ValueError):  # the output may be closed
        what = f"{number_of('process', left)} of the run {'was' if left == 1 else 'were'} ended"
        told = f"clusterkit: the supervisor was killed by {name}; {what}."
        begin = CLEAR_LINE if is_screen(sys.stderr) else ""  # the status line may still be there
        print(f"{begin}{told}", file=sys.stderr, flush=True)


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal
        return f"signal {number}"
