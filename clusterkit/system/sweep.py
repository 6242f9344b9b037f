"""Kills processes, and waits until each one is proven dead."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from collections.abc import Callable, Collection, Iterator

from clusterkit.system import procfs
from clusterkit.system.process import first_readable, reap_ended
from clusterkit.system.procfs import OUT_OF_RESOURCES
from clusterkit.words.errors import CannotLook, ClusterkitError

RETRY_EVERY = 0.05  # seconds; the pause before another try when no descriptor is free
LINGERS = "CLUSTERKIT_LINGERS"  # the environment variable of processes that outlive their run for a limited time
KILL_TIMEOUT = 10.0  # seconds; the time limit for SIGKILL to take effect, which a hang in the kernel delays


class ProcessesSurvived(ClusterkitError):
    """Processes did not die of SIGKILL in time. `unseen`, if set, is the reason why this could not be checked."""

    def __init__(self, pids: Collection[int], within: float, unseen: str = "") -> None:
        names = ", ".join(map(str, sorted(pids)))
        dying = (
            f"Processes did not die within {within:g} s of SIGKILL (pid {names}): a debugger holds them, or they wait "
            "in the kernel, for example for a disk or a network file system. clusterkit leaves them behind."
        )
        super().__init__(f"clusterkit can't check whether processes are left: {unseen}." if unseen else dying)
        self.pids = tuple(pids)
        self.unseen = unseen


def kill_until_gone(find: Callable[[], Collection[int]], within: float | None = None) -> int:
    """Kill the processes that `find` returns, until it returns no new processes; return how many were killed.

    A zombie counts as new the first time that it is found: its children are given another parent, so `find` has to look
    for them once more. After that, the zombie is ignored, since a debugger may keep it. Tries again while no descriptor
    is free. After `within` seconds, by default KILL_TIMEOUT, raises ProcessesSurvived.
    """
    seen, killed = set[int](), set[int]()
    within = KILL_TIMEOUT if within is None else within
    until = time.monotonic() + within
    while True:
        try:
            if not (found := [pid for pid in find() if pid not in seen or _is_alive(pid)]):
                return len(killed)
            living = [pid for pid in found if _is_alive(pid)]
            if time.monotonic() > until:  # for example, because the processes fork faster than they are killed
                raise ProcessesSurvived(living or found, within)
            seen.update(found)
            killed.update(living)
            kill_and_wait(living, until, within)
        except CannotLook as error:
            if time.monotonic() > until:
                raise ProcessesSurvived((), within, error.why) from None
            time.sleep(RETRY_EVERY)


def end_descendants(within: float | None = None) -> int:
    """Kill and reap all descendants of this process; return how many were killed. Raises ProcessesSurvived.

    Spares those that linger on purpose.
    """

    def find() -> list[int]:
        for pid in procfs.children(os.getpid()):
            reap_ended(pid)
        return [pid for pid in procfs.descendants(os.getpid()) if not lingers(pid)]

    return kill_until_gone(find, within)


def lingers(pid: int) -> bool:
    """Return whether a process outlives its run on purpose, and ends by itself after a limited time."""
    return LINGERS in procfs.environ(pid)


def kill_and_wait(pids: Collection[int], until: float, within: float = KILL_TIMEOUT) -> None:
    """Kill processes, and wait for each. Raises ProcessesSurvived at `until` (monotonic), or CannotLook."""
    with contextlib.ExitStack() as stack:
        waiting = dict(_pidfds(pids, stack))  # lacks processes if no descriptor was free; the caller retries those
        poll = select.poll()
        for pidfd in waiting:
            with contextlib.suppress(OSError):
                signal.pidfd_send_signal(pidfd, signal.SIGKILL)
            poll.register(pidfd, select.POLLIN)
        while waiting:
            left = until - time.monotonic()
            ended = poll.poll(max(0, left) * 1000)
            if not ended and left <= 0:
                raise ProcessesSurvived(waiting.values(), within)
            for pidfd, _ in ended:
                poll.unregister(pidfd)
                del waiting[pidfd]


def _is_alive(pid: int) -> bool:
    """Return whether any thread of the process is left. A zombie has threads if only its first thread has ended."""
    with contextlib.ExitStack() as stack:
        return any(first_readable((pidfd,), 0) is None for pidfd, _ in _pidfds([pid], stack))


def _pidfds(pids: Collection[int], stack: contextlib.ExitStack) -> Iterator[tuple[int, int]]:
    """Open pidfds for as many processes as there are free descriptors. Raises CannotLook if no descriptor is free."""
    found = False
    for pid in pids:
        try:
            pidfd = os.pidfd_open(pid)
        except OSError as error:
            if error.errno not in OUT_OF_RESOURCES:  # the process is gone
                continue
            if found:
                return
            raise CannotLook(os.strerror(error.errno)) from None
        found = True
        stack.callback(os.close, pidfd)
        yield pidfd, pid
