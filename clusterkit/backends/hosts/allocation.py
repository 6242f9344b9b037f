"""An allocation: the hosts that an engine gives to a run."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Protocol

from clusterkit.backends.base import Post
from clusterkit.system.barrier import start_thread
from clusterkit.words.events import AllocationEnding, Interrupted

KILLED_WITHIN = 5.0  # seconds to wait for a killed process; one that waits for a disk does not end
TAIL = 2000  # bytes at the end of an agent's output in which to find the reason of a failure
LOOK_EVERY = 0.25  # seconds between two looks whether the engine has given up


class Allocation(Protocol):
    """The hosts that an engine gives to a run, and their agents. Its methods are for the thread of the loop."""

    @property
    def address(self) -> str:
        """Where the supervisor is to listen, if the user does not say."""

    def start(self, endpoint: str, key: Path) -> None:
        """Start an agent on each host, which connects to the supervisor at `host:port`. Raises ClusterkitError."""

    def failed(self) -> str | None:
        """Return why no further agents will come, as a clause; None as long as some may.

        Called again and again while the run waits for agents. Raises BadJob if a host can't have one as it is.
        """

    def ending(self, signal: int, elsewhere: bool = False) -> AllocationEnding | Interrupted | None:
        """Return whether a signal means the end of the allocation, and that the run continues in another one.

        The signal was sent to the supervisor, or to an agent (`elsewhere`); then Interrupted says that it is meant for
        the whole run, and not for that agent alone. For any thread; may take a while.
        """
        return None

    def again(self) -> str | None:
        """Let the suspended run continue in another allocation, as the last action in this one.

        Return a sentence about why that failed; None if it did not, or if whoever started the run continues it.
        """
        return None

    def stop(self) -> None:
        """End the agents that are left, also if none was started."""


def end_all(processes: Collection[subprocess.Popen[bytes]], within: float) -> None:
    """Wait this many seconds for processes to end, and kill the rest."""
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


def ask(allocation: Allocation, signal: int, answer: Callable[[bool], None], post: Post) -> None:
    """Answer, in the loop's thread, whether the signal is for that agent alone; tell the run if its allocation ends."""

    def find_out() -> None:
        ending = allocation.ending(signal, elsewhere=True)
        post(partial(answer, ending is None))
        if ending is not None:
            post(ending)

    start_thread("notice", find_out, post)
