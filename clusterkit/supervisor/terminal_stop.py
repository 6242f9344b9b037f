"""Ctrl-Z: pauses the whole job before the shell gets its terminal back, and continues the job with `fg` or `bg`."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from types import FrameType

from clusterkit.store.control import Client
from clusterkit.store.directory import RunDirectory
from clusterkit.views.screen import CLEAR_LINE, is_screen
from clusterkit.words.errors import ClusterkitError

ANSWER_WITHIN = 2.0  # seconds; the time that the supervisor has to pause the tasks
SETTLING = 0.7  # seconds; the time that the console takes to show earlier output: it holds lines that workers share


@contextmanager
def pausing_on_stop(run: RunDirectory, supervisor: int | None = None) -> Iterator[None]:
    """While the terminal stops this process (SIGTSTP), let the job pause instead of writing over the shell's prompt.

    The supervisor and the tasks are in other process groups, so the terminal's signal reaches this process alone.
    `supervisor` is stopped itself if it can't pause tasks yet. A process that ignores the signal keeps ignoring it.
    """
    if signal.getsignal(signal.SIGTSTP) is signal.SIG_IGN:
        yield
        return

    def stop(number: int, _: FrameType | None) -> None:
        signal.signal(number, signal.SIG_IGN)  # one stop at a time
        is_early = not run.control_socket.exists()
        if is_early and supervisor is not None:
            _signal(supervisor, signal.SIGSTOP)
        if is_early or _request(run, "pause"):
            time.sleep(SETTLING)
            _say("The job is paused. `fg` continues it.")
        signal.signal(number, signal.SIG_DFL)
        # Stops here until SIGCONT; does not stop if there is no shell that could send it.
        os.kill(os.getpid(), number)
        signal.signal(number, stop)
        if is_early and supervisor is not None:
            _signal(supervisor, signal.SIGCONT)
        elif not is_early:  # also if the answer to the other request did not arrive in time
            _request(run, "unpause")

    previous = signal.signal(signal.SIGTSTP, stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTSTP, previous)


def _request(run: RunDirectory, verb: str) -> bool:
    """Return whether the supervisor has paused or continued the tasks."""
    with suppress(ClusterkitError), Client(run, ANSWER_WITHIN) as client:
        client.call(verb, terminal=True)
        return True
    return False


def _signal(pid: int, number: int) -> None:
    with suppress(ProcessLookupError, PermissionError):
        os.kill(pid, number)


def _say(text: str) -> None:
    begin = CLEAR_LINE if is_screen(sys.stderr) else ""  # the console's status line may be on the screen
    with suppress(OSError, ValueError):  # the output may be closed
        print(f"{begin}clusterkit: {text}", file=sys.stderr, flush=True)
