"""Attempts: what is known of each start of each task."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from clusterkit.words.events import AttemptEnded
from clusterkit.words.job import JobSpec
from clusterkit.words.model import Shape, Task, TaskType
from clusterkit.words.outcome import Asked, Exit, RoleKind, RunResult

MOST_STOPS = 200  # intervals of an attempt in which it was paused or stalled
MOST_TRACED = 512  # reports of an attempt from which it is seen when it had reached a step
MOST_KEPT = 2000  # attempts of a task of which such reports are kept, the newest
UNKNOWN = "unknown"  # how an attempt ended of which the journal does not say it
_ENDED = frozenset({Asked.TEARDOWN, Asked.SUCCESS, Asked.SUSPENSION})
Key = tuple[Task, int]  # task and attempt


class Trace:
    """When an attempt had reached which step; of many reports every second is kept, then every fourth, and so on."""

    __slots__ = ("_count", "_every", "_points")

    def __init__(self) -> None:
        self._points: list[tuple[float, int]] = []
        self._every = 1
        self._count = 0

    def add(self, at: float, step: int) -> None:
        if self._count % self._every == 0:
            self._points.append((at, step))
            if len(self._points) > MOST_TRACED:
                self._points, self._every = self._points[::2], self._every * 2
        self._count += 1

    def passed(self, step: int) -> float | None:
        """When the last report of that step or an earlier one came, after which all was newer; None if none came."""
        return next((at for at, reached in reversed(self._points) if reached <= step), None)


class Stop(NamedTuple):
    """A time in which an attempt was `stopped` or `stalled`; `end` is None while it is."""

    begin: float
    end: float | None
    kind: str
    text: str


@dataclass(slots=True)
class Attempt:
    """One attempt of a task. Times in seconds since the run began."""

    task: Task
    number: int
    begin: float
    end: float | None = None
    how: str = "running"  # or success, failed, fault, collateral, asked, ended, lost
    text: str = ""  # the same as a clause
    exit: Exit | None = None  # of its first process, as far as that was seen
    told: AttemptEnded | None = None  # what was decided about it
    started: bool = False  # its start was recorded as an event
    over: bool = False  # and its end
    working: float | None = None  # when it began to do what it is for
    lost: float | None = None  # what it computed since then was computed again
    resumed: int | None = None
    resumed_from: str | None = None
    first: int | None = None
    last: int | None = None
    trace: Trace = field(default_factory=Trace)
    stops: list[Stop] = field(default_factory=list)

    @property
    def record(self) -> AttemptEnded:
        """What was recorded about it; while nothing was, what is known so far."""
        if self.told is not None and self.over:
            return self.told
        return AttemptEnded(
            self.task, self.number, self.begin, None, None, self.first, self.last, self.resumed, self.resumed_from
        )

    def stop(self, at: float, kind: str, text: str) -> None:
        """It is paused or stalled from now on."""
        if len(self.stops) < MOST_STOPS and not any(one.end is None and one.kind == kind for one in self.stops):
            self.stops.append(Stop(at, None, kind, text))

    def go_on(self, at: float, kind: str) -> bool:
        """It is not paused, or stalled, any more; return whether it was."""
        was = [one for one in self.stops if one.end is None and one.kind == kind]
        if was:
            self.stops = [one._replace(end=at) if one in was else one for one in self.stops]
        return bool(was)


class Attempts:
    """Every attempt of a run. `changed` are those that changed since a reader emptied it."""

    def __init__(self, job: JobSpec) -> None:
        servers = (TaskType.PS, TaskType.WORKER) if job.shape is Shape.PARAMETER_SERVER else (TaskType.PS,)
        self._without_steps = (TaskType.EVALUATOR, *servers)
        self.of: dict[Task, dict[int, Attempt]] = {}  # by task and number, the newest last
        self.changed = set[Key]()
        self.collateral: dict[Key, None] = {}  # those that failed because of another one, in order
        self.explained: dict[Key, int | None] = {}  # the fault that explains the failure of each that is over
        self.restarts = Counter[tuple[Task, str]]()  # by task, and by how the attempt before had ended
        self._reported: float | None = None  # when a training task reported a step last
        self._stalled = False
        self._waiting: dict[Key, None] = {}  # attempts of servers that are not known to be up

    def get(self, task: Task, number: int) -> Attempt | None:
        """An attempt; None if it is not known."""
        return self.of.get(task, {}).get(number)

    def all(self) -> Iterator[Attempt]:
        """Every attempt, task by task."""
        for numbers in self.of.values():
            yield from numbers.values()

    def running(self) -> Iterator[Attempt]:
        """The newest attempts that have not ended."""
        for numbers in self.of.values():
            newest = numbers[next(reversed(numbers))]
            if newest.end is None:
                yield newest

    def trains(self, task: Task) -> bool:
        """Whether the task makes steps."""
        return task.type not in self._without_steps

    def begin(self, at: float, task: Task, number: int) -> Attempt:
        """The attempt, which begins now if it was not known."""
        self.changed.add((task, number))
        known = self.of.setdefault(task, {})
        if number not in known:
            if number > 1 and number >= max(known, default=0):
                before = known.get(number - 1)
                self.restarts[task, UNKNOWN if before is None or before.end is None else before.how] += 1
            known[number] = Attempt(task, number, at)
            if not self.trains(task):
                self._waiting[task, number] = None
            if (old := known.get(number - MOST_KEPT)) is not None:
                old.trace = Trace()
        return known[number]

    def work(self, at: float, task: Task, number: int) -> None:
        """The attempt is known to be up."""
        self._waiting.pop((task, number), None)
        attempt = self.get(task, number)
        if attempt is not None and attempt.working is None and attempt.end is None:
            attempt.working = at
            self.changed.add((task, number))

    def progress(self, at: float, task: Task, number: int, step: int) -> None:
        attempt = self.get(task, number)
        if attempt is None:
            return
        if attempt.first is None:
            attempt.first = step
            if attempt.resumed is None:
                self._compute_again(task, number, step - 1)
        attempt.last = step
        attempt.trace.add(at, step)
        attempt.working = at if attempt.working is None else attempt.working
        self.changed.add((task, number))
        if not self.trains(task):
            return
        self._reported = at
        if self._stalled:
            self._stalled = False
            for one in self.running():
                if one.go_on(at, "stalled"):
                    self.changed.add((one.task, one.number))
        if self._waiting:  # servers are up when there are steps
            for server in list(self._waiting):
                self.work(at, *server)

    def resume(self, at: float, task: Task, number: int, step: int, path: str | None) -> None:
        """The attempt reported where it resumed."""
        self.work(at, task, number)
        if (attempt := self.get(task, number)) is not None:
            attempt.resumed, attempt.resumed_from = step, path
            self.changed.add((task, number))
            self._compute_again(task, number, step)

    def save(self, at: float, task: Task, number: int, step: int) -> None:
        self.work(at, task, number)
        if (attempt := self.get(task, number)) is not None:
            attempt.trace.add(at, step)

    def pause(self, at: float, task: Task, number: int, paused: bool) -> None:
        """The attempt was paused, or continues."""
        if (attempt := self.get(task, number)) is not None:
            self.changed.add((task, number))
            if paused:
                attempt.stop(at, "stopped", "paused with SIGSTOP")
            else:
                attempt.go_on(at, "stopped")

    def stall(self, text: str) -> None:
        """A stall was warned of: it began with the last step."""
        if self._reported is None:
            return
        self._stalled = True
        for attempt in self.running():
            if self.trains(attempt.task):
                attempt.stop(max(attempt.begin, self._reported), "stalled", text)
                self.changed.add((attempt.task, attempt.number))

    def exit(self, at: float, task: Task, number: int, exit_: Exit) -> None:
        """The attempt's first process has ended, or could not be started."""
        attempt = self.begin(at, task, number)
        attempt.exit = exit_
        attempt.end, (attempt.how, attempt.text) = at, how_it_ended(exit_)

    def end(self, event: AttemptEnded) -> None:
        """It was recorded what was decided about the attempt."""
        self._decide(event).over = True
        self.explained[event.task, event.attempt] = event.fault

    def lose(self, at: float) -> None:
        """The run continues in another allocation, so no process is left."""
        self._end_all(at, "was lost with its supervisor")

    def close(self, at: float, result: RunResult) -> None:
        for ended in result.attempts:
            self._decide(ended)
        self._end_all(at, "was left behind when the run ended")

    def _decide(self, told: AttemptEnded) -> Attempt:
        end = told.started if told.ended is None else told.ended
        attempt = self.begin(told.started, told.task, told.attempt)
        attempt.told = told
        attempt.end = end if attempt.end is None else attempt.end
        attempt.how, attempt.text = how_it_ended(told.exit, told)
        attempt.first = told.first_step if attempt.first is None else attempt.first
        attempt.last = told.last_step if attempt.last is None else attempt.last
        attempt.resumed = told.resumed_step if attempt.resumed is None else attempt.resumed
        if told.role is not None and told.role.kind is RoleKind.COLLATERAL:
            self.collateral[told.task, told.attempt] = None
        return attempt

    def _end_all(self, at: float, text: str) -> None:
        for attempt in self.running():
            attempt.end, attempt.how, attempt.text = at, "lost", text
            self.changed.add((attempt.task, attempt.number))

    def _compute_again(self, task: Task, number: int, step: int) -> None:
        """What earlier attempts computed beyond that step is computed again."""
        for before in reversed(self.of[task].values()):
            if before.number >= number or before.last is None:
                continue
            if before.last <= step:
                return
            since = before.trace.passed(step)
            since = (before.begin if before.working is None else before.working) if since is None else since
            before.lost = since if before.lost is None else min(before.lost, since)
            self.changed.add((task, before.number))


def how_it_ended(exit_: Exit | None, told: AttemptEnded | None = None) -> tuple[str, str]:
    """How an attempt ended, in a word and as a clause."""
    if exit_ is None:
        return "lost", "was left behind when the run ended"
    role = None if told is None else told.role
    by = "" if told is None or told.fault is None else f", by fault {told.fault}"
    if role is not None and role.kind is RoleKind.COLLATERAL:
        return "collateral", f"{exit_}{by}, after {role.task} had failed"
    if by:
        return "fault", f"{exit_}{by}"
    if exit_.host is not None or exit_.lost:
        return "lost", str(exit_)
    if exit_.asked is not None:
        return "ended" if exit_.asked in _ENDED else "asked", str(exit_)
    return "success" if exit_.ok else "failed", str(exit_)
