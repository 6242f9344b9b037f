"""Detaching: a process that outlives the command that started it, and its terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path

from clusterkit.supervisor.guardian import flush
from clusterkit.system.barrier import saying_what_is_used_up


def detach(work: Callable[[], int], console: Path, kept: int | None = None) -> int:
    """Run `work` in a process with a session of its own; return its pid at once. Raises OutOfResources.

    Its output is appended to `console`; `kept` is a descriptor that it needs. Call this before any thread is started.
    Why not fork twice: this way the caller can learn how its child ends; init adopts the child once the caller is gone.
    """
    flush()
    with saying_what_is_used_up():
        pid = os.fork()
    if pid == 0:
        code = 1
        try:
            _let_go(console, kept)
            code = work()
        except BaseException:
            sys.excepthook(*sys.exc_info())
        finally:
            flush()
            os._exit(code)
    return pid


def _let_go(console: Path, kept: int | None) -> None:
    """Leave the terminal, and close inherited pipes and locks, which somebody may be waiting for."""
    os.setsid()
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    output = os.open(console, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(output, 1)
    os.dup2(output, 2)
    highest = os.sysconf("SC_OPEN_MAX")
    os.closerange(3, highest if kept is None else kept)
    if kept is not None:
        os.closerange(kept + 1, highest)


def exit_code(status: int) -> int:
    """Return the exit code in a wait status; 1 for a signal."""
    return os.WEXITSTATUS(status) if os.WIFEXITED(status) else 1
