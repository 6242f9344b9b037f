"""Sweeping: end processes and prove them dead."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import time
from collections.abc import Callable, Collection, Iterator

from clusterkit.system import procfs
from clusterkit.system.procfs import WANT
from clusterkit.words.errors import CannotLook, ClusterkitError

PAUSE = 0.05  # seconds until the next look where there was no descriptor for one
PATIENCE = 10.0  # seconds for a process to die of SIGKILL; one that hangs in the kernel may take longer


class WillNotDie(ClusterkitError):
    """Processes that SIGKILL did not end in time. Carries their pids, or why they could not even be looked for."""

    def __init__(self, pids: Collection[int], within: float, unseen: str = "") -> None:
        names = ", ".join(map(str, sorted(pids)))
        dying = (
            f"Processes did not die within {within:g} s of SIGKILL (pid {names}): a debugger holds them, or they wait "
            "in the kernel, for example for a disk or a network file system. They are left behind."
        )
        super().__init__(f"Whether a process is left can't be seen: {unseen}." if unseen else dying)
        self.pids = tuple(pids)
        self.unseen = unseen


def kill_until_gone(find: Callable[[], Collection[int]], within: float | None = None) -> int:
    """Kill what `find` finds until it finds nothing new. Returns how many were killed; raises WillNotDie.

    What is dead and not reaped counts as new once: what it left has another parent by the next look. It may stay for
    as long as a debugger holds it. Where nothing can be found for want of descriptors, it is tried again.
    """
    seen, killed = set[int](), set[int]()
    within = PATIENCE if within is None else within
    until = time.monotonic() + within
    while True:
        try:
            if not (found := [pid for pid in find() if pid not in seen or _lives(pid)]):
                return len(killed)
            living = [pid for pid in found if _lives(pid)]
            if time.monotonic() > until:  # what is killed makes others faster than that
                raise WillNotDie(living or found, within)
            seen.update(found)
            killed.update(living)
            kill_and_wait(living, until, within)
        except CannotLook as error:
            if time.monotonic() > until:
                raise WillNotDie((), within, error.why) from None
            time.sleep(PAUSE)


def end_descendants(parent: int, within: float | None = None) -> int:
    """Kill everything below this process, reaping what becomes its child, until there is nothing. Raises WillNotDie."""

    def find() -> list[int]:
        reap_zombies(procfs.children(parent))
        return procfs.descendants(parent)

    return kill_until_gone(find, within)


def kill_and_wait(pids: Collection[int], until: float, within: float = PATIENCE) -> None:
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
                raise WillNotDie(waiting.values(), within)
            for pidfd, _ in ended:
                poll.unregister(pidfd)
                del waiting[pidfd]


def reap_zombies(pids: Collection[int]) -> None:
    """Reap those of this process's children that have ended."""
    for pid in pids:
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)


def _lives(pid: int) -> bool:
    """Whether any thread of the process is left; a zombie has none, unless only its first one has ended."""
    with contextlib.ExitStack() as stack:
        poll = select.poll()
        for pidfd, _ in _pidfds([pid], stack):
            poll.register(pidfd, select.POLLIN)
            return not poll.poll(0)
    return False


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
