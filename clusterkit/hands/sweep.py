"""Sweeping: end processes and prove them dead."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from collections.abc import Callable, Collection, Iterator

from clusterkit.hands import procfs
from clusterkit.words.errors import ClusterkitError

PATIENCE = 10.0  # seconds for a process to die of SIGKILL; one that hangs in the kernel may take longer


class WillNotDie(ClusterkitError):
    """Processes that SIGKILL did not end in time. Carries their pids."""

    def __init__(self, pids: Collection[int]) -> None:
        names = ", ".join(map(str, sorted(pids)))
        super().__init__(f"Processes did not die of SIGKILL within {PATIENCE:g} s; their pids: {names}.")
        self.pids = tuple(pids)


def end_again_and_again(find: Callable[[], Collection[int]]) -> int:
    """Kill what `find` finds until it finds nothing. Returns how many were killed; raises WillNotDie."""
    killed = set[int]()
    until = time.monotonic() + PATIENCE
    while victims := find():
        killed |= {pid for pid in victims if not procfs.is_zombie(pid)}
        kill_and_wait(victims, until)
    return len(killed)


def end_descendants(parent: int) -> int:
    """Kill everything below this process, reaping what becomes its child, until there is nothing."""

    def find() -> list[int]:
        reap_zombies(procfs.children(parent))
        return procfs.descendants(parent)

    return end_again_and_again(find)


def kill_and_wait(pids: Collection[int], until: float) -> None:
    """SIGKILL processes and wait until each has ended. Raises WillNotDie at `until` (monotonic seconds)."""
    with contextlib.ExitStack() as stack:
        waiting = dict(_pidfds(pids, stack))
        poll = select.poll()
        for pidfd in waiting:
            with contextlib.suppress(OSError):
                signal.pidfd_send_signal(pidfd, signal.SIGKILL)
            poll.register(pidfd, select.POLLIN)
        while waiting:
            left = until - time.monotonic()
            ended = poll.poll(max(0, left) * 1000)
            if not ended and left <= 0:
                raise WillNotDie(waiting.values())
            for pidfd, _ in ended:
                poll.unregister(pidfd)
                del waiting[pidfd]


def reap_zombies(pids: Collection[int]) -> None:
    """Reap those of this process's children that have ended."""
    for pid in pids:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)


def _pidfds(pids: Collection[int], stack: contextlib.ExitStack) -> Iterator[tuple[int, int]]:
    for pid in pids:
        try:
            pidfd = os.pidfd_open(pid)
        except OSError:  # gone meanwhile
            continue
        stack.callback(os.close, pidfd)
        yield pidfd, pid
