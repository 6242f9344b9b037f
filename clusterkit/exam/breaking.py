"""Interrupts a run after a task has completed a step: injects a fault, or stops the run as `clusterkit down` does."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from clusterkit.api.supervisor import PUSH, Supervisor
from clusterkit.exam.pace import FirstRun
from clusterkit.store.control import Client
from clusterkit.store.directory import RunDirectory
from clusterkit.store.journal import JournalReader, parse_line, read_from
from clusterkit.words.errors import ClusterkitError
from clusterkit.words.events import Progressed, Verb
from clusterkit.words.model import Task

CHECK_EVERY = 0.02  # seconds between checks whether a task waits; a task waits for much longer than this
LOOK_EVERY = 0.2  # seconds between looks at the first run
MARK = b'{"kind": "held", '  # the first bytes of the line that a task writes before the task waits
LONGEST = 4096  # bytes; longer lines of a recording are ignored


@dataclass(frozen=True, slots=True)
class Interruption:
    """An interruption of a run, after a task has completed a step.

    `fault` is the fault to inject, written as for `--fault`. If `fault` is empty, the run is stopped.
    """

    task: Task
    step: int
    fault: str = ""

    @property
    def hold(self) -> str:
        """A word for the value of `--record`, which makes the task wait after the step."""
        return f"hold={_file_name(self.task)}/{self.step}"


@dataclass(slots=True)
class Interrupter:
    """Interrupts a run one or more times. If the run is stopped, the tasks get `grace` seconds to exit.

    If `by_reports` is True, a step counts as reached once any task reports that step or a later step. If `by_reports`
    is False, a step counts as reached once the task to interrupt waits after the step. A coordinator never waits after
    a step, since coordinators compute no steps: to interrupt a coordinator, `by_reports` must be True.
    """

    breaks: Sequence[Interruption]
    grace: float
    by_reports: bool = False
    missed_breaks: str = ""  # the reason why an interruption was not possible; "" if all interruptions took place

    def __call__(self, supervisor: Supervisor, run: RunDirectory) -> None:
        """Carry out the interruptions in order. Return after the last interruption, or when the run ends."""
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
class FirstRunWatcher:
    """Ends the first run of an exam as soon as it has shown enough, if a run to its end would take too long.

    `is_recorded` returns whether the tasks of a run record their steps; without a recording, no later run could be
    ended after the same step.
    """

    first: FirstRun
    grace: float
    is_recorded: Callable[[RunDirectory], bool]
    has_ended_it: bool = False  # True if the run was ended

    def __call__(self, supervisor: Supervisor, run: RunDirectory) -> None:
        journal = JournalReader(run)
        while not supervisor.wait(LOOK_EVERY):
            for at, event in journal.events():
                self.first.add(at, event)
            if self.first.is_enough() and self.is_recorded(run):
                self.has_ended_it = True
                supervisor.end(self.grace + PUSH)
                return


@dataclass(slots=True)
class _HoldReader:
    """Reads the lines that an attempt of a task writes when the task begins to wait after a step."""

    run: RunDirectory
    one: Interruption
    _read: Counter[Path] = field(default_factory=Counter)  # the number of bytes read so far from each file

    def is_reached(self) -> bool:
        """Read the lines added since the last call. Return whether a line says that the task waits after the step."""
        return self.one.step in list(self._new())

    def _new(self) -> Iterator[object]:
        for path in sorted(self.run.recorded.glob(f"{_file_name(self.one.task)}.*.jsonl")):
            whole, newline, _ = read_from(path, self._read[path]).rpartition(b"\n")
            self._read[path] += len(whole + newline)
            for line in whole.splitlines():
                if line.startswith(MARK) and len(line) < LONGEST and (message := parse_line(line)) is not None:
                    yield message.get("step")


def _is_reported(step: int, journal: JournalReader) -> bool:
    """Return whether the journal has a new event in which a task reports the step or a later step."""
    return any(isinstance(event, Progressed) and event.step >= step for _, event in journal.events())


def _file_name(task: Task) -> str:
    return f"{task.type}-{task.index}"
