"""A cast: tiny children that play the tasks of a run, and the injector that acts on them."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
from pathlib import Path, PurePosixPath
from typing import Any

from clusterkit.faults.injector import Injector
from clusterkit.faults.throttle import Throttle
from clusterkit.system.process import AttemptChild
from clusterkit.words.events import FaultTook
from clusterkit.words.grammar import parse_fault
from clusterkit.words.model import Task

WORKER = Task.parse("worker:0")


class Cast:
    """Children as the tasks of a run, and an injector that acts on them."""

    def __init__(self, checkpoints: Path) -> None:
        self.took = queue.SimpleQueue[Any]()
        self.children: dict[Task, AttemptChild] = {}
        self.processes: list[subprocess.Popen[bytes]] = []
        self.throttle = Throttle(self.children.get, self.took.put)
        self.injector = Injector(self.throttle, None, PurePosixPath(checkpoints), 7, self.took.put)

    def starts(self, *command: str | Path, task: Task = WORKER) -> subprocess.Popen[bytes]:
        """A task's next attempt, which has said its first word."""
        process = subprocess.Popen(
            [sys.executable, *map(str, command)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=True
        )
        self.processes.append(process)
        self.children[task] = AttemptChild(process.pid, os.pidfd_open(process.pid), "pipe:[none]", 0, process)
        assert process.stdout is not None
        assert process.stdout.readline()
        return process

    def ends(self, task: Task = WORKER) -> None:
        """The task's attempt is killed and reaped, as by a sweep."""
        child = self.children.pop(task)
        self.throttle.forget(task)
        assert child.process is not None
        os.killpg(child.pid, signal.SIGKILL)
        child.process.wait(10)
        os.close(child.pidfd)

    def inject(self, number: int, text: str) -> FaultTook:
        """Break something in the worker."""
        self.injector.inject(number, parse_fault(text), [WORKER], [])
        took: FaultTook = self.took.get(timeout=10)
        assert took.number == number
        return took

    def end(self) -> None:
        """Stop the injector and the throttle, then the children."""
        self.injector.stop()
        self.throttle.stop()
        for task in list(self.children):
            self.ends(task)
        for process in self.processes:
            for stream in (process.stdin, process.stdout):
                assert stream is not None
                stream.close()
