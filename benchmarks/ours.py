"""Our command lines, and what a run of ours tells; the one place where they are built."""

from __future__ import annotations

import json
import sys
from pathlib import Path

COMMAND = (sys.executable, "-m", "clusterkit")
HOME = "home"  # of the runs, below a competitor's directory


def up(*args: str | Path, start: str | None = None) -> list[str]:
    """`clusterkit up`; `start` is `warm` or `cold` where that is what is compared."""
    flags = ["--start", start] if start else []
    return [*COMMAND, "up", *flags, *map(str, args)]


def warm(verb: str) -> list[str]:
    """`clusterkit warm start` or `stop`: the fork server that outlives a run."""
    return [*COMMAND, "warm", verb]


def env(place: Path) -> dict[str, str]:
    """A state directory of its own."""
    return {"CLUSTERKIT_HOME": str(place / HOME)}


def supervisor(place: Path) -> int | None:
    """The supervisor's pid, once there is one."""
    for file in (place / HOME).glob("runs/*/job.json"):
        pid: int = json.loads(file.read_text())["pid"]
        return pid
    return None


def last_step(place: Path) -> int:
    """The highest step that a run of ours has taken note of so far; 0 if none."""
    journals = [path.read_bytes() for path in (place / HOME).glob("runs/*/journal.jsonl")]
    events = [json.loads(line) for journal in journals for line in journal.split(b"\n")[:-1]]
    return max((event["step"] for event in events if event["event"] == "Progressed"), default=0)
