"""Interrupts a run after a task's step: injects a fault, or stops the run as `clusterkit down` does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from clusterkit.api.supervisor import PUSH, Supervisor
from clusterkit.store.control import Client
from clusterkit.store.directory import RunDirectory
from clusterkit.store.journal import JournalReader, parse_line, read_from
from clusterkit.words.errors import ClusterkitError
from clusterkit.words.events import Progressed, Verb
from clusterkit.words.model import Task

CHECK_EVERY = 0.02  # seconds between checks; a task waits much longer than this after its step
MARK = b'{"kind": "held", '  # the beginning of the line that a task writes before it waits
LONGEST = 4096  # bytes; longer lines are ignored


@dataclass(frozen=True, slots=True)
class Interruption:
    """An interruption after a task's step: injects `fault` (as in `--fault`), or stops the run if `fault` is empty."""

    task: Task
    step: int
    fault: str = ""

    @property
    def hold(self) -> str:
        """The entry of --record that makes the task wait after the step."""
        return f"hold={_file_name(self.task)}/{self.step}"


@dataclass(slots=True)
class Interrupter:
    """Interrupts a run one or more times. If the run is stopped, its tasks get the grace period `grace`, in seconds.

    If `by_reports` is True, a step counts as reached once any task reports it. Otherwise, a step counts as reached once
    the interrupted task waits after the step. Coordinators compute no steps, and can be interrupted only by reports.
    """

    breaks: Sequence[Interruption]
    grace: float
    by_reports: bool = False
    missed_breaks: str = ""  # the reason why an interruption was not possible; "" if all were possible

    def __call__(self, supervisor: Supervisor, run: RunDirectory) -> None:
        """Watch the run, and interrupt it after each step. Return after the last interruption, or when the run ends."""
        for one in self.breaks:
            reported = partial(_is_reported, one.step, JournalReader(run))
            is_reached = reported if self.by_reports else _HoldReader(run, one).is_reached
            while not is_reached():
                if supervisor.wait(CHECK_EVERY) and not is_reached():
                    self.missed_breaks = f"{one.task} never reached step {one.step}"
                    return
            if not self._break(one, supervisor, run):
                return

    def _break(self, one: Interruption, supervisor: Supervisor, run: RunDirectory) -> bool:
        if not one.fault:
            supervisor.end(self.grace + PUSH)
            return True
        try:
            with Client(run) as client:
                client.call(Verb.FAULT, fault=one.fault)
        except ClusterkitError as error:
            self.missed_breaks = str(error).rstrip(".")
        return not self.missed_breaks


@dataclass(slots=True)
class _HoldReader:
    """Reads the lines that a task's attempts write when they begin to wait after a step. Skips malformed lines."""

    run: RunDirectory
    one: Interruption
    _read: Counter[Path] = field(default_factory=Counter)  # the number of bytes that were read from each file

    def is_reached(self) -> bool:
        """Read the lines that were added since the last call; return whether they show that the task waits."""
        return self.one.step in list(self._new())

    def _new(self) -> Iterator[object]:
        for path in sorted(self.run.recorded.glob(f"{_file_name(self.one.task)}.*.jsonl")):
            whole, newline, _ = read_from(path, self._read[path]).rpartition(b"\n")
            self._read[path] += len(whole + newline)
            for line in whole.splitlines():
                if line.startswith(MARK) and len(line) < LONGEST and (message := parse_line(line)) is not None:
                    yield message.get("step")


def _is_reported(step: int, journal: JournalReader) -> bool:
    """Return whether, since the last call, a task has reported the step or a later step."""
    return any(isinstance(event, Progressed) and event.step >= step for _, event in journal.events())


def _file_name(task: Task) -> str:
    return f"{task.type}-{task.index}"
