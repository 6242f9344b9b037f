"""Requests of clusterkit's supervisor to this task: a thread that sleeps in a read until there is one."""

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

_LONGEST = 1 << 12  # bytes of a request


def listen(progress: str) -> None:
    """Take requests from the named pipe beside the one for progress, where there is one."""
    try:
        # For writing too, so that the pipe is never at its end.
        pipe = os.open(Path(progress).with_name("requests"), os.O_RDWR | os.O_CLOEXEC)
    except OSError:  # a supervisor that asks for nothing
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
        # Each line was written at once, and is shorter than what a pipe keeps together.
        for line in os.read(pipe, _LONGEST).splitlines() if ready else ():
            with suppress(ValueError, KeyError, TypeError):  # not of this version's
                profile = _take(json.loads(line), profile)


def _take(request: dict[str, Any], profile: Profile | None) -> Profile | None:
    """Do what is asked for; return the profile that is being taken then."""
    number = int(request["request"])
    if request["do"] == "profile":
        if profile is not None:
            profile.end("another one was asked for")
        steps = request["steps"]
        new = Profile(number, None if steps is None else int(steps), float(request["seconds"]))
        new.begin()
        return new
    if request["do"] == "end-profile" and profile is not None and profile.request == number:
        profile.end()
        return None
    return profile
