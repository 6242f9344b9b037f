"""What the page shows on the time axis: bars for attempts and startups, lines from causes to effects, and marks."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import assert_never

from clusterkit.ledger import attempts as ledger
from clusterkit.ledger.attempts import Attempts
from clusterkit.page.model.entities import Attempt, CauseLink, Goodput, Mark, Segment, Startup, TimeShare
from clusterkit.text.printable import printable
from clusterkit.views.goodput import NAMES
from clusterkit.views.timeline import any_sentence
from clusterkit.words import account as words
from clusterkit.words import events as ev
from clusterkit.words.model import Task
from clusterkit.words.reports import Stage

PHASES = {
    Stage.BEGUN: "waiting", Stage.SPAWNED: "process", Stage.IMPORTED: "import", Stage.SERVING: "port",
    Stage.CONNECTED: "connect", Stage.PREPARED: "prepare", Stage.STEPPED: "first step",
}  # fmt: skip
# The maximum number of checkpoint marks. If there are more, every second checkpoint is kept, then every fourth, ...
MOST_CHECKPOINTS = 500
MOST_OTHERS = 2000  # at most this many other marks are kept, the newest
# Events without marks: the page shows these events in lanes, rows or curves, or not at all.
_Unmarked = (
    ev.Progressed | ev.StepsTimed | ev.Changed | ev.Spawned | ev.CheckpointFound | ev.SpawnFailed | ev.Exited | ev.Swept
    | ev.Drained | ev.AttemptEnded | ev.Resumed | ev.Ready | ev.Reached | ev.PhaseChanged | ev.ProgramEnds
    | ev.SigtermHandled | ev.TrainsWith | ev.InDebugger | ev.LeftDebugger | ev.EditorAwaited | ev.Began | ev.Ticked
    | ev.Noted | ev.TensorBoardReady | ev.TensorBoardLost | ev.DashboardReady | ev.DashboardLost | ev.Inspected
    | ev.LifelineLost | ev.Placed | ev.HostJoined | ev.Failed | ev.HostAvoided | ev.Paused | ev.Succeeded | ev.Stopping
    | ev.Straggling | ev.KeepsUp | ev.EditTrains | ev.Finished | ev.PhaseReached
    | ev.StepsUnreported | ev.Repaired
)  # fmt: skip


def bar(of: ledger.Attempt, lost_at: float | None = None) -> Attempt:
    """Return the bar for an attempt. If the run was lost, the bar of an unfinished attempt ends at `lost_at`."""
    end, how, text = of.end, of.outcome, of.text
    if end is None and lost_at is not None:
        end, how, text = max(lost_at, of.begin), "lost", "was lost with its supervisor"
    return Attempt(
        task=str(of.task),
        attempt=of.number,
        begin=of.begin,
        end=end,
        how=how,
        text=text,
        segments=tuple(_segments(of, end)),
        steps=None if of.first_step is None or of.last_step is None else (of.first_step, of.last_step),
        resumed=of.resumed_step,
    )


def links(attempts: Attempts) -> Iterator[CauseLink]:
    for key in attempts.collateral:
        effect = attempts.get(*key)
        if effect is None or (told := effect.decision) is None or told.role is None:
            continue
        end = told.started if told.ended is None else told.ended
        cause = attempts.get(told.role.task, told.role.attempt)
        at = end if cause is None or cause.end is None else cause.end
        text = f"{told.task} {told.exit}, after {told.role.task} had failed"
        yield CauseLink((str(told.role.task), at), (str(told.task), end), text)


def _segments(of: ledger.Attempt, end: float | None) -> list[Segment]:
    segments = [Segment(of.begin, end, "start")]
    if of.up_at is not None:
        segments = _over(segments, Segment(of.up_at, end, "run"))
    if of.lost_since is not None:
        segments = _over(segments, Segment(of.lost_since, end, "lost", "These steps were computed again."))
    for stop in of.stops:
        segments = _over(segments, Segment(stop.begin, end if stop.end is None else stop.end, stop.kind, stop.text))
    return segments


def _over(segments: Iterable[Segment], new: Segment) -> list[Segment]:
    """Add the segment `new`, which replaces the overlapping parts of the other segments. Return all segments."""
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


def goodput_entity(told: words.Goodput) -> Goodput | None:
    if not told.duration:
        return None
    parts = tuple(TimeShare(NAMES[name], round(seconds, 6)) for name, seconds in told.parts.items() if seconds > 0)
    most = f"Largest cost: {printable(told.most)}." if told.most else ""
    return Goodput(round(told.duration, 6), told.share, parts, most)


def startup_entities(told: words.Startup) -> Iterator[tuple[str, Startup]]:
    """For each task, yield the key and the entity of the startup: how the first attempt reached the first step."""
    for start in told.tasks:
        times = [(stage, at) for stage in Stage if (at := start.at(stage)) is not None]
        links = [(link.begin, link.end) for link in told.chain if link.task == start.task]
        phases, critical, before = list[Segment](), list[bool](), 0.0
        for stage, at in times:
            if at > before:
                phases.append(Segment(before, at, stage.value, PHASES[stage]))
                critical.append(any(begin < at and before < end for begin, end in links))
            before = max(before, at)
        if phases:
            yield f"startup/{start.task}", Startup(str(start.task), tuple(phases), tuple(critical))


@dataclass(slots=True)
class Marks:
    """The marks of a run, computed from its events. `changed` collects the numbers of marks that have changed."""

    changed: set[int] = field(default_factory=set)
    _marks: dict[int, Mark] = field(default_factory=dict)
    _checkpoints: list[int] = field(default_factory=list)
    _every: int = 1
    _checkpoint_count: int = 0
    _others: deque[int] = field(default_factory=deque)
    _free: list[int] = field(default_factory=list)  # the numbers of dropped marks, which are reused
    _of_fault: dict[int, int] = field(default_factory=dict)  # maps the number of a fault to the number of its mark

    def get(self, number: int) -> Mark | None:
        return self._marks.get(number)

    def take(self, at: float, event: ev.Event) -> None:
        """Update the marks. mypy reports each kind of event that is neither handled here nor listed in `_Unmarked`."""
        if isinstance(event, _Unmarked):
            return
        match event:
            case ev.Checkpointed(task, _, step):
                self._checkpointed(Mark(at, "checkpoint", str(task), f"checkpoint of step {step}"))
            case ev.FaultInjected(number, _, _, tasks):
                until = None if event.seconds is None else at + event.seconds
                self._of_fault[number] = self._add(Mark(at, "fault", _only(tasks), _text(event), until, number))
            case ev.FaultTook(number, detail, done):
                if not done:
                    self._change(number, text=f"It could not be injected: {detail}", until=None)
            case ev.FaultHealed(number, _, _, tasks):
                self._change(number, until=at)
                self._add(Mark(at, "heal", _only(tasks), _text(event), None, number))
            case ev.RestartPlanned(tasks) | ev.Shrunk(tasks):
                self._add(Mark(at, "restart", _only(tasks), _text(event)))
            case ev.Warned(text, task) | ev.Stalled(text, task):
                kind = "stall" if isinstance(event, ev.Stalled) else "warning"
                self._add(Mark(at, kind, None if task is None else str(task), text))
            case ev.LeftEarly(task) | ev.CannotExit(task):
                self._add(Mark(at, "warning", str(task), _text(event)))
            case ev.Impaired() | ev.Crashed() | ev.StorageFailed() | ev.AllocationEnding() | ev.TrainAlone():
                self._add(Mark(at, "warning", None, _text(event)))
            case ev.Requested() | ev.RequestRefused() | ev.Interrupted() | ev.Profiled():
                of = str(event.task) if isinstance(event, ev.Profiled) else None
                self._add(Mark(at, "request", of, _text(event)))
            case ev.ProgramChanged(problem=""):
                pass  # the restart that follows has a mark of its own
            case ev.Verified(verdict):
                self._add(Mark(at, "warning" if verdict.differs else "request", None, _text(event)))
            case ev.WaitsForChange() | ev.ProgramChanged():
                self._add(Mark(at, "warning", None, _text(event)))
            case ev.HostCut() | ev.HostBack() | ev.HostDraining() | ev.HostLost() | ev.Continued():
                self._add(Mark(at, "host", None, _text(event)))
            case _:
                assert_never(event)

    def _add(self, mark: Mark) -> int:
        number = self._put(mark)
        self._others.append(number)
        if len(self._others) > MOST_OTHERS:
            self._drop(self._others.popleft())
        return number

    def _checkpointed(self, mark: Mark) -> None:
        if self._checkpoint_count % self._every == 0:
            self._checkpoints.append(self._put(mark))
            if len(self._checkpoints) > MOST_CHECKPOINTS:
                for number in self._checkpoints[1::2]:
                    self._drop(number)
                self._checkpoints, self._every = self._checkpoints[::2], self._every * 2
        self._checkpoint_count += 1

    def _put(self, mark: Mark) -> int:
        number = self._free.pop() if self._free else len(self._marks)
        self._marks[number] = mark
        self.changed.add(number)
        return number

    def _drop(self, number: int) -> None:
        mark = self._marks.pop(number)
        if mark.number is not None and self._of_fault.get(mark.number) == number:
            del self._of_fault[mark.number]
        self._free.append(number)
        self.changed.add(number)

    def _change(self, fault: int, **fields: object) -> None:
        if (number := self._of_fault.get(fault)) is not None:
            self._marks[number] = replace(self._marks[number], **fields)  # type: ignore[arg-type]
            self.changed.add(number)


def _only(tasks: Sequence[Task]) -> str | None:
    return str(tasks[0]) if len(tasks) == 1 else None


def _text(event: ev.Event) -> str:
    return any_sentence(event) or event.kind
