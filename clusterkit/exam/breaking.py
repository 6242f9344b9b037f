"""Breaks a run at the steps that its tasks make: injects a fault there, or stops the run as `down` does."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from clusterkit.api.supervisor import PUSH, Supervisor
from clusterkit.store.control import Client
from clusterkit.store.directory import RunDirectory
from clusterkit.store.journal import JournalReader
from clusterkit.words.errors import ClusterkitError
from clusterkit.words.events import Progressed, Verb
from clusterkit.words.model import Task

LOOK_EVERY = 0.02  # seconds; a task waits much longer after a step at which it is held
MARK = b'{"kind": "held", '
LONGEST = 4096  # bytes of a line about a step


@dataclass(frozen=True, slots=True)
class Break:
    """What happens when a task has made a step: a fault, in the grammar of `--fault`; empty: the run is stopped."""

    task: Task
    step: int
    fault: str = ""

    @property
    def hold(self) -> str:
        """The word of --record with which the task waits after the step."""
        return f"hold={_file_name(self.task)}/{self.step}"


@dataclass(slots=True)
class Breaking:
    """Breaks a run at one step after the other. `grace` is how long its tasks get when it is stopped.

    With `by_reports` a step counts as made when it is reported, since a coordinator does not make its steps itself.
    """

    breaks: Sequence[Break]
    grace: float
    by_reports: bool = False
    missed: str = ""  # why not everything came about

    def __call__(self, supervisor: Supervisor, run: RunDirectory) -> None:
        """Watch the run until everything was broken, or until its end."""
        for one in self.breaks:
            watch = _Reports(run, one) if self.by_reports else _Holds(run, one)
            while not watch.is_reached():
                if supervisor.wait(LOOK_EVERY) and not watch.is_reached():
                    self.missed = f"{one.task} never reached step {one.step}"
                    return
            if not self._broken(one, supervisor, run):
                return

    def _broken(self, one: Break, supervisor: Supervisor, run: RunDirectory) -> bool:
        if not one.fault:
            supervisor.end(self.grace + PUSH)
            return True
        try:
            with Client(run) as client:
                client.call(Verb.FAULT, fault=one.fault)
        except ClusterkitError as error:
            self.missed = str(error).rstrip(".")
        return not self.missed


@dataclass(slots=True)
class _Holds:
    """The lines that the attempts of a task write when they wait after a step. They are hostile until parsed."""

    run: RunDirectory
    one: Break
    _read: dict[Path, int] = field(default_factory=dict)

    def is_reached(self) -> bool:
        """Whether the task has begun to wait after the step since the last call."""
        return self.one.step in list(self._new())

    def _new(self) -> Iterator[object]:
        for path in sorted(self.run.recorded.glob(f"{_file_name(self.one.task)}.*.jsonl")):
            with suppress(OSError), path.open("rb") as file:
                file.seek(self._read.get(path, 0))
                text = file.read()
                whole, newline, _ = text.rpartition(b"\n")
                self._read[path] = self._read.get(path, 0) + len(whole + newline)
                for line in whole.splitlines():
                    if line.startswith(MARK) and len(line) < LONGEST:
                        with suppress(ValueError, RecursionError):
                            yield json.loads(line).get("step")


@dataclass(slots=True)
class _Reports:
    """The steps that the tasks of a run report."""

    run: RunDirectory
    one: Break
    _reader: JournalReader | None = None

    def is_reached(self) -> bool:
        """Whether the step, or a later one, was reported since the last call."""
        self._reader = self._reader or JournalReader(self.run)
        return any(isinstance(event, Progressed) and event.step >= self.one.step for _, event in self._reader.events())


def _file_name(task: Task) -> str:
    return f"{task.type}-{task.index}"
