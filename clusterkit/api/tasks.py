"""Task handles: they give access to a task's state, as recorded in the journal, and can signal or restart the task."""

from __future__ import annotations

import dataclasses
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from io import BufferedReader, TextIOWrapper
from typing import Any

from clusterkit.store.directory import RunDirectory
from clusterkit.store.journal import JournalReader
from clusterkit.system.files import open_regular
from clusterkit.words import events as ev
from clusterkit.words import wire
from clusterkit.words.model import Task, TaskState
from clusterkit.words.outcome import SIGKILL, Exit

Ask = Callable[..., None]  # sends a request to the supervisor; takes a verb, a task and, for KILL, a signal
Predicate = Callable[[ev.Event], bool]
Wanted = str | type[Any] | Predicate  # the name of an event class, the class, or a predicate


@dataclass(frozen=True, slots=True)
class Attempt:
    """The nth start of a task.

    `exit` is None while the attempt runs; `exit.asked` is set once the attempt's output is complete. `step` is the last
    reported step. `fault` is the number of the injected fault that explains the failure, if any.
    """

    __module__ = "clusterkit"

    number: int
    pid: int | None
    exit: Exit | None = None
    step: int | None = None
    fault: int | None = None


class TaskHistory:
    """The attempts and states of a run's tasks, read from the growing journal. Thread-safe."""

    def __init__(self, run: RunDirectory) -> None:
        self.run = run
        self._journal = JournalReader(run)
        self._lock = threading.Lock()
        self._attempts: defaultdict[Task, dict[int, Attempt]] = defaultdict(dict)
        self._states: dict[Task, TaskState] = {}

    def attempts(self, task: Task) -> tuple[Attempt, ...]:
        with self._lock:
            self._read_on()
            return tuple(self._attempts[task].values())

    def state(self, task: Task) -> TaskState:
        with self._lock:
            self._read_on()
            return self._states.get(task, TaskState.WAITING)

    def _read_on(self) -> None:
        for _, event in self._journal.events():
            match event:
                case ev.Changed(task, _, state):
                    self._states[task] = state
                case ev.Spawned(task, number):
                    self._attempts[task][number] = Attempt(number, event.pid)
                case ev.Exited(task, number, how):
                    self._update(task, number, exit=how)
                case ev.AttemptEnded(task, number):
                    self._attempts[task].setdefault(number, Attempt(number, None))  # for an attempt that did not start
                    self._update(task, number, exit=event.exit, fault=event.fault)
                case ev.Progressed(task, number, step):
                    self._update(task, number, step=step)

    def _update(self, task: Task, number: int, **changes: Any) -> None:
        if attempt := self._attempts[task].get(number):
            self._attempts[task][number] = replace(attempt, **changes)


class TaskHandle:
    """One task of a running cluster, such as `cluster.tasks["worker:1"]`."""

    __module__ = "clusterkit"

    def __init__(self, task: Task, history: TaskHistory, ask: Ask) -> None:
        self.task = task
        self._history = history
        self._ask = ask

    def __repr__(self) -> str:
        return f"<task {self.task}>"

    @property
    def attempts(self) -> tuple[Attempt, ...]:
        """All attempts so far, from the oldest to the newest."""
        return self._history.attempts(self.task)

    @property
    def pid(self) -> int | None:
        """The pid of the running attempt; None if the task is not running."""
        newest = self.attempts[-1:]
        return newest[0].pid if newest and newest[0].exit is None else None

    @property
    def state(self) -> TaskState:
        """The task's latest state in the journal."""
        return self._history.state(self.task)

    @property
    def step(self) -> int | None:
        """The last step that the newest attempt reported. Tasks report at most once a second."""
        newest = self.attempts[-1:]
        return newest[0].step if newest else None

    def logs(self, attempt: int | None = None) -> str:
        """Return the output so far of an attempt, by default the newest. Raises LookupError for an unknown attempt."""
        number = attempt or max(1, len(self.attempts))
        try:
            log = BufferedReader(open_regular(self._history.run.log(self.task, number)))
            with TextIOWrapper(log, "utf-8", "replace") as text:
                return text.read()
        except FileNotFoundError:
            raise LookupError(f"{self.task} has had no attempt {number}.") from None

    def kill(self, signal: int = SIGKILL) -> None:
        """Send a signal to the task's process group. The supervisor treats the task's end like any other failure."""
        self._ask(ev.Verb.KILL, self.task, signal)

    def pause(self) -> None:
        """Stop the task with SIGSTOP."""
        self._ask(ev.Verb.PAUSE, self.task)

    def unpause(self) -> None:
        """Let the paused task continue, with SIGCONT."""
        self._ask(ev.Verb.UNPAUSE, self.task)

    def restart(self) -> None:
        """Restart the task and the tasks that must restart with it. This does not count against the restart budget."""
        self._ask(ev.Verb.RESTART, self.task)


class Tasks(dict[str, TaskHandle]):
    """Maps the name of each task, such as `worker:1`, to its handle. The chief is first."""

    def __init__(self, tasks: Iterable[Task], history: TaskHistory, ask: Ask) -> None:
        super().__init__({str(task): TaskHandle(task, history, ask) for task in tasks})

    def __missing__(self, name: str) -> TaskHandle:
        raise KeyError(f"The job has no task {name}. It has {', '.join(self)}.")


def known(tasks: Mapping[str, TaskHandle]) -> str:
    """Return a line for each task, with the task's state, attempt and last step."""
    return "\n".join(f"  {name} is {_known(handle)}" for name, handle in tasks.items())


def _known(handle: TaskHandle) -> str:
    attempts = handle.attempts
    newest = f" (attempt {attempts[-1].number})" if attempts else ""
    ended = f"; it {attempts[-1].exit}" if attempts and attempts[-1].exit else ""
    step = f", at step {attempts[-1].step}" if attempts and attempts[-1].step is not None else ""
    return f"{handle.state}{newest}{step}{ended}"


def matcher(wanted: Wanted, fields: dict[str, Any]) -> Predicate:
    """Return a predicate that is true for wanted events with these fields. Raises TypeError if a name is unknown."""
    kind = wire.kind_named(wanted) if isinstance(wanted, str) else wanted
    if not isinstance(kind, type):
        predicate = kind
        return lambda event: predicate(event) and _has(event, fields)
    present = [field.name for field in dataclasses.fields(kind)]
    unknown = [name for name in fields if name not in present]
    if unknown:
        raise TypeError(f"{kind.__name__} has no {unknown[0]!r}. It has {', '.join(present) or 'no fields'}.")
    return lambda event: isinstance(event, kind) and _has(event, fields)


def told(wanted: Wanted, fields: dict[str, Any]) -> str:
    name = wanted if isinstance(wanted, str) else getattr(wanted, "__name__", "such an event")
    return f"{name} with {', '.join(f'{key}={value}' for key, value in fields.items())}" if fields else name


def _has(event: ev.Event, fields: dict[str, Any]) -> bool:
    wanted = {name: wire.encode(value) for name, value in fields.items()}
    return all(hasattr(event, name) and wire.encode(getattr(event, name)) == value for name, value in wanted.items())
