"""A run as a trace for Perfetto and chrome://tracing: Chrome's JSON format of trace events, times in microseconds."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from clusterkit.page.entities import Attempt, CauseLink, Entity, Goodput, Mark, Run, Segment, Startup, TaskRow

Event = dict[str, Any]
Points = Mapping[str, Sequence[float]]  # `t` in seconds since the run began, and `v`

THE_RUN = 1  # the process that stands for the run; the tasks follow
ATTEMPTS, START_UP = 1, 2  # threads of a task's process
_LATEST = 2**52  # JavaScript's numbers hold it
_SEGMENTS = {
    "start": "starting",
    "run": "running",
    "lost": "computed again",
    "stopped": "stopped",
    "stalled": "stalled",
}


def trace_document(entities: Mapping[str, Entity], series: Mapping[str, Points], now: float) -> dict[str, Any]:
    """The whole trace; `now`, in seconds since the run began, ends what is open. `series` are by `loss/worker:1`."""
    run: Run | None = entities.get("run")
    goodput: Goodput | None = entities.get("goodput")
    told: dict[str, Any] = {"clusterkit": "report"}
    if run is not None:
        told |= {"run": run.id, "program": run.program, "state": run.state or run.phase}
    if goodput is not None:
        told["goodput"] = {part.name: round(part.seconds, 3) for part in goodput.parts}
    return {
        "displayTimeUnit": "ms",
        "otherData": told,
        "traceEvents": list(_TraceWriter(entities, max(0.0, now)).events(series)),
    }


class _TraceWriter:
    def __init__(self, entities: Mapping[str, Entity], now: float) -> None:
        self._entities, self._now = entities, now
        tasks = [row for row in entities.values() if isinstance(row, TaskRow)]
        names = dict.fromkeys([*(row.task for row in tasks), *(one.task for one in self._of(Attempt))])
        self._pids = {name: number for number, name in enumerate(names, THE_RUN + 1)}
        self._slices: dict[str, list[tuple[int, int]]] = {}  # of each task: begin and end of its attempts

    def events(self, series: Mapping[str, Points]) -> Iterator[Event]:
        """Metadata first."""
        yield from self._names()
        for name in self._pids:
            yield from self._attempts(name)
        for startup in self._of(Startup):
            yield from self._startup(startup)
        for number, mark in enumerate(self._of(Mark)):
            yield from self._mark(mark, number)
        for number, link in enumerate(self._of(CauseLink)):
            yield from self._flow(link, number)
        for name, points in series.items():
            yield from self._counter(name, points)

    def _of(self, kind: type[Any]) -> list[Any]:
        return [one for one in self._entities.values() if isinstance(one, kind)]

    def _names(self) -> Iterator[Event]:
        run: Run | None = self._entities.get("run")
        processes = {THE_RUN: "run" if run is None else f"run {run.id}"}
        processes |= {pid: name for name, pid in self._pids.items()}
        for pid, name in processes.items():
            yield {"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "args": {"name": name}}
            yield {"ph": "M", "name": "process_sort_index", "pid": pid, "tid": 0, "args": {"sort_index": pid}}
            threads = {ATTEMPTS: "events"} if pid == THE_RUN else {ATTEMPTS: "attempts", START_UP: "start-up"}
            for tid, thread in threads.items():
                yield {"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": {"name": thread}}

    def _attempts(self, task: str) -> Iterator[Event]:
        """Attempts follow one another, and segments are within them: slices of a thread may not overlap."""
        own = sorted((one for one in self._of(Attempt) if one.task == task), key=lambda one: (one.begin, one.attempt))
        earliest = 0
        for number, one in enumerate(own):
            latest = own[number + 1].begin if number + 1 < len(own) else math.inf
            begin = max(earliest, _us(one.begin))
            earliest = max(begin, _us(min(self._now if one.end is None else one.end, latest)))
            self._slices.setdefault(task, []).append((begin, earliest))
            same = self._thread(task, ATTEMPTS, "attempt")
            yield _slice(same, f"attempt {one.attempt}", (begin, earliest), _of_attempt(one))
            yield from self._segments(task, one.segments, begin, earliest)

    def _segments(self, task: str, segments: Sequence[Segment], begin: int, end: int) -> Iterator[Event]:
        for segment in sorted(segments, key=lambda one: one.begin):
            first = min(max(begin, _us(segment.begin)), end)
            begin = min(max(first, end if segment.end is None else _us(segment.end)), end)
            name = _SEGMENTS.get(segment.kind, segment.kind)
            args = {"text": segment.text} if segment.text else {}
            yield _slice(self._thread(task, ATTEMPTS, f"segment,{segment.kind}"), name, (first, begin), args)

    def _startup(self, startup: Startup) -> Iterator[Event]:
        if startup.task not in self._pids:
            return
        begin = 0
        for number, phase in enumerate(startup.phases):
            critical = number < len(startup.critical) and startup.critical[number]
            first = max(begin, _us(phase.begin))
            begin = max(first, _us(self._now if phase.end is None else phase.end))
            args = {"text": phase.text, "critical": critical}
            yield _slice(self._thread(startup.task, START_UP, "start-up"), phase.kind, (first, begin), args)

    def _thread(self, task: str, tid: int, category: str) -> Event:
        return {"cat": category, "pid": self._pids[task], "tid": tid}

    def _mark(self, mark: Mark, number: int) -> Iterator[Event]:
        pid = self._pids.get(mark.task or "", THE_RUN)
        at, args = _us(mark.at), {"kind": mark.kind, **({} if mark.number is None else {"fault": mark.number})}
        same = {"name": mark.text or mark.kind, "cat": mark.kind, "pid": pid, "tid": ATTEMPTS, "args": args}
        yield {**same, "ph": "i", "ts": at, "s": "g" if pid == THE_RUN else "p"}
        if mark.until is not None:  # lasting marks may overlap, but slices of a thread may not
            yield {**same, "ph": "b", "ts": at, "id": f"mark-{number}"}
            yield {**same, "ph": "e", "ts": max(at, _us(mark.until)), "id": f"mark-{number}"}

    def _flow(self, link: CauseLink, number: int) -> Iterator[Event]:
        """An arrow between two slices, which viewers find by the times of its ends."""
        ends = [self._within(*link.cause), self._within(*link.effect)]
        if None in ends:
            return
        same = {"name": link.text or "brought down", "cat": "cause", "id": number + 1, "tid": ATTEMPTS}
        yield {**same, "ph": "s", "pid": self._pids[link.cause[0]], "ts": ends[0]}
        yield {**same, "ph": "f", "bp": "e", "pid": self._pids[link.effect[0]], "ts": ends[1]}

    def _within(self, task: str, at: float) -> int | None:
        """Return the time, moved into the last attempt that had begun by then; None if there is none."""
        begun = [one for one in self._slices.get(task, ()) if one[0] <= _us(at)]
        return None if not begun else max(begun[-1][0], min(_us(at), begun[-1][1] - 1))

    def _counter(self, name: str, points: Points) -> Iterator[Event]:
        what, _, task = name.rpartition("/")
        pid = self._pids.get(task)
        for at, value in zip(points.get("t", ()), points.get("v", ()), strict=False) if pid is not None else ():
            if math.isfinite(value):
                yield {"ph": "C", "name": what, "pid": pid, "tid": 0, "ts": _us(at), "args": {what: value}}


def _slice(thread: Event, name: str, span: tuple[int, int], args: Event) -> Event:
    begin, end = span
    return {"ph": "X", "name": name or "unnamed", **thread, "ts": begin, "dur": end - begin, "args": args}


def _of_attempt(one: Attempt) -> Event:
    args: Event = {"how": one.how, "text": one.text}
    if one.steps is not None:
        args["steps"] = list(one.steps)
    if one.resumed is not None:
        args["resumed"] = one.resumed
    return args


def _us(seconds: float) -> int:
    return min(max(0, round(seconds * 1e6)), _LATEST) if math.isfinite(seconds) else 0
