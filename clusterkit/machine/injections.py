"""Injections: injects faults, tracks each fault until it is healed, and attributes failures to faults."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

from clusterkit.machine.blame import looks_collateral
from clusterkit.machine.cluster_state import SIGKILL, SIGSTOP, SIGTERM, ClusterState, TaskRecord
from clusterkit.machine.held_starts import DelayedStarts
from clusterkit.words.actions import Heal, Inject
from clusterkit.words.events import FaultHealed, FaultInjected, FaultTook
from clusterkit.words.faults import AT_ONCE, ON_NETWORK, Fault, FaultAction
from clusterkit.words.model import Task, TaskState, TaskType
from clusterkit.words.outcome import Failure

# These faults act on a process, and end with the process.
_ON_PROCESS = frozenset({FaultAction.KILL, FaultAction.TERM, FaultAction.STOP, FaultAction.MEMORY})
_SIGNALS = {FaultAction.KILL: SIGKILL, FaultAction.TERM: SIGTERM, FaultAction.STOP: SIGSTOP}
AFTEREFFECT = 15.0  # seconds after the end of a fault during which peers may still time out because of it
_ON_ATTEMPT = frozenset({FaultAction.STOP, FaultAction.MEMORY})
# The tasks that these faults hit stay alive, but become silent or slow, so a peer may fail instead.
_SILENCING = ON_NETWORK | {FaultAction.STOP, FaultAction.SLOW, FaultAction.HANG_START}


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
    """Injects faults that are signals or delayed starts, and has the backend inject all others."""

    state: ClusterState
    delayed_starts: DelayedStarts
    open: dict[int, Injection] = field(default_factory=dict)
    count: int = 0
    suspects: dict[int, Suspect] = field(default_factory=dict)  # every injected fault by its number

    def inject(self, fault: Fault, targets: tuple[Task, ...], others: tuple[Task, ...], step: int | None) -> int:
        """Inject a fault; return its number. `step`, the newest step, is only recorded."""
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
            one.heal_at = None  # the fault's duration begins when the task would start
            self.delayed_starts.delay_next_start(one.number, targets, fault.seconds or 0.0)
        else:
            self.state.actions.append(Inject(one.number, fault, targets, others))
        if one.pending_tasks or fault.action not in AT_ONCE:
            self.open[one.number] = one
            self._note_slowed()
        return one.number

    def reported(self, event: FaultTook) -> None:
        """Handle the backend's report on an injection."""
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
        """Inject faults that waited for a process, and heal faults whose duration is over."""
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

    def open_targets(self) -> dict[Task, str]:
        """Return the tasks that an open fault silences, slows or starves, each with the newest such fault as text."""
        acting = [one for one in self.open.values() if one.fault.action in _SILENCING | {FaultAction.MEMORY}]
        return {task: str(one.fault) for one in acting for task in one.tasks}

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


@dataclass(slots=True)
class Suspect:
    """An injected fault, and its known effects. Times are in seconds of the state machine's clock.

    | field | meaning |
    | --- | --- |
    | why_no_effect | why the fault has had no effect so far; empty once it has had an effect |
    | ended_at | when the fault was healed; if there is nothing to heal, when the fault was injected |
    | was_injected | the backend's answer: False if the fault could not be injected; None before the answer |
    | hit_attempts | the attempts that the fault acted upon, if it acts on processes |
    """

    fault: FaultInjected
    injected_at: float
    why_no_effect: str
    ended_at: float | None = None
    was_injected: bool | None = None
    hit_attempts: set[tuple[Task, int]] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.ended_at = self.injected_at if self.fault.action in AT_ONCE else None

    def _may_show(self, at: float) -> bool:
        return self.ended_at is None or at <= self.ended_at + AFTEREFFECT

    def explains_kill(self, failure: Failure) -> bool:
        """Return whether the fault's signal ended the attempt, which may exit late and with any code after SIGTERM."""
        exit_, sigkill = failure.exit, self.fault.action is FaultAction.KILL
        unasked = exit_.asked is None and not exit_.out_of_memory and (exit_.signal == SIGKILL or not sigkill)
        return unasked and (failure.task, failure.attempt) in self.hit_attempts

    def explains_process_failure(self, failure: Failure, spawned: float) -> bool:
        """Return whether the attempt may have failed because the fault hit its process or its packets."""
        if not self._may_show(failure.at):
            return False
        if self.fault.action in _ON_ATTEMPT:
            return (failure.task, failure.attempt) in self.hit_attempts
        if failure.task not in (*self.fault.tasks, *self.fault.others):
            return False
        slowed = self.fault.action is FaultAction.SLOW and (self.ended_at is None or spawned <= self.ended_at)
        return slowed or self.fault.action in ON_NETWORK

    def explains_lost_peer(self, failure: Failure) -> bool:
        """Return whether the attempt reports that a peer is gone, and the fault may have silenced or slowed a peer."""
        return self.fault.action in _SILENCING and self._may_show(failure.at) and looks_collateral(failure)

    def explains_memory_error(self, failure: Failure) -> bool:
        """Return whether the attempt failed because of an out-of-memory error in a peer that survived.

        TensorFlow raises a worker's error in the coordinator. The message contains the worker's device name.
        """
        if self.fault.action is not FaultAction.MEMORY or not self._may_show(failure.at):
            return False
        error = "\n".join((failure.exception or "", *failure.tail))
        devices = (f"/job:{task.type}/replica:0/task:{task.index}/" for task, _ in self.hit_attempts)
        return "ResourceExhausted" in error and any(device in error for device in devices)

    def explains_storage_error(self, failure: Failure, spawned: float) -> bool:
        """Return whether the attempt may have failed because the fault damaged checkpoints or filled the disk.

        Training tasks read checkpoints when they start, an evaluator at any time.
        """
        if self.fault.action is FaultAction.CORRUPT:
            return spawned > self.injected_at or failure.task.type is TaskType.EVALUATOR
        return self.fault.action is FaultAction.DISK_FULL and self._may_show(failure.at)


def fault_explaining(suspects: Sequence[Suspect], failure: Failure, spawned: float | None) -> int | None:
    """Return the number of the fault that explains a failure; None if no fault does.

    The more certain explanation wins. Among equally certain ones, the newest fault wins; among signals, the oldest
    wins. `suspects` are in the order of injection. `spawned` is when the attempt's process was created; if None, no
    fault explains the failure.
    """
    if spawned is None:
        return None
    return next((suspect.fault.number for suspect in _candidates(suspects, failure, spawned)), None)


def _candidates(suspects: Sequence[Suspect], failure: Failure, spawned: float) -> Iterator[Suspect]:
    real = [one for one in suspects if one.was_injected is not False and one.injected_at <= failure.at]
    newest_first = real[::-1]
    for action in (FaultAction.KILL, FaultAction.TERM):  # the first of several equal signals ended the attempt
        yield from (one for one in real if one.fault.action is action and one.explains_kill(failure))
    yield from (one for one in newest_first if one.explains_process_failure(failure, spawned))
    yield from (one for one in newest_first if one.explains_memory_error(failure))
    yield from (one for one in newest_first if one.explains_lost_peer(failure))
    yield from (one for one in newest_first if one.explains_storage_error(failure, spawned))
