"""Rules for tasks that exit too early or too late, and for peers that fail at the time of the leader's success."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from clusterkit.machine.blame import SHELL_SIGNAL_BASE, SIGABRT, is_own_failure, looks_collateral, was_killed
from clusterkit.machine.cluster_state import ClusterState, TaskRecord
from clusterkit.machine.ending import Ending
from clusterkit.machine.injections import Injections
from clusterkit.machine.monitors.stalls import LONGEST_PHASE, Stalls
from clusterkit.machine.recovery import Recoveries
from clusterkit.machine.restart import is_needed, restart_scope
from clusterkit.machine.timers import Timer
from clusterkit.words.actions import Inspect
from clusterkit.words.events import CannotExit, Failed, LeftEarly, Look, ProgramEnds, Vitals
from clusterkit.words.job import RestartPolicy
from clusterkit.words.model import ProgramKind, Shape, Task, TaskState, TaskType
from clusterkit.words.outcome import PREEMPTED, Asked, Failure

PS_EXIT_PATIENCE = 5.0  # seconds without a step after a parameter server's exit until the coordinator is inspected
PATIENCE = 10.0  # seconds until an exit is overdue; a coordinator may first have to remove functions from servers


@dataclass(slots=True)
class Exits:
    """Tracks tasks that exited early although other tasks need them: the other tasks soon fail, or wait forever.

    If the other tasks fail or wait, the early exit is the cause, however long ago it happened. If they complete no
    steps, they are inspected first, since tasks that do not need the exited task may just take longer.
    """

    state: ClusterState
    ending: Ending
    recoveries: Recoveries
    stalls: Stalls
    injections: Injections
    early: dict[Task, TaskRecord] = field(default_factory=dict)
    requested_at: float | None = None  # when the pending inspection was requested
    patience: float = 1.0  # the factor for the wait before an inspection; doubled if the other tasks were at work

    def exited_early(self, record: TaskRecord) -> None:
        """Handle a task that exited with code 0 before the job was done."""
        state, task = self.state, record.task
        if state.is_leader_done:  # the leader's remaining processes are being killed
            return
        state.record(LeftEarly(task, record.attempt, record.last_step))
        if is_needed(state.job, task):
            if not self.recoveries.is_restarting(task):
                self.early[task], self.patience = record, 1.0
                self._set_timer(record.exited)
            elif self.recoveries.has_doubtful(task):
                self.early[task] = record
                self._blame([record])
        elif state.job.restart.policy is RestartPolicy.ALWAYS and not self.recoveries.is_restarting(task):
            self.recoveries.restart_finished(record)

    def blame_early_exits(self, record: TaskRecord) -> None:
        """If a task's failure shows that a peer is gone, blame the failure on the tasks that exited early."""
        if self.early and looks_collateral(self.state.failure(record)):
            self._blame(
                [left for left in self._current_early() if record.task in restart_scope(self.state.job, left.task)]
            )

    def on_timer(self) -> None:
        """Request an inspection if no step was completed in time: other tasks may be waiting for the exited tasks."""
        left, now = self._current_early(), self.state.now
        if not left or self.ending.begun or self.state.awaits_change:
            return
        excused = max(self.stalls.phase_ended_at, self.state.holds.ended_at)
        since = max(*(record.exited for record in left), self.state.progress_at or 0.0, excused)
        if now < since + self._limit() or self._is_excused():
            self._set_timer(since if now < since + self._limit() else now)
        elif self.requested_at is None:
            self.requested_at = now
            self.state.actions.append(
                Inspect(Look.STALL, f"{left[0].task} has exited with code 0, and no step was made since")
            )

    def explains_stall(self, vitals: Mapping[Task, Vitals]) -> bool:
        """Evaluate an inspection; return whether training is blocked by the tasks that exited early."""
        requested_at, self.requested_at = self.requested_at, None
        if requested_at is None or self.ending.begun or (self.state.progress_at or 0.0) >= requested_at:
            return False
        inspected = [vitals[record.task] for record in self._steppers() if record.task in vitals]
        is_blocked = bool(inspected) and all(one.doing and not one.own for one in inspected)
        if is_blocked:
            self.stalls.requested_at = None  # the stall is explained, so its pending inspection is ignored
            self._blame(self._current_early())
        else:
            self.patience *= 2
            self._set_timer(self.state.now)
        return is_blocked

    def _blame(self, records: list[TaskRecord]) -> None:
        for record in records:
            del self.early[record.task]
            ended = self.state.attempts[record.task, record.attempt]
            self.state.update_attempt(replace(ended, fault=self.injections.fault_explaining(record)))
            self.recoveries.failed(record)

    def _current_early(self) -> list[TaskRecord]:
        """Return the tasks that exited early and have not been restarted."""
        self.early = {task: record for task, record in self.early.items() if self.state.records[task] is record}
        return [self.early[task] for task in sorted(self.early)]

    def _steppers(self) -> list[TaskRecord]:
        """Return the running tasks that complete steps."""
        return self.state.alive(self.state.job.steppers)

    def _limit(self) -> float:
        """Return after how many seconds without a step the other tasks are inspected; 0 means never."""
        limits = self.state.job.limits
        if any(task.type is TaskType.PS for task in self.early):
            return PS_EXIT_PATIENCE * self.patience
        stall = min((wait for wait in (limits.stall_warning, limits.stall) if wait), default=0.0)
        stepped = any(self.state.records[task].first_step is not None for task in self.state.job.training)
        return self.patience * (stall if stepped else limits.startup or stall)

    def _set_timer(self, since: float) -> None:
        # A command that is not Python can't be inspected.
        if (limit := self._limit()) and self.state.job.program.kind is not ProgramKind.COMMAND:
            self.state.timers.set(Timer.EARLY_EXIT, max(self.state.now, since + limit))

    def _is_excused(self) -> bool:
        """Return whether a task is in a phase without steps, such as an evaluation, that has not lasted too long."""
        return any(self.state.now < at + LONGEST_PHASE for one in self._steppers() for at in one.phases.values())

    # Overdue exits.

    def program_ends(self, record: TaskRecord, event: ProgramEnds) -> None:
        """Set the exit deadline of a process whose program has ended; clear the deadline if the program continues."""
        if not event.begun:
            self.state.timers.clear(Timer.EXIT, record.task)
        elif record.is_not_ending and not self.state.timers.is_set(Timer.EXIT, record.task):
            self.state.timers.set(Timer.EXIT, self.state.now + PATIENCE, record.task)

    def exit_overdue(self, record: TaskRecord) -> None:
        """Record that the task should have exited by now, and which other tasks are down.

        A coordinator may be waiting for a worker that is down.
        """
        down = tuple(task for task in sorted(self.state.job.cluster - {record.task}) if self._is_down(task))
        self.state.record(CannotExit(record.task, record.attempt, PATIENCE, down))

    def _is_down(self, task: Task) -> bool:
        """Return whether a task can't serve its peers: it is not running, is stopped, or is restarting."""
        record = self.state.records[task]
        is_away = record.state is not TaskState.RUNNING or bool(record.paused_by)
        return is_away or (record.attempt > 1 and not record.ready)

    # Peers that fail although the leader succeeds. The leader's exit does not prove that its peers in a gang succeeded,
    # since each has its own share of the work. A failure that the leader's exit caused is ignored; a peer that was
    # killed leads to a warning.

    @property
    def peers(self) -> frozenset[Task]:
        """Return the tasks whose failures make the job fail: training tasks that restart together with the leader."""
        job = self.state.job
        return restart_scope(job, job.leader) - {job.leader} if job.shape is Shape.MULTI_WORKER else frozenset()

    def leader_succeeded(self) -> None:
        """Judge the peers that failed shortly before the leader's success and have not been restarted."""
        for failure in [failure for one in self.recoveries.open for failure in one.failures]:
            if failure.task in self.peers:
                self._judge_peer(failure)

    def peer_failed(self, record: TaskRecord) -> None:
        """Judge a peer that failed after the leader had succeeded, and that was not asked to end."""
        failure = self.state.failure(record)
        if is_own_failure(failure):
            self.state.record(Failed(failure))
        self._judge_peer(failure)

    def _judge_peer(self, failure: Failure) -> None:
        if is_own_failure(failure):
            self.ending.fail_after_success(failure)
        elif was_killed(failure.exit) or failure.exit.host is not None:
            self.state.warn(
                f"{failure.task} {failure.exit} when {self.state.job.leader} had finished, so the job counts as done. "
                f"See whether {failure.task} had something left to save.",
                failure.task,
            )
        elif failure.exit.code not in (None, PREEMPTED, SHELL_SIGNAL_BASE + SIGABRT):  # some programs abort at exit
            self.ending.unfinished.append(failure)

    def peer_ended(self, record: TaskRecord) -> None:
        """If the peer had connected, but had to be ended after the leader's success, note the peer as unfinished."""
        joined = record.trains_with is not None and record.trains_with.cluster > 1
        if record.end_request is Asked.SUCCESS and joined and record.task in self.peers:
            failure = self.state.failure(record)
            if not failure.exit.ok:
                self.ending.unfinished.append(failure)
