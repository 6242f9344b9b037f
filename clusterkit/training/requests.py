"""Requests from clusterkit's supervisor to this task, such as for a profile, read by a thread of their own."""

from __future__ import annotations

import json
import os
import select
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from clusterkit.training.profiler import Profile

_READ_SIZE = 1 << 12  # bytes


def listen(progress: str) -> None:
    """Start a thread that reads requests from the FIFO `requests` beside the FIFO `progress`, if it exists."""
    try:
        # Opened for writing too, so that reads never meet the end of file.
        pipe = os.open(Path(progress).with_name("requests"), os.O_RDWR | os.O_CLOEXEC)
    except OSError:  # this supervisor sends no requests
        return
    threading.Thread(target=_serve, args=(pipe,), name="clusterkit requests", daemon=True).start()


def _serve(pipe: int) -> None:
    profile: Profile | None = None
    while True:
        timeout = None if profile is None else max(0.0, profile.until - time.monotonic())
        ready, _, _ = select.select([pipe], [], [], timeout)
        if not ready and profile is not None:
            profile.end(f"it reported no step within {profile.seconds:g} s")
            profile = None
        # Reads return whole lines: each is written at once, and is shorter than PIPE_BUF.
        for line in os.read(pipe, _READ_SIZE).splitlines() if ready else ():
            with suppress(ValueError, KeyError, TypeError):  # a request that this version does not know
                profile = _handle(json.loads(line), profile)


def _handle(request: dict[str, Any], profile: Profile | None) -> Profile | None:
    """Carry out a request. Returns the profile that is running afterwards, if any."""
    number = int(request["request"])
    if request["do"] == "profile":
        if profile is not None:
            profile.end("another profile was requested")
        steps = request["steps"]
        new = Profile(number, None if steps is None else int(steps), float(request["seconds"]))
        new.begin()
        return new
    if request["do"] == "end-profile" and profile is not None and profile.request == number:
        profile.end()
        return None
    return profile
