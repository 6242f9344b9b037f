"""Gathering: waits for the hosts of a run."""

from __future__ import annotations

import time
from collections.abc import Callable

from clusterkit.backends.base import Receiver
from clusterkit.backends.hosts.allocation import Allocation
from clusterkit.words.errors import NoHosts

LOOK_EVERY = 0.25  # seconds between two looks whether the engine has given up


def wait_for_hosts(
    done: Callable[[], bool], problems: list[str], allocation: Allocation, inbox: Receiver, limit: float
) -> None:
    """Wait until it is `done`, for `limit` seconds. Raises NoHosts with all problems as soon as there is one."""
    until = time.monotonic() + limit
    while not done() and not problems and time.monotonic() < until:
        why = allocation.failed()
        if why is not None:
            problems.append(why)
        if not inbox.work_until(lambda: done() or bool(problems), LOOK_EVERY) and inbox.is_ending:
            problems.append("the run was asked to end while it waited for its hosts")
    if not done():
        raise NoHosts("; ".join(problems) or f"they were waited for for {limit:g} s")
