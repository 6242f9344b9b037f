"""Handles of tasks: what the journal tells of one, and what can be asked of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from clusterkit.words import events as ev
from clusterkit.words.model import Task
from clusterkit.words.outcome import SIGKILL, Exit
from clusterkit.words.states import TaskState


class Run(Protocol):
    """What a handle needs of its cluster."""

    @property
    def directory(self) -> Path:
        """The run's directory."""

    def events(self) -> Iterator[ev.Event]:
        """The journal so far."""

    def ask(self, verb: ev.Verb, task: Task, signal: int = SIGKILL) -> None:
        """Ask the supervisor for something."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """The nth start of a task.

    `exit` is None while it runs; what it was asked for stands in it as soon as the attempt is over. `step` is the last
    one that it reported, `fault` the number of the injected fault that explains its failure.
    """

    number: int
    pid: int | None
    exit: Exit | None = None
    step: int | None = None
    fault: int | None = None


class TaskHandle:
    """One task of a running cluster, such as `cluster.tasks["worker:1"]`."""

    def __init__(self, run: Run, task: Task) -> None:
        self._run = run
        self.task = task

    def __repr__(self) -> str:
        return f"<task {self.task}>"

    @property
    def attempts(self) -> tuple[Attempt, ...]:
        """Every attempt so far, the newest last."""
        return attempts_of(self.task, self._run.events())

    @property
    def pid(self) -> int | None:
        """Of the attempt that runs now; None where none does."""
        newest = self.attempts[-1:]
        return newest[0].pid if newest and newest[0].exit is None else None

    @property
    def state(self) -> TaskState:
        """The task's state, as the supervisor sees it."""
        changes = [e for e in self._run.events() if isinstance(e, ev.Changed) and e.task == self.task]
        return changes[-1].state if changes else TaskState.WAITING

    @property
    def step(self) -> int | None:
        """The last step that the newest attempt reported; reports come at most once a second."""
        newest = self.attempts[-1:]
        return newest[0].step if newest else None

    def logs(self, attempt: int | None = None) -> str:
        """What an attempt has written so far; the newest one, if none is named. Raises LookupError."""
        number = attempt or max(1, len(self.attempts))
        path = self._run.directory / "tasks" / str(self.task) / f"attempt-{number}.log"
        try:
            return path.read_text(errors="replace")
        except FileNotFoundError:
            raise LookupError(f"{self.task} has had no attempt {number}.") from None

    def kill(self, signal: int = SIGKILL) -> None:
        """Signal every process of the task's group. The supervisor sees a failure like any other."""
        self._run.ask(ev.Verb.KILL, self.task, signal)

    def pause(self) -> None:
        """Stop the task with SIGSTOP."""
        self._run.ask(ev.Verb.PAUSE, self.task)

    def unpause(self) -> None:
        """Let the paused task go on."""
        self._run.ask(ev.Verb.UNPAUSE, self.task)

    def restart(self) -> None:
        """End the task and start it again, with those that its restart scope takes along; costs no budget."""
        self._run.ask(ev.Verb.RESTART, self.task)


class Tasks(Mapping[str, TaskHandle]):
    """`worker:1` to its handle, chief first."""

    def __init__(self, run: Run, tasks: Iterable[Task]) -> None:
        self._handles = {str(task): TaskHandle(run, task) for task in tasks}

    def __getitem__(self, name: str) -> TaskHandle:
        if name not in self._handles:
            raise KeyError(f"The job has no task {name}. It has {', '.join(self._handles)}.")
        return self._handles[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._handles)

    def __len__(self) -> int:
        return len(self._handles)


def attempts_of(task: Task, events: Iterable[ev.Event]) -> tuple[Attempt, ...]:
    """A task's attempts, as the journal tells them."""
    found: dict[int, Attempt] = {}
    for event in events:
        match event:
            case ev.Spawned(of, number, pid) if of == task:
                found[number] = Attempt(number, pid)
            case ev.Exited(of, number, how) if of == task and number in found:
                found[number] = replace(found[number], exit=how)
            case ev.AttemptEnded(of, number) if of == task:
                attempt = found.get(number, Attempt(number, None))
                found[number] = replace(attempt, exit=event.exit, fault=event.fault)
            case ev.Progressed(of, number, step) if of == task and number in found:
                found[number] = replace(found[number], step=step)
    return tuple(found.values())


def known(tasks: Mapping[str, TaskHandle]) -> str:
    """A line for each task: its state and how far it has come."""
    return "\n".join(f"  {name} is {_known(handle)}" for name, handle in tasks.items())


def _known(handle: TaskHandle) -> str:
    attempts = handle.attempts
    newest = f" (attempt {attempts[-1].number})" if attempts else ""
    ended = f"; it {attempts[-1].exit}" if attempts and attempts[-1].exit else ""
    step = f", at step {attempts[-1].step}" if attempts and attempts[-1].step is not None else ""
    return f"{handle.state}{newest}{step}{ended}"
