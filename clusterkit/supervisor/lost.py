"""What the guardian says and writes where the supervisor was killed."""

from __future__ import annotations

import json
import signal
import sys

from clusterkit.hands.rundir import runs_dir


def supervisor_lost(run_id: str, number: int, left: int) -> None:
    """Tell the user, and the run's directory; `left` processes were ended."""
    name = signal.Signals(number).name
    print(
        f"clusterkit: the supervisor was killed by {name}; {left} process(es) of the run were ended.", file=sys.stderr
    )
    path = runs_dir() / run_id / "result.json"
    if path.parent.is_dir() and not path.exists():
        reason = f"the supervisor was killed by {name}"
        path.write_text(json.dumps({"state": "failed", "exit_code": 1, "reason": reason}) + "\n")
