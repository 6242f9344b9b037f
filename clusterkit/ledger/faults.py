"""Injected faults, and what came of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from clusterkit.ledger.incident import Course
from clusterkit.words.events import FaultInjected
from clusterkit.words.faults import AT_ONCE, FaultAction
from clusterkit.words.model import Task
from clusterkit.words.recovery import InjectedFault

# The supervisor injects these itself; of all others the backend reports whether they took hold.
_OWN = frozenset({FaultAction.KILL, FaultAction.TERM, FaultAction.STOP, FaultAction.HANG_START})


@dataclass(slots=True)
class FaultRecord:
    """One injected fault. Times in seconds since the run began."""

    event: FaultInjected
    at: float
    healed: float | None = None
    why: str = ""
    detail: str = ""
    done: bool | None = None  # None until the backend has answered
    stalled: float | None = None  # the first warning of a stall while it was open
    course: Course = field(default_factory=Course)

    @property
    def took_hold(self) -> bool:
        """Whether it is certain that it was injected."""
        return self.done is True or self.event.action in _OWN

    def report(self, failures: Sequence[tuple[Task, float]]) -> InjectedFault:
        """The fault as far as it is known; `failures` are those that it explains, with the times of their detection."""
        event, done = self.event, self.done is not False
        detected = [at for _, at in failures]
        if done and self.stalled is not None:
            detected.append(self.stalled)
        return InjectedFault(
            number=event.number,
            fault=event.fault,
            action=event.action,
            tasks=event.tasks,
            others=event.others,
            seconds=event.seconds,
            step=event.step,
            injected=self.at,
            detail=self.detail,
            done=done,
            healed=self.healed,
            why=self.why,
            detected=min(detected, default=None),
            died=tuple(task for task, _ in failures),
            went_on=self.course.went_on and not failures,
            first_step=None if failures else self.course.first_step,
        )


class Faults:
    """The injected faults of a run by their numbers."""

    def __init__(self) -> None:
        self.known: dict[int, FaultRecord] = {}
        self.open: dict[int, FaultInjected] = {}  # those in effect
        self.unsettled: dict[int, FaultRecord] = {}  # those of which a step can change what is known
        self._of: dict[Task, dict[int, FaultAction]] = {}

    def of(self, task: Task) -> Mapping[int, FaultAction]:
        """The open faults in a task by their numbers; kept up to date."""
        return self._of.setdefault(task, {})

    def inject(self, now: float, event: FaultInjected) -> None:
        """A fault is injected."""
        self.known[event.number] = self.unsettled[event.number] = FaultRecord(event, now)
        if event.action not in AT_ONCE:
            self.open[event.number] = event
            for task in event.tasks:
                self._of.setdefault(task, {})[event.number] = event.action

    def take_answer(self, number: int, detail: str, done: bool) -> None:
        """The backend has answered whether the fault was injected. There may be an answer for each of its tasks."""
        if (fault := self.known.get(number)) is not None:
            fault.detail = detail if fault.done is None else f"{fault.detail}; {detail}"
            fault.done = done or fault.done is True
            if not fault.done:
                self._close(number)

    def heal(self, now: float, number: int, why: str) -> None:
        """The fault is healed."""
        if (fault := self.known.get(number)) is not None:
            fault.healed, fault.why = now, why
        self._close(number)

    def stall(self, now: float) -> None:
        """A stall was warned of."""
        for number in self.open:
            if self.known[number].stalled is None:
                self.known[number].stalled = now

    def times(self, numbers: Sequence[int]) -> list[float]:
        """When these were injected; a damaged journal may name others."""
        return [self.known[number].at for number in numbers if number in self.known]

    def _close(self, number: int) -> None:
        if (event := self.open.pop(number, None)) is not None:
            for task in event.tasks:
                self._of[task].pop(number, None)
