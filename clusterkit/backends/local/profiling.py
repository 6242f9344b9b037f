"""Profile requests, which tasks get through named pipes that the training library reads."""

from __future__ import annotations

import json
import os
from pathlib import PurePath

NOBODY = (
    "its program does not use clusterkit.training (report, serve, Checkpointer or ReportProgress), "
    "or has not come so far yet"
)


def begin_profile(pipe: PurePath, request: int, steps: int | None, seconds: float) -> bool:
    """Request a profile of that many steps, or until `end_profile`; return whether the task reads requests."""
    return _ask(pipe, {"do": "profile", "request": request, "steps": steps, "seconds": seconds})


def end_profile(pipe: PurePath, request: int) -> None:
    """Tell a task, if it is alive, that its profile's window is over."""
    _ask(pipe, {"do": "end-profile", "request": request})


def _ask(pipe: PurePath, request: dict[str, object]) -> bool:
    try:
        descriptor = os.open(pipe, os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC)  # fails if the task has not opened it
    except OSError:
        return False
    try:
        os.write(descriptor, json.dumps(request).encode() + b"\n")
    except OSError:  # the task is stopped, and its pipe full of requests
        return False
    else:
        return True
    finally:
        os.close(descriptor)
