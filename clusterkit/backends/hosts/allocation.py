"""An allocation: the hosts that an engine gives to a run."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Protocol

from clusterkit.backends.base import Post
from clusterkit.system.barrier import start_thread
from clusterkit.system.process import start_session
from clusterkit.words.events import AllocationEnding, Interrupted

KILLED_WITHIN = 5.0  # seconds; how long to wait for a killed process to end, since it may hang in a disk wait
TAIL = 2000  # bytes; how much to read of the end of the agents' output, to find the reason for a failure
LOOK_EVERY = 0.25  # seconds between checks of whether the allocation has failed


class Allocation(Protocol):
    """The hosts that an engine gives to a run, and their agents. Call its methods in the loop's thread."""

    @property
    def address(self) -> str:
        """Return the address at which the supervisor listens, unless the user chooses one."""

    def start(self, endpoint: str, key: Path) -> None:
        """Start an agent on each host. The agents connect to the supervisor at `endpoint`. Raises ClusterkitError."""

    def failed(self) -> str | None:
        """Return the reason why no further agents will connect, as a clause; None while more agents may connect.

        Called repeatedly while the run waits for agents. Raises BadJob if an agent can't be started on a host.
        """

    def ending(self, signal: int, elsewhere: bool = False) -> AllocationEnding | Interrupted | None:
        """Return AllocationEnding if a signal means that the allocation ends and the run continues in another.

        The signal was sent to the supervisor or, if `elsewhere`, to an agent. For a signal to an agent, None means that
        the signal concerns that agent alone, and Interrupted means that it concerns the whole run. This method may
        block, and may be called in any thread.
        """
        return None

    def request_next(self) -> str | None:
        """Request another allocation for the suspended run, as the last action in this allocation.

        Return a sentence about the failure; None if the request succeeded, or if no request is needed, because whoever
        started the run also continues it.
        """
        return None

    def stop(self) -> None:
        """End the remaining agents. May be called before `start`."""


def start_agents(argv: Sequence[str], log: Path, pass_fds: Sequence[int] = ()) -> subprocess.Popen[bytes]:
    """Start an agent, or a process that starts agents. Output goes to `log`. Ctrl-C has no effect. Raises OSError."""
    with log.open("ab") as output:
        return start_session(argv, output, pass_fds=pass_fds)


def end_all(processes: Collection[subprocess.Popen[bytes]], within: float) -> None:
    """Wait up to `within` seconds for processes to end, and kill the rest."""
    until = time.monotonic() + within
    for one in processes:
        try:
            one.wait(max(0.0, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            one.kill()
    for one in processes:
        with suppress(subprocess.TimeoutExpired):
            one.wait(KILLED_WITHIN)


def last_line(file: Path) -> str:
    """Return the last non-empty line of the agents' output, or an empty string."""
    try:
        lines = file.read_bytes()[-TAIL:].decode(errors="replace").strip().splitlines()
    except OSError:
        return ""
    return lines[-1] if lines else ""


def query_ending(allocation: Allocation, signal: int, answer: Callable[[bool], None], post: Post) -> None:
    """Find out, in a thread, whether a signal concerns one agent alone; post `answer` and any event for the run."""

    def find_out() -> None:
        ending = allocation.ending(signal, elsewhere=True)
        post(partial(answer, ending is None))
        if ending is not None:
            post(ending)

    start_thread("notice", find_out, post)
