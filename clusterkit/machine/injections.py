"""Injections: the injected faults, each until it is healed."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from clusterkit.machine.attribution import Suspect, explaining
from clusterkit.machine.cluster_state import SIGKILL, SIGSTOP, SIGTERM, ClusterState, TaskRecord
from clusterkit.machine.held_starts import DelayedStarts
from clusterkit.words.actions import Heal, Inject
from clusterkit.words.events import FaultHealed, FaultInjected, FaultTook
from clusterkit.words.faults import AT_ONCE, Fault, FaultAction
from clusterkit.words.model import Task, TaskState

# These faults act on a process, and end with the process.
_ON_PROCESS = frozenset({FaultAction.KILL, FaultAction.TERM, FaultAction.STOP, FaultAction.MEMORY})
_SIGNALS = {FaultAction.KILL: SIGKILL, FaultAction.TERM: SIGTERM, FaultAction.STOP: SIGSTOP}


@dataclass(slots=True)
class Injection:
    """One injected fault. Tasks in `missing` have no process now; the fault hits their next attempt."""

    number: int
    fault: Fault
    tasks: tuple[Task, ...]
    until: float | None
    missing: set[Task] = field(default_factory=set)
    attempts: dict[Task, int] = field(default_factory=dict)


@dataclass(slots=True)
class Injections:
    """Injects faults by signals and delayed starts; has the backend inject all others with Inject."""

    state: ClusterState
    delayed_starts: DelayedStarts
    open: dict[int, Injection] = field(default_factory=dict)
    count: int = 0
    suspects: dict[int, Suspect] = field(default_factory=dict)  # every injected fault by its number

    def inject(self, fault: Fault, near: tuple[Task, ...], far: tuple[Task, ...], step: int | None) -> int:
        """Inject a fault; return its number. `step` is the newest step, for the record."""
        self.count += 1
        none = "did not start again" if fault.action is FaultAction.HANG_START else "had no process"
        event = FaultInjected(self.count, str(fault), fault.action, near, far, fault.seconds, step)
        self.suspects[self.count] = Suspect(event, self.state.now, f"{' and '.join(map(str, near))} {none}")
        until = None if fault.seconds is None else self.state.now + fault.seconds
        one = Injection(self.count, fault, near, until)
        self.state.record(event)
        if fault.action in _ON_PROCESS:
            one.missing = set(near)
            self._act_where_possible(one)
        elif fault.action is FaultAction.HANG_START:
            one.until = None  # the fault's duration counts from the start of the task
            self.delayed_starts.expect(one.number, near, fault.seconds or 0.0)
        else:
            self.state.out.append(Inject(one.number, fault, near, far))
        if one.missing or fault.action not in AT_ONCE:
            self.open[one.number] = one
            self._note_slowed()
        return one.number

    def took(self, event: FaultTook) -> None:
        """Note the backend's report on an injection."""
        if event.done:
            self._took(event.number)
        else:
            self._failed(event.number, event.detail)

    def explaining(self, record: TaskRecord) -> int | None:
        """Return the number of the fault that explains the failure of the current attempt; None if no fault does."""
        return explaining(list(self.suspects.values()), self.state.failure(record), record.spawned)

    def exited(self, record: TaskRecord) -> None:
        """Take back an injection whose signal did not reach the attempt, which has exited."""
        attempt = record.task, record.attempt
        for suspect in self.suspects.values():
            signal = _SIGNALS.get(suspect.fault.action)
            if attempt in suspect.hit and signal is not None and signal not in record.reached:
                suspect.hit.discard(attempt)
                if not suspect.hit:
                    suspect.why = f"{record.task} had already exited"

    def _took(self, number: int) -> None:
        self.suspects[number].why, self.suspects[number].done = "", True

    def _failed(self, number: int, why: str) -> None:
        """Note that the injection failed. The fault need not be healed, unless it hit other tasks."""
        suspect = self.suspects.get(number)
        if suspect is not None and not suspect.done:
            suspect.why, suspect.done = suspect.why and why, False
            for attempt in [attempt for attempt in self.state.attempts.values() if attempt.fault == number]:
                self.state.note(replace(attempt, fault=None))
        one = self.open.get(number)
        if one is not None and (len(one.tasks) <= 1 or one.fault.action is not FaultAction.MEMORY):
            del self.open[number]

    def settle(self) -> None:
        """Inject faults that waited for a process, and heal those whose duration is over."""
        for one in list(self.open.values()):
            self._act_where_possible(one)
            if one.until is not None and self.state.now >= one.until:
                self._close(one, "its time is over")
            elif one.fault.action is FaultAction.HANG_START:
                if not any(self.delayed_starts.is_late(one.number, task) for task in one.tasks):
                    self._close(one, "it starts")
            elif one.attempts and not one.missing and not any(map(self._lives, one.attempts.items())):
                self._close(one, "its process has ended")
            elif one.fault.action in AT_ONCE and not one.missing:
                del self.open[one.number]

    def next(self) -> float | None:
        """Return the earliest time at which a fault has to be healed."""
        return min((one.until for one in self.open.values() if one.until is not None), default=None)

    def heal_all(self, why: str) -> tuple[Task, ...]:
        healed = {task for one in self.open.values() for task in one.tasks}
        for one in list(self.open.values()):
            self._close(one, why)
        return tuple(sorted(healed))

    def _act_where_possible(self, one: Injection) -> None:
        for task in sorted(one.missing):
            record = self.state.records[task]
            if record.state is TaskState.RUNNING:
                one.missing.discard(task)
                self._act(one, record)

    def _act(self, one: Injection, record: TaskRecord) -> None:
        self.suspects[one.number].hit.add((record.task, record.attempt))
        if (signal := _SIGNALS.get(one.fault.action)) is not None:
            self._took(one.number)
        if signal is not None and signal != SIGSTOP:
            self.state.signal(record, signal)
            return
        one.attempts[record.task] = record.attempt
        if signal == SIGSTOP:
            self.state.pause(record, one.number)
        else:
            self.state.out.append(Inject(one.number, one.fault, (record.task,)))

    def _lives(self, item: tuple[Task, int]) -> bool:
        task, attempt = item
        record = self.state.records[task]
        return record.attempt == attempt and record.alive

    def _note_slowed(self) -> None:
        slowing = [one for one in self.open.values() if one.fault.action is FaultAction.SLOW]
        self.state.slowed = {task for one in slowing for task in one.tasks}

    def _close(self, one: Injection, why: str) -> None:
        del self.open[one.number]
        self._note_slowed()
        fault = one.fault
        if fault.action is FaultAction.STOP:
            for item in filter(self._lives, one.attempts.items()):
                self.state.unpause(self.state.records[item[0]], one.number)
        elif fault.action is FaultAction.HANG_START:
            if one.number in self.delayed_starts.came:
                self._took(one.number)
            self.delayed_starts.hurry(one.number, one.tasks)
        elif fault.action not in AT_ONCE:
            self.state.out.append(Heal(one.number))
        if fault.action not in AT_ONCE:
            self.suspects[one.number].over = self.state.now
            self.state.record(FaultHealed(one.number, str(fault), fault.action, one.tasks, why))
