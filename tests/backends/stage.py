"""A backend with a run, for tests: commands of a shell, and the answers that come through the inbox."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any, TypeVar

from clusterkit.backends.base import Backend
from clusterkit.store.directory import RunDirectory
from clusterkit.system.inbox import Inbox
from clusterkit.words import actions as ac
from clusterkit.words import events as ev
from clusterkit.words.job import JobSpec
from clusterkit.words.model import Program, ProgramKind, Task, TaskType

WORKER, OTHER = Task(TaskType.WORKER, 0), Task(TaskType.WORKER, 1)
WITHIN = 20.0  # seconds for an answer
E = TypeVar("E", bound=ev.OfAttempt | ev.Inspected)


class Stage:
    """A backend, the run that it is for, and what it answered so far. A subclass's `make` says which backend."""

    def __init__(self, place: Path, script: str, **job: Any) -> None:
        program = Program(ProgramKind.COMMAND, "/bin/sh", ("-c", script))
        self.job = JobSpec(program, {TaskType.WORKER: 2}, **job)
        self.directory = RunDirectory(place / "runs" / "r-1")
        self.directory.make()
        self.inbox = Inbox()
        self.events: list[ev.Happened] = []
        self.seen: dict[tuple[Task, int], bytes] = {}
        self.ended: set[tuple[Task, int]] = set()
        self.backend = self.make()

    def make(self) -> Backend:
        """The backend for the job."""
        raise NotImplementedError

    def view(self, task: Task, attempt: int, chunk: bytes) -> None:
        """Take a part of an attempt's output; an empty one is its end."""
        self.seen[task, attempt] = self.seen.get((task, attempt), b"") + chunk
        if not chunk:
            self.ended.add((task, attempt))

    def begin(self, *tasks: Task) -> None:
        """Place the run and start tasks."""
        self.backend.place(self.directory)
        for task in tasks:
            self.backend.do(ac.Spawn(task, 1, ""))

    def wait(self, kind: type[E], task: Task | None = WORKER, attempt: int = 1) -> E:
        """The answer of that kind; what else comes meanwhile is kept, and work is done, as the loop does it."""
        until = time.monotonic() + WITHIN
        while True:
            for event in self.events:
                if isinstance(event, kind) and (
                    isinstance(event, ev.Inspected) or (event.task, event.attempt) == (task, attempt)
                ):
                    return event
            assert time.monotonic() < until, f"no {kind.__name__} of {task}: {self.events}"
            self.take(until - time.monotonic())

    def take(self, within: float) -> None:
        """Take what comes next."""
        item = self.inbox.get(max(0.0, within))
        if callable(item):
            item()
        elif item is not None:
            assert not isinstance(item, ev.Crashed), item.traceback
            self.events.append(item)

    def has(self, kind: type[ev.Happened]) -> bool:
        """Whether there was such an answer, or is one by now."""
        self.take(0.0)
        return any(isinstance(event, kind) for event in self.events)

    def end(self) -> None:
        """Shut the backend, twice, since who shuts it may not know whether somebody else has."""
        self.backend.shut()
        self.backend.shut()
        self.inbox.close()
