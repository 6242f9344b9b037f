"""Injections: injects faults, and tracks each fault until it is healed."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from clusterkit.machine.attribution import Suspect, fault_explaining
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
    """One injected fault. The `pending_tasks` have no process now; the fault hits their next attempt."""

    number: int
    fault: Fault
    tasks: tuple[Task, ...]
    heal_at: float | None
    pending_tasks: set[Task] = field(default_factory=set)
    attempts: dict[Task, int] = field(default_factory=dict)


@dataclass(slots=True)
class Injections:
    """Injects faults by signals and delayed starts, and orders the backend to inject all others."""

    state: ClusterState
    delayed_starts: DelayedStarts
    open: dict[int, Injection] = field(default_factory=dict)
    count: int = 0
    suspects: dict[int, Suspect] = field(default_factory=dict)  # every injected fault by its number

    def inject(self, fault: Fault, targets: tuple[Task, ...], others: tuple[Task, ...], step: int | None) -> int:
        """Inject a fault; return its number. `step` is the newest step, for the record."""
        self.count += 1
        why = "did not start again" if fault.action is FaultAction.HANG_START else "had no process"
        event = FaultInjected(self.count, str(fault), fault.action, targets, others, fault.seconds, step)
        self.suspects[self.count] = Suspect(event, self.state.now, f"{' and '.join(map(str, targets))} {why}")
        heal_at = None if fault.seconds is None else self.state.now + fault.seconds
        one = Injection(self.count, fault, targets, heal_at)
        self.state.record(event)
        if fault.action in _ON_PROCESS:
            one.pending_tasks = set(targets)
            self._hit_running(one)
        elif fault.action is FaultAction.HANG_START:
            one.heal_at = None  # the fault's duration counts from the start of the task
            self.delayed_starts.delay_next_start(one.number, targets, fault.seconds or 0.0)
        else:
            self.state.actions.append(Inject(one.number, fault, targets, others))
        if one.pending_tasks or fault.action not in AT_ONCE:
            self.open[one.number] = one
            self._note_slowed()
        return one.number

    def reported(self, event: FaultTook) -> None:
        """Note the backend's report on an injection."""
        if event.done:
            self._mark_injected(event.number)
        else:
            self._mark_failed(event.number, event.detail)

    def fault_explaining(self, record: TaskRecord) -> int | None:
        """Return the number of the fault that explains the failure of the current attempt; None if no fault does."""
        return fault_explaining(list(self.suspects.values()), self.state.failure(record), record.spawned)

    def exited(self, record: TaskRecord) -> None:
        """Note that an attempt has exited. A fault whose signal did not reach the attempt has not hit it."""
        attempt = record.task, record.attempt
        for suspect in self.suspects.values():
            signal = _SIGNALS.get(suspect.fault.action)
            if attempt in suspect.hit_attempts and signal is not None and signal not in record.signals:
                suspect.hit_attempts.discard(attempt)
                if not suspect.hit_attempts:
                    suspect.why_no_effect = f"{record.task} had already exited"

    def _mark_injected(self, number: int) -> None:
        self.suspects[number].why_no_effect, self.suspects[number].was_injected = "", True

    def _mark_failed(self, number: int, why: str) -> None:
        """Note that the injection failed. The fault need not be healed, unless it hit other tasks."""
        suspect = self.suspects.get(number)
        if suspect is not None and not suspect.was_injected:
            suspect.why_no_effect, suspect.was_injected = suspect.why_no_effect and why, False
            for attempt in [attempt for attempt in self.state.attempts.values() if attempt.fault == number]:
                self.state.update_attempt(replace(attempt, fault=None))
        one = self.open.get(number)
        if one is not None and (len(one.tasks) <= 1 or one.fault.action is not FaultAction.MEMORY):
            del self.open[number]

    def settle(self) -> None:
        """Inject faults that waited for a process, and heal those whose duration is over."""
        for one in list(self.open.values()):
            self._hit_running(one)
            if one.heal_at is not None and self.state.now >= one.heal_at:
                self._close(one, "its time is over")
            elif one.fault.action is FaultAction.HANG_START:
                if not any(self.delayed_starts.is_delaying(one.number, task) for task in one.tasks):
                    self._close(one, "it starts")
            elif one.attempts and not one.pending_tasks and not any(map(self._is_current, one.attempts.items())):
                self._close(one, "its process has ended")
            elif one.fault.action in AT_ONCE and not one.pending_tasks:
                del self.open[one.number]

    def next_deadline(self) -> float | None:
        """Return the earliest time at which a fault has to be healed."""
        return min((one.heal_at for one in self.open.values() if one.heal_at is not None), default=None)

    def heal_all(self, why: str) -> tuple[Task, ...]:
        healed = {task for one in self.open.values() for task in one.tasks}
        for one in list(self.open.values()):
            self._close(one, why)
        return tuple(sorted(healed))

    def _hit_running(self, one: Injection) -> None:
        for task in sorted(one.pending_tasks):
            record = self.state.records[task]
            if record.state is TaskState.RUNNING:
                one.pending_tasks.discard(task)
                self._hit(one, record)

    def _hit(self, one: Injection, record: TaskRecord) -> None:
        self.suspects[one.number].hit_attempts.add((record.task, record.attempt))
        if (signal := _SIGNALS.get(one.fault.action)) is not None:
            self._mark_injected(one.number)
        if signal is not None and signal != SIGSTOP:
            self.state.signal(record, signal)
            return
        one.attempts[record.task] = record.attempt
        if signal == SIGSTOP:
            self.state.pause(record, one.number)
        else:
            self.state.actions.append(Inject(one.number, one.fault, (record.task,)))

    def _is_current(self, item: tuple[Task, int]) -> bool:
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
            for item in filter(self._is_current, one.attempts.items()):
                self.state.unpause(self.state.records[item[0]], one.number)
        elif fault.action is FaultAction.HANG_START:
            if one.number in self.delayed_starts.effective_faults:
                self._mark_injected(one.number)
            self.delayed_starts.release(one.number, one.tasks)
        elif fault.action not in AT_ONCE:
            self.state.actions.append(Heal(one.number))
        if fault.action not in AT_ONCE:
            self.suspects[one.number].ended_at = self.state.now
            self.state.record(FaultHealed(one.number, str(fault), fault.action, one.tasks, why))
