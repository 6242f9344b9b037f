"""Attribution of failures to injected faults."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from clusterkit.machine.blame import looks_collateral
from clusterkit.words.events import FaultInjected
from clusterkit.words.faults import AT_ONCE, ON_NETWORK, FaultAction
from clusterkit.words.model import Task, TaskType
from clusterkit.words.outcome import SIGKILL, Failure

AFTEREFFECT = 15.0  # seconds after the end of a fault in which peers may still time out because of the fault
_ON_ATTEMPT = frozenset({FaultAction.STOP, FaultAction.MEMORY})
# The tasks that these faults hit stay alive, but become silent or slow, so that a peer may fail instead.
_SILENCING = ON_NETWORK | {FaultAction.STOP, FaultAction.SLOW, FaultAction.HANG_START}


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
        """Return whether the fault's signal ended the attempt. A program may exit in any way, long after SIGTERM."""
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
        """Return whether the attempt reports that a peer is gone while the fault separates a task from its peers."""
        return self.fault.action in _SILENCING and self._may_show(failure.at) and looks_collateral(failure)

    def explains_memory_error(self, failure: Failure) -> bool:
        """Return whether the attempt failed with an out-of-memory error of a peer that survived.

        TensorFlow raises a worker's error in the coordinator, and the device name in the message contains the task.
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

    The more certain explanation wins, then (except for signals) the newest fault. `suspects` are in the order of
    injection. `spawned` is when the attempt's process was created; if None, no fault explains the failure.
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
