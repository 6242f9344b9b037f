"""The barrier under every thread of the supervisor: none of them ends without the run learning of it."""

from __future__ import annotations

import os
import sys
import threading
import traceback
from collections.abc import Callable

from clusterkit.words.errors import ClusterkitError
from clusterkit.words.events import Crashed
from clusterkit.words.outcome import CRASHED

JOIN_WITHIN = 5.0  # seconds for a thread that was told to end


class ThreadStuck(ClusterkitError):
    """A thread was told to end and did not: what it uses can't be closed."""


def start_thread(name: str, run: Callable[[], None], post: Callable[[Crashed], None]) -> threading.Thread:
    """Run `run` in a daemon thread; an exception that leaves it is posted as Crashed."""

    def guarded() -> None:
        try:
            run()
        except BaseException as error:
            post(crashed(f"the thread {name!r}", error))

    thread = threading.Thread(target=guarded, name=name, daemon=True)
    thread.start()
    return thread


def crashed(where: str, error: BaseException) -> Crashed:
    """The event for an exception that nobody expected. `where` is for people: `the thread 'logs'`."""
    lines = traceback.format_exception(error)
    return Crashed(where, lines[-1].strip(), "".join(lines))


def join(thread: threading.Thread, within: float = JOIN_WITHIN) -> None:
    """Wait for a thread that was told to end. Raises ThreadStuck after so many seconds."""
    thread.join(within)
    if thread.is_alive():
        raise ThreadStuck(f"The thread {thread.name!r} did not end within {within:g} s.")


def end_command(event: Crashed) -> None:
    """What a command other than `up` does about a thread that failed: it ends, and says so."""
    sys.stderr.write(f"{event.traceback}clusterkit itself failed in {event.where}. Please report it.\n")
    os._exit(CRASHED)
