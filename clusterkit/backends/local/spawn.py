"""Starts an attempt with a fresh interpreter, which runs the task's entry."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from clusterkit.job.plan import Start
from clusterkit.task.entry import ENTRY


def spawn(start: Start) -> subprocess.Popen[bytes]:
    """Start an attempt with a fresh interpreter. Raises OSError.

    Call it from the thread that lives as long as the supervisor: the parent-death signal is tied to the thread.
    """
    with _held_back():
        return subprocess.Popen(
            _argv(start),
            stdin=subprocess.DEVNULL,
            stdout=start.output,
            stderr=start.output,
            cwd=start.plan.cwd,
            env=start.env,
            start_new_session=True,
            pass_fds=(start.stacks, *start.namespaces),
        )


@contextmanager
def _held_back() -> Iterator[None]:
    """Block signals until the entry runs: SIGINT, which would raise an exception, and all that this process ignores.

    A new interpreter would lose the latter.
    """
    ignored = {number for number in signal.valid_signals() if signal.getsignal(number) is signal.SIG_IGN}
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, *ignored})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _argv(start: Start) -> Sequence[str]:
    # A command goes through the entry too: only code inside the new process can ask for the parent-death signal,
    # and it holds across exec. Why not preexec_fn: it runs Python between fork and exec of a threaded process.
    plan, descriptors = start.plan, ",".join(map(str, (start.stacks, *start.namespaces)))
    return [plan.python, ENTRY, str(os.getpid()), descriptors, plan.kind, plan.target, *plan.args]
