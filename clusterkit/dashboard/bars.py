"""Bars: what is known of one attempt, as segments of time."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from clusterkit.dashboard.entities import Attempt, Segment
from clusterkit.words import events as ev
from clusterkit.words.model import Task
from clusterkit.words.outcome import Asked, Exit, RoleKind

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

    def entity(self, lost_at: float | None = None) -> Attempt:
        """The bar as it is shown; `lost_at` is when the run was lost, which ended what had not ended."""
        if self.end is None and lost_at is not None:
            ended = replace(self, stops=self.stops)
            ended.over(max(lost_at, self.begin), "lost", "was lost with its supervisor")
            return ended.entity()
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
