"""Starts threads that report a crash as a Crashed event. The event names the resource that ran out, if any."""

from __future__ import annotations

import errno
import os
import resource
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from clusterkit.words.errors import ClusterkitError, OutOfResources
from clusterkit.words.events import Crashed
from clusterkit.words.outcome import CRASHED

JOIN_WITHIN = 5.0  # seconds; how long `join` waits for a thread by default


def shortage(error: BaseException) -> str:
    """Return a sentence about the resource that an OSError reports as exhausted; empty for other errors."""
    match error.errno if isinstance(error, OSError) else None:
        case errno.EMFILE:
            limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
            return f"Too many open files: the limit is {limit}. Raise it, for example with: ulimit -n 1024"
        case errno.ENFILE:
            return "Too many files are open on this machine. Close programs."
        case errno.EAGAIN:
            return (
                "No process or thread can be started: the limit of processes is reached. End programs, or raise "
                "`ulimit -u` or the pids limit of the container."
            )
        case errno.ENOMEM:
            return "The memory is used up. Close programs."
    return ""


@contextmanager
def reporting_shortage() -> Iterator[None]:
    """Turn an OSError that reports a lack of descriptors, processes or memory into OutOfResources."""
    try:
        yield
    except OSError as error:
        if not (why := shortage(error)):
            raise
        raise OutOfResources(f"The run can't begin. {why}") from None


class ThreadStuck(ClusterkitError):
    """A thread did not end as requested, so the descriptors that the thread uses can't be closed."""


def start_thread(name: str, run: Callable[[], None], post: Callable[[Crashed], None]) -> threading.Thread:
    """Run `run` in a daemon thread, and post an unhandled exception as Crashed. Raises OSError."""

    def guarded() -> None:
        try:
            run()
        except BaseException as error:
            post(crashed(f"the thread {name!r}", error))

    thread = threading.Thread(target=guarded, name=name, daemon=True)
    try:
        thread.start()
    except RuntimeError:  # "can't start new thread": the limit of processes or memory is reached
        raise OSError(errno.EAGAIN, f"no thread can be started: {os.strerror(errno.EAGAIN)}") from None
    return thread


def crashed(where: str, error: BaseException) -> Crashed:
    """Return the event for an unexpected exception. `where` is shown to users, for example `the thread 'logs'`."""
    lines = traceback.format_exception(error)
    return Crashed(where, lines[-1].strip(), "".join(lines), shortage(error))


def join(thread: threading.Thread, within: float = JOIN_WITHIN) -> None:
    """Wait for a thread that was requested to end. Raises ThreadStuck after `within` seconds."""
    thread.join(within)
    if thread.is_alive():
        raise ThreadStuck(f"The thread {thread.name!r} did not end within {within:g} s.")


def exit_on_crash(event: Crashed) -> None:
    """Handle the crash of a thread in a command other than `up`: print the traceback and exit."""
    bug = f"{event.traceback}clusterkit itself failed in {event.where}. Please report it.\n"
    sys.stderr.write(f"clusterkit: {event.lack}\n" if event.lack else bug)
    os._exit(CRASHED)
