"""How tests lose a run: its supervisor and its guardian are killed together, as at the end of a host."""

from __future__ import annotations

import os
import signal

from tests.support import Up

SUPERVISOR, GUARDIAN = "supervisor", "guardian"


def lose(run: Up, victims: tuple[str, ...] = (SUPERVISOR, GUARDIAN)) -> None:
    """Stop these processes of a run, so that neither can act on the other's death, and kill them.

    The guardian dies last: at the death of its parent, the kernel wakes a stopped supervisor with SIGHUP and SIGCONT.
    """
    pids = {SUPERVISOR: run.supervisor, GUARDIAN: run.process.pid}
    for number in (signal.SIGSTOP, signal.SIGKILL):
        for name, pid in pids.items():
            if name in victims:
                os.kill(pid, number)
