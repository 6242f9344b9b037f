"""Lanes: each task's attempts as bars with segments, and the lines from a failure to those it brought about."""

from __future__ import annotations

from collections.abc import Iterator

from clusterkit.dashboard.bars import Bar, how_it_ended
from clusterkit.dashboard.entities import Link
from clusterkit.words import events as ev
from clusterkit.words.job import JobSpec
from clusterkit.words.model import Task
from clusterkit.words.outcome import RoleKind
from clusterkit.words.states import TaskState

MOST_BARS = 2000  # attempts of a task that are kept, the newest


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

    def touch_open(self) -> None:
        """Count those that have not ended as changed."""
        self.changed |= {(bar.task, bar.attempt) for bar in self._running()}

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
