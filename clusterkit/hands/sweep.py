"""Sweeping: end processes and prove them dead."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from collections.abc import Callable, Collection, Iterator

from clusterkit.hands import procfs
from clusterkit.hands.procfs import WANT
from clusterkit.words.errors import CannotLook, ClusterkitError

PAUSE = 0.05  # seconds until the next look where there was no descriptor for one
PATIENCE = 10.0  # seconds for a process to die of SIGKILL; one that hangs in the kernel may take longer


class WillNotDie(ClusterkitError):
    """Processes that SIGKILL did not end in time. Carries their pids, or why they could not even be looked for."""

    def __init__(self, pids: Collection[int], unseen: str = "") -> None:
        names = ", ".join(map(str, sorted(pids)))
        dying = f"Processes did not die of SIGKILL within {PATIENCE:g} s; their pids: {names}."
        super().__init__(f"Whether a process is left can't be seen: {unseen}." if unseen else dying)
        self.pids = tuple(pids)
        self.unseen = unseen


def end_again_and_again(find: Callable[[], Collection[int]]) -> int:
    """Kill what `find` finds until it finds nothing. Returns how many were killed; raises WillNotDie.

    Where nothing can be found for want of descriptors, it is tried again for as long as processes may take to die.
    """
    killed = set[int]()
    until = time.monotonic() + PATIENCE
    while True:
        try:
            if not (victims := find()):
                return len(killed)
            killed |= {pid for pid in victims if not procfs.is_zombie(pid)}
            kill_and_wait(victims, until)
        except CannotLook as error:
            if time.monotonic() > until:
                raise WillNotDie((), error.why) from None
            time.sleep(PAUSE)


def end_descendants(parent: int) -> int:
    """Kill everything below this process, reaping what becomes its child, until there is nothing."""

    def find() -> list[int]:
        reap_zombies(procfs.children(parent))
        return procfs.descendants(parent)

    return end_again_and_again(find)


def kill_and_wait(pids: Collection[int], until: float) -> None:
    """SIGKILL processes and wait until each has ended. Raises WillNotDie at `until` (monotonic seconds).

    Raises CannotLook where there is no descriptor to wait with.
    """
    with contextlib.ExitStack() as stack:
        waiting = dict(_pidfds(pids, stack))  # perhaps not of all; who finds them finds the others again
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
    """As many as there are descriptors for. Raises CannotLook where there is none at all."""
    found = False
    for pid in pids:
        try:
            pidfd = os.pidfd_open(pid)
        except OSError as error:
            if error.errno not in WANT:  # gone meanwhile
                continue
            if found:
                return
            raise CannotLook(os.strerror(error.errno)) from None
        found = True
        stack.callback(os.close, pidfd)
        yield pidfd, pid
