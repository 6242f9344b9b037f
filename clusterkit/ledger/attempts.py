"""The attempts of a run: the data about each start of each task."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

from clusterkit.words.events import AttemptEnded, Requested, Verb
from clusterkit.words.job import JobSpec
from clusterkit.words.model import Shape, Task, TaskType
from clusterkit.words.outcome import Asked, Exit, RoleKind, RunResult

MOST_STOPS = 200  # the maximum number of recorded intervals in which an attempt was paused or stalled
MOST_TRACED = 512  # the maximum number of step reports stored for an attempt
MOST_TRACES = 2000  # step reports are stored for this number of each task's newest attempts
UNKNOWN = "unknown"  # how an attempt ended if the journal does not record its end
_ENDED = frozenset({Asked.TEARDOWN, Asked.SUCCESS, Asked.SUSPENSION})
Key = tuple[Task, int]  # task and attempt


class Trace:
    """When an attempt reached its steps. If there are many reports, only every n-th report is stored."""

    __slots__ = ("_count", "_points", "_stride")

    def __init__(self) -> None:
        self._points: list[tuple[float, int]] = []
        self._stride = 1
        self._count = 0

    def add(self, at: float, step: int) -> None:
        if self._count % self._stride == 0:
            self._points.append((at, step))
            if len(self._points) > MOST_TRACED:
                self._points, self._stride = self._points[::2], self._stride * 2
        self._count += 1

    def time_of(self, step: int) -> float | None:
        """Return the time of the last report of `step` or an earlier step; None if there is no such report."""
        return next((at for at, reached in reversed(self._points) if reached <= step), None)


class Stop(NamedTuple):
    """An interval in which an attempt was paused (`kind` is `stopped`) or `stalled`. `end` is None until it ends."""

    begin: float
    end: float | None
    kind: str
    text: str


@dataclass(slots=True)
class Attempt:
    """One attempt of a task. Times are in seconds since the run began."""

    task: Task
    number: int
    begin: float
    end: float | None = None
    outcome: str = "running"  # running, success, failed, fault, collateral, asked, ended or lost
    text: str = ""  # how the attempt ended, as a clause
    exit: Exit | None = None  # the exit of the attempt's first process, if observed
    decision: AttemptEnded | None = None  # the attempt's outcome, as decided and recorded by the supervisor
    start_recorded: bool = False  # True once the start of the attempt was recorded
    end_recorded: bool = False  # True once the end of the attempt was recorded
    up_at: float | None = None  # when the attempt was first known to be up
    lost_since: float | None = None  # when the attempt completed the first step that a later attempt repeated
    resumed_step: int | None = None
    resumed_from: str | None = None
    first_step: int | None = None
    last_step: int | None = None
    trace: Trace = field(default_factory=Trace)
    stops: list[Stop] = field(default_factory=list)
    signals: set[int] = field(default_factory=set)  # the signals that clients requested for the attempt
    repairs: tuple[str, ...] = ()  # the names of the repairs that took effect, in order

    @property
    def record(self) -> AttemptEnded:
        """Return the recorded outcome of the attempt; before it is recorded, the data known so far."""
        if self.decision is not None and self.end_recorded:
            return self.decision
        return AttemptEnded(
            self.task,
            self.number,
            self.begin,
            None,
            None,
            self.first_step,
            self.last_step,
            self.resumed_step,
            self.resumed_from,
        )

    def stop(self, at: float, kind: str, text: str) -> None:
        """Note that the attempt is paused or stalled from now on."""
        if len(self.stops) < MOST_STOPS and not any(one.end is None and one.kind == kind for one in self.stops):
            self.stops.append(Stop(at, None, kind, text))

    def continue_at(self, at: float, kind: str) -> bool:
        """Note that the attempt is no longer paused or stalled; return whether it was paused or stalled before."""
        open_stops = [one for one in self.stops if one.end is None and one.kind == kind]
        if open_stops:
            self.stops = [one._replace(end=at) if one in open_stops else one for one in self.stops]
        return bool(open_stops)


class Attempts:
    """Every attempt of a run. `changed` collects the attempts that changed since a reader last emptied it."""

    def __init__(self, job: JobSpec) -> None:
        servers = (TaskType.PS, TaskType.WORKER) if job.shape is Shape.PARAMETER_SERVER else (TaskType.PS,)
        self._stepless_types = (TaskType.EVALUATOR, *servers)
        self.by_task: dict[Task, dict[int, Attempt]] = {}  # attempts by task and number, the newest last
        self.changed = set[Key]()
        self.collateral: dict[Key, None] = {}  # attempts that failed because another attempt had failed, in order
        self.fault_of: dict[Key, int | None] = {}  # by finished attempt: the fault that explains its failure
        self.restarts = Counter[tuple[Task, str]]()  # restart counts, by task and by how the previous attempt ended
        self._last_step_at: float | None = None  # when a training task last reported a step
        self._stalled = False
        self._unready_servers: dict[Key, None] = {}  # attempts of servers that are not yet known to be up

    def get(self, task: Task, number: int) -> Attempt | None:
        return self.by_task.get(task, {}).get(number)

    def all(self) -> Iterator[Attempt]:
        for numbers in self.by_task.values():
            yield from numbers.values()

    def running(self) -> Iterator[Attempt]:
        """Yield the newest attempts that have not ended."""
        for numbers in self.by_task.values():
            newest = numbers[next(reversed(numbers))]
            if newest.end is None:
                yield newest

    def trains(self, task: Task) -> bool:
        return task.type not in self._stepless_types

    def begin(self, at: float, task: Task, number: int) -> Attempt:
        """Return the attempt; if it is not known yet, add it with the start time `at`."""
        self.changed.add((task, number))
        known = self.by_task.setdefault(task, {})
        if number not in known:
            if number > 1 and number >= max(known, default=0):
                previous = known.get(number - 1)
                self.restarts[task, UNKNOWN if previous is None or previous.end is None else previous.outcome] += 1
            known[number] = Attempt(task, number, at)
            if not self.trains(task):
                self._unready_servers[task, number] = None
            if (oldest := known.get(number - MOST_TRACES)) is not None:
                oldest.trace = Trace()
        return known[number]

    def mark_up(self, at: float, task: Task, number: int) -> None:
        self._unready_servers.pop((task, number), None)
        attempt = self.get(task, number)
        if attempt is not None and attempt.up_at is None and attempt.end is None:
            attempt.up_at = at
            self.changed.add((task, number))

    def progress(self, at: float, task: Task, number: int, step: int) -> None:
        attempt = self.get(task, number)
        if attempt is None:
            return
        if attempt.first_step is None:
            attempt.first_step = step
            if attempt.resumed_step is None:
                self._mark_repeated(task, number, step - 1)
        attempt.last_step = step
        attempt.trace.add(at, step)
        attempt.up_at = at if attempt.up_at is None else attempt.up_at
        self.changed.add((task, number))
        if not self.trains(task):
            return
        self._last_step_at = at
        if self._stalled:
            self._stalled = False
            for one in self.running():
                if one.continue_at(at, "stalled"):
                    self.changed.add((one.task, one.number))
        if self._unready_servers:  # steps prove that the servers are up
            for server in list(self._unready_servers):
                self.mark_up(at, *server)

    def has_restored(self, task: Task, number: int) -> bool:
        """Return whether the attempt has restored a checkpoint."""
        attempt = self.get(task, number)
        return attempt is not None and attempt.resumed_from is not None

    def resume(self, at: float, task: Task, number: int, step: int, path: str | None) -> None:
        self.mark_up(at, task, number)
        if (attempt := self.get(task, number)) is not None:
            attempt.resumed_step, attempt.resumed_from = step, path
            self.changed.add((task, number))
            self._mark_repeated(task, number, step)

    def save(self, at: float, task: Task, number: int, step: int) -> None:
        self.mark_up(at, task, number)
        if (attempt := self.get(task, number)) is not None:
            attempt.trace.add(at, step)

    def repair(self, task: Task, number: int, name: str) -> None:
        if (attempt := self.get(task, number)) is not None and name not in attempt.repairs:
            attempt.repairs += (name,)

    def pause(self, at: float, task: Task, number: int, paused: bool) -> None:
        if (attempt := self.get(task, number)) is not None:
            self.changed.add((task, number))
            if paused:
                attempt.stop(at, "stopped", "paused with SIGSTOP")
            else:
                attempt.continue_at(at, "stopped")

    def request(self, event: Requested) -> None:
        """Note the signal that a client has requested for running attempts."""
        if event.verb is Verb.KILL:
            for one in self.running():
                if not event.tasks or one.task in event.tasks:
                    one.signals.add(event.signal)

    def stall(self, text: str) -> None:
        """Note a warning that training has stalled since the last step. Attempts that are not up yet are skipped."""
        if self._last_step_at is None:
            return
        self._stalled = True
        for attempt in self.running():
            if self.trains(attempt.task) and attempt.up_at is not None:
                attempt.stop(max(attempt.up_at, self._last_step_at), "stalled", text)
                self.changed.add((attempt.task, attempt.number))

    def exited(self, at: float, task: Task, number: int, exit_: Exit) -> None:
        """Note that the attempt's first process ended, or could not be started."""
        attempt = self.begin(at, task, number)
        attempt.exit = exit_
        attempt.end, (attempt.outcome, attempt.text) = at, outcome_of(exit_)

    def attempt_ended(self, event: AttemptEnded) -> None:
        self._decide(event).end_recorded = True
        self.fault_of[event.task, event.attempt] = event.fault

    def all_lost(self, at: float) -> None:
        """Mark all running attempts as lost, since the run continues in another allocation."""
        self._end_all(at, "was lost with its supervisor")

    def run_finished(self, at: float, result: RunResult) -> None:
        for ended in result.attempts:
            self._decide(ended)
        self._end_all(at, "was left behind when the run ended")

    def _decide(self, decision: AttemptEnded) -> Attempt:
        end = decision.started if decision.ended is None else decision.ended
        attempt = self.begin(decision.started, decision.task, decision.attempt)
        attempt.decision = decision
        attempt.end = end if attempt.end is None else attempt.end
        attempt.outcome, attempt.text = outcome_of(decision.exit, decision)
        attempt.first_step = decision.first_step if attempt.first_step is None else attempt.first_step
        attempt.last_step = decision.last_step if attempt.last_step is None else attempt.last_step
        attempt.resumed_step = decision.resumed_step if attempt.resumed_step is None else attempt.resumed_step
        if decision.role is not None and decision.role.kind is RoleKind.COLLATERAL:
            self.collateral[decision.task, decision.attempt] = None
        return attempt

    def _end_all(self, at: float, text: str) -> None:
        for attempt in self.running():
            attempt.end, attempt.outcome, attempt.text = at, "lost", text
            self.changed.add((attempt.task, attempt.number))

    def _mark_repeated(self, task: Task, number: int, step: int) -> None:
        """Mark the work of earlier attempts after `step` as lost, since the task repeats those steps."""
        for earlier in reversed(self.by_task[task].values()):
            if earlier.number >= number or earlier.last_step is None:
                continue
            if earlier.last_step <= step:
                return
            since = earlier.trace.time_of(step)
            since = (earlier.begin if earlier.up_at is None else earlier.up_at) if since is None else since
            earlier.lost_since = since if earlier.lost_since is None else min(earlier.lost_since, since)
            self.changed.add((task, earlier.number))


def outcome_of(exit_: Exit | None, decision: AttemptEnded | None = None) -> tuple[str, str]:
    """Return how an attempt ended, as a word and as a clause."""
    if exit_ is None:
        return "lost", "was left behind when the run ended"
    role = None if decision is None else decision.role
    by = "" if decision is None or decision.fault is None else f", by fault {decision.fault}"
    if role is not None and role.kind is RoleKind.COLLATERAL:
        return "collateral", f"{exit_}{by}, after {role.task} had failed"
    if by:
        return "fault", f"{exit_}{by}"
    if exit_.host is not None or exit_.lost:
        return "lost", str(exit_)
    if exit_.asked is not None:
        return "ended" if exit_.asked in _ENDED else "asked", str(exit_)
    return "success" if exit_.ok else "failed", str(exit_)
