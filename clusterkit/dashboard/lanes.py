"""Lanes: each task's attempts as bars with segments, and the lines from a failure to those it brought about."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from clusterkit.dashboard.entities import Attempt, Link, Segment
from clusterkit.words import events as ev
from clusterkit.words.job import JobSpec
from clusterkit.words.model import Task
from clusterkit.words.outcome import Asked, Exit, RoleKind
from clusterkit.words.states import TaskState

MOST_BARS = 2000  # attempts of a task that are kept, the newest
MOST_STOPS = 200  # intervals of an attempt in which it was paused or stalled
MOST_TRACED = 512  # reports of an attempt from which it is seen when it had reached a step
_ENDED = frozenset({Asked.TEARDOWN, Asked.SUCCESS, Asked.SUSPENSION})


@dataclass(slots=True)
class Trace:
    """When an attempt had reached which step; of many reports every second is kept, then every fourth, and so on."""

    _points: list[tuple[float, int]] = field(default_factory=list)
    _every: int = 1
    _count: int = 0

    def add(self, at: float, step: int) -> None:
        """A step was reported."""
        if self._count % self._every == 0:
            self._points.append((at, step))
            if len(self._points) > MOST_TRACED:
                self._points, self._every = self._points[::2], self._every * 2
        self._count += 1

    def passed(self, step: int) -> float | None:
        """When the last report of that step or an earlier one came, after which all was newer; None if none came."""
        return next((at for at, reached in reversed(self._points) if reached <= step), None)


@dataclass(slots=True)
class Bar:
    """What is known of one attempt. Times in seconds since the run began."""

    task: Task
    attempt: int
    begin: float
    end: float | None = None
    how: str = "running"
    text: str = ""
    working: float | None = None  # when it began to do what it is for
    lost: float | None = None  # what it computed since then was computed again
    resumed: int | None = None
    first: int | None = None
    last: int | None = None
    trace: Trace = field(default_factory=Trace)
    stops: list[Segment] = field(default_factory=list)

    def work(self, at: float) -> None:
        """It does what it is for."""
        self.working = at if self.working is None else self.working

    def stop(self, at: float, kind: str, text: str) -> None:
        """It is paused or stalled from now on."""
        if len(self.stops) < MOST_STOPS and not any(one.end is None and one.kind == kind for one in self.stops):
            self.stops.append(Segment(at, None, kind, text))

    def resume(self, at: float, kind: str) -> bool:
        """It is not paused, or stalled, any more; return whether it was."""
        was = [one for one in self.stops if one.end is None and one.kind == kind]
        if was:
            self.stops = [Segment(one.begin, at, kind, one.text) if one in was else one for one in self.stops]
        return bool(was)

    def over(self, at: float, how: str, text: str) -> None:
        """It has ended."""
        self.end, self.how, self.text = at, how, text

    def entity(self) -> Attempt:
        """The bar as it is shown."""
        steps = None if self.first is None or self.last is None else (self.first, self.last)
        return Attempt(
            str(self.task), self.attempt, self.begin, self.end, self.how, self.text, tuple(self._segments()), steps,
            self.resumed,
        )  # fmt: skip

    def _segments(self) -> list[Segment]:
        end = self.end
        segments = [Segment(self.begin, end, "start")]
        if self.working is not None:
            segments = _over(segments, Segment(self.working, end, "run"))
        if self.lost is not None:
            segments = _over(segments, Segment(self.lost, end, "lost", "These steps were computed again."))
        for stop in self.stops:
            segments = _over(segments, Segment(stop.begin, end if stop.end is None else stop.end, stop.kind, stop.text))
        return segments


def _over(segments: Iterable[Segment], new: Segment) -> list[Segment]:
    """The segments with a new one over them, which covers what it overlaps."""
    begin, end = new.begin, float("inf") if new.end is None else new.end
    found = list[Segment]()
    for old in segments:
        old_end = float("inf") if old.end is None else old.end
        if old.begin < begin:
            found.append(Segment(old.begin, old.end if old_end <= begin else begin, old.kind, old.text))
        if old_end > end:
            found.append(Segment(max(old.begin, end), old.end, old.kind, old.text))
    if end > begin:
        found.append(new)
    return sorted(found, key=lambda one: one.begin)


def how_it_ended(exit_: Exit | None, event: ev.AttemptEnded | None = None) -> tuple[str, str]:
    """How an attempt ended, in a word and as text."""
    if exit_ is None:
        return "lost", "was left behind when the run ended"
    role = None if event is None else event.role
    by = "" if event is None or event.fault is None else f", by fault {event.fault}"
    if role is not None and role.kind is RoleKind.COLLATERAL:
        return "collateral", f"{exit_}{by}, after {role.task} had failed"
    if by:
        return "fault", f"{exit_}{by}"
    if exit_.host is not None or exit_.lost:
        return "lost", str(exit_)
    if exit_.asked is not None:
        return "ended" if exit_.asked in _ENDED else "asked", str(exit_)
    return "success" if exit_.ok else "failed", str(exit_)


class Lanes:
    """The bars of all tasks, as a fold over the events. `changed` are those that changed since it was emptied."""

    def __init__(self, job: JobSpec | None) -> None:
        self._job = job
        self._bars: dict[Task, dict[int, Bar]] = {}
        self._links: dict[tuple[Task, int], Link] = {}
        self._reported: float | None = None  # when a training task reported a step last
        self._stalled = False
        self._waiting: dict[tuple[Task, int], None] = {}  # attempts of servers that are not known to be up
        self.changed = set[tuple[Task, int]]()

    def bar(self, task: Task, attempt: int) -> Bar | None:
        """An attempt; None if it is not known, or forgotten."""
        return self._bars.get(task, {}).get(attempt)

    def newest(self, task: Task) -> Bar | None:
        """The newest attempt of a task."""
        bars = self._bars.get(task)
        return bars[next(reversed(bars))] if bars else None

    def links(self) -> list[Link]:
        """The lines from causes to their collateral."""
        return list(self._links.values())

    def take(self, at: float, event: ev.Event) -> None:
        """Take in an event."""
        match event:
            case ev.Progressed(task, attempt, step):
                self._progressed(at, task, attempt, step)
            case ev.Changed(task, attempt, TaskState.STARTING) | ev.Spawned(task, attempt):
                self._begin(at, task, attempt)
            case ev.Ready(task, attempt):
                self._works(at, task, attempt)
            case ev.Checkpointed(task, attempt, step):
                self._works(at, task, attempt)
                if (bar := self.bar(task, attempt)) is not None:
                    bar.trace.add(at, step)
            case ev.Resumed(task, attempt, step):
                self._works(at, task, attempt)
                self._resumed(task, attempt, step)
            case ev.Paused(task, attempt, paused):
                self._paused(at, task, attempt, paused)
            case ev.SpawnFailed(task, attempt, error):
                self._begin(at, task, attempt).over(at, "failed", f"could not be started: {error}")
            case ev.Exited(task, attempt, exit_):
                self._begin(at, task, attempt).over(at, *how_it_ended(exit_))
            case ev.AttemptEnded():
                self._ended(event)
            case ev.Continued():
                self._end_all(at, "lost", "was lost with its supervisor")
            case ev.Finished(result):
                for ended in result.attempts:
                    self._ended(ended)
                self._end_all(at, "lost", "was left behind when the run ended")

    def stall(self, text: str) -> None:
        """A stall was warned of: it began with the last step."""
        if self._reported is None:
            return
        self._stalled = True
        for bar in self._running():
            if self._trains(bar.task):
                bar.stop(max(bar.begin, self._reported), "stalled", text)
                self.changed.add((bar.task, bar.attempt))

    def _running(self) -> Iterator[Bar]:
        for task in self._bars:
            bar = self.newest(task)
            if bar is not None and bar.end is None:
                yield bar

    def _trains(self, task: Task) -> bool:
        return task.trains and not (self._job is not None and self._job.is_server(task))

    def _begin(self, at: float, task: Task, attempt: int) -> Bar:
        self.changed.add((task, attempt))
        bars = self._bars.setdefault(task, {})
        if attempt not in bars:
            bars[attempt] = Bar(task, attempt, at)
            if not self._trains(task):
                self._waiting[task, attempt] = None
            if len(bars) > MOST_BARS:
                oldest = next(iter(bars))
                del bars[oldest]
                self.changed.add((task, oldest))
        return bars[attempt]

    def _works(self, at: float, task: Task, attempt: int) -> None:
        bar = self.bar(task, attempt)
        self._waiting.pop((task, attempt), None)
        if bar is not None and bar.working is None and bar.end is None:
            bar.work(at)
            self.changed.add((task, attempt))

    def _progressed(self, at: float, task: Task, attempt: int, step: int) -> None:
        bar = self.bar(task, attempt)
        if bar is None:
            return
        if bar.first is None:
            bar.first = step
            if bar.resumed is None:
                self._again_from(task, attempt, step - 1)
        bar.last = step
        bar.trace.add(at, step)
        bar.work(at)
        self.changed.add((task, attempt))
        if not self._trains(task):
            return
        self._reported = at
        if self._stalled:
            self._stalled = False
            for one in self._running():
                if one.resume(at, "stalled"):
                    self.changed.add((one.task, one.attempt))
        for server, number in list(self._waiting):  # they are up when there are steps
            self._works(at, server, number)

    def _resumed(self, task: Task, attempt: int, step: int) -> None:
        bar = self.bar(task, attempt)
        if bar is not None:
            bar.resumed = step
            self.changed.add((task, attempt))
            self._again_from(task, attempt, step)

    def _again_from(self, task: Task, attempt: int, step: int) -> None:
        """What earlier attempts computed beyond that step is computed again."""
        for number in reversed(self._bars[task]):
            bar = self._bars[task][number]
            if number >= attempt or bar.last is None:
                continue
            if bar.last <= step:
                return
            since = bar.trace.passed(step)
            since = (bar.begin if bar.working is None else bar.working) if since is None else since
            bar.lost = since if bar.lost is None else min(bar.lost, since)
            self.changed.add((task, number))

    def _paused(self, at: float, task: Task, attempt: int, paused: bool) -> None:
        bar = self.bar(task, attempt)
        if bar is None:
            return
        self.changed.add((task, attempt))
        if paused:
            bar.stop(at, "stopped", "paused with SIGSTOP")
        else:
            bar.resume(at, "stopped")

    def _ended(self, event: ev.AttemptEnded) -> None:
        end = event.started if event.ended is None else event.ended
        bar = self._begin(event.started, event.task, event.attempt)
        how = how_it_ended(event.exit, event)
        bar.over(end if bar.end is None else bar.end, *how)
        bar.first = event.first_step if bar.first is None else bar.first
        bar.last = event.last_step if bar.last is None else bar.last
        bar.resumed = event.resumed_step if bar.resumed is None else bar.resumed
        role = event.role
        if role is not None and role.kind is RoleKind.COLLATERAL:
            cause = self.bar(role.task, role.attempt)
            at = end if cause is None or cause.end is None else cause.end
            text = f"{event.task} {event.exit}, after {role.task} had failed"
            self._links[event.task, event.attempt] = Link((str(role.task), at), (str(event.task), end), text)

    def _end_all(self, at: float, how: str, text: str) -> None:
        for bar in list(self._running()):
            bar.over(at, how, text)
            self.changed.add((bar.task, bar.attempt))
