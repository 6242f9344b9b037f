"""Profiling: tasks are asked through their named pipes, where the training library listens."""

from __future__ import annotations

import json
import os
from pathlib import PurePath

NOBODY = (
    "its program does not use clusterkit.training (report, serve, Checkpointer or ReportProgress), "
    "or has not come so far yet"
)


def begin_profile(pipe: PurePath, request: int, steps: int | None, seconds: float) -> bool:
    """Ask a task for a profile of that many steps, or until `end_profile`; return whether it listens."""
    return _ask(pipe, {"do": "profile", "request": request, "steps": steps, "seconds": seconds})


def end_profile(pipe: PurePath, request: int) -> None:
    """Tell a task that its profile's window is over, if the task still lives."""
    _ask(pipe, {"do": "end-profile", "request": request})


def _ask(pipe: PurePath, request: dict[str, object]) -> bool:
    try:
        descriptor = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # fails where nobody has it open
    except OSError:
        return False
    try:
        os.write(descriptor, json.dumps(request).encode() + b"\n")
    except OSError:  # full of requests that nobody has read: the task is stopped
        return False
    else:
        return True
    finally:
        os.close(descriptor)
