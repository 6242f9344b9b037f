"""Spawning: an attempt as a fresh interpreter, or as a command, through the entry."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

from clusterkit.job.plan import TaskPlan
from clusterkit.task.entry import ENTRY


def spawn(
    plan: TaskPlan, env: Mapping[str, str], output: int, stacks: int, namespaces: Sequence[int] = ()
) -> subprocess.Popen[bytes]:
    """Start an attempt with its output going to the descriptor `output`. Raises OSError.

    It joins the `namespaces`, descriptors, in their order before its program begins.

    Call it from the thread that lives as long as the supervisor: the parent-death signal is tied to the thread.
    """
    with _held_back():
        return subprocess.Popen(
            _argv(plan, (stacks, *namespaces)),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            cwd=plan.cwd,
            env=env,
            start_new_session=True,
            pass_fds=(stacks, *namespaces),
        )


@contextmanager
def _held_back() -> Iterator[None]:
    """Have a new interpreter keep the signals that it would lose, or raise an exception for, until the entry runs.

    Those are SIGINT, what Python ignores, and what the caller of clusterkit does.
    """
    ignored = {number for number in signal.valid_signals() if signal.getsignal(number) is signal.SIG_IGN}
    mask = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, *ignored})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, mask)


def _argv(plan: TaskPlan, descriptors: Sequence[int]) -> Sequence[str]:
    # A command goes through the entry too: only code inside the new process can ask for the parent-death signal,
    # and it holds across exec. Why not preexec_fn: it runs Python between fork and exec of a threaded process.
    return [plan.python, ENTRY, str(os.getpid()), ",".join(map(str, descriptors)), plan.kind, plan.target, *plan.args]
