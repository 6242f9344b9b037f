"""What the guardian writes and says where the supervisor was killed."""

from __future__ import annotations

import json
import signal
import sys
from contextlib import suppress

from clusterkit.hands.rundir import runs_dir


def supervisor_lost(run_id: str, number: int, left: int) -> None:
    """Put the result into the run's directory, then tell the user; `left` processes were ended. Raises nothing."""
    name = _name(number)
    with suppress(OSError, RuntimeError):  # a full disk, or no home directory
        _write_result(run_id, f"the supervisor was killed by {name}")
    with suppress(OSError, ValueError):  # whoever read it may be gone too
        told = f"clusterkit: the supervisor was killed by {name}; {left} process(es) of the run were ended."
        print(told, file=sys.stderr, flush=True)


def _write_result(run_id: str, reason: str) -> None:
    path = runs_dir() / run_id / "result.json"
    if path.parent.is_dir() and not path.exists():
        part = path.with_name(".result.json.part")
        part.write_text(json.dumps({"state": "failed", "exit_code": 1, "reason": reason}) + "\n")
        part.replace(path)


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # a real-time signal
        return f"signal {number}"
