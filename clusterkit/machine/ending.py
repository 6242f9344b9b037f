"""The end of a run, by success, failure, a signal or a timeout, and the teardown until every task is down.

Servers are ended after the coordinator, which may save the servers' state when it receives SIGTERM.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace

from clusterkit.machine.cluster_state import ClusterState, TaskRecord
from clusterkit.machine.roles import blamed_for
from clusterkit.machine.timers import Timer
from clusterkit.text.spelling import listed
from clusterkit.words.actions import Finish
from clusterkit.words.distribution import Training, Undistributed
from clusterkit.words.events import Crashed, Finished, Stopping, Succeeded
from clusterkit.words.model import Task, TaskState, TaskType
from clusterkit.words.outcome import (
    CRASHED,
    NOT_AS_ASKED,
    SUSPENDED,
    Asked,
    Blame,
    Failure,
    NotInjected,
    Reservation,
    RunResult,
    RunState,
    diverged,
)
from clusterkit.words.reports import metrics_of_first
from clusterkit.words.verification import Verification


@dataclass(frozen=True, slots=True)
class Verdict:
    """The decision on how the run ends."""

    state: RunState
    exit_code: int
    reason: str
    blame: Blame | None = None
    repeated: bool = False
    usage_error: bool = False
    lost: bool = False
    reservations: tuple[Reservation, ...] = ()


@dataclass(slots=True)
class Ending:
    """Decides how the run ends or is suspended, ends the tasks, and finishes the run when all tasks are down."""

    state: ClusterState
    verdict: Verdict | None = None
    finished: bool = False
    not_injected: Callable[[], tuple[NotInjected, ...]] = tuple
    gang_failures: list[Failure] = field(default_factory=list)  # failures in the gang of a leader that succeeded
    unfinished: list[Failure] = field(default_factory=list)  # peers that had not finished when the leader succeeded
    undistributed: Callable[[], Undistributed | None] = lambda: None
    diverged_at: int | None = None  # the leader's first step with a non-finite loss; None if the newest loss is finite
    # The first step with a non-finite loss. Later finite losses do not change it, but a restart before this step does.
    first_nan: int | None = None
    verification: Verification | None = None  # the verdict of --verify
    warned: bool = False  # True once the user was warned about the loss
    on_failure: Callable[[str, Blame | None], None] | None = None  # with --watch, called instead of `fail`

    @property
    def begun(self) -> bool:
        """Return whether the verdict is decided. No task is started after that."""
        return self.verdict is not None

    @property
    def succeeded(self) -> bool:
        return self.verdict is not None and self.verdict.state is RunState.SUCCEEDED

    @property
    def suspending(self) -> bool:
        """Return whether the run is about to be suspended until its next allocation. Another verdict may follow."""
        return self.verdict is not None and self.verdict.state is RunState.SUSPENDED

    def succeed(self, leader: TaskRecord) -> None:
        """Note that the leader exited with code 0. End the servers, and give the other tasks some time to finish."""
        state, limits = self.state, self.state.job.limits
        self.verdict = Verdict(RunState.SUCCEEDED, 0, f"{leader.task} exited with code 0")
        state.drop_held(self.state.job.tasks)
        state.record(Succeeded(leader.task, tuple(record.task for record in state.alive())))
        state.timers.set(Timer.FINISH, state.now + limits.finish - limits.servers)
        state.timers.set(Timer.EVALUATOR, state.now + limits.evaluator)
        for record in state.alive():
            if state.job.is_server(record.task):
                state.end(record, Asked.SUCCESS, limits.servers)
            elif record.task.type is TaskType.EVALUATOR:
                self.evaluator_reported(record)

    def fail_after_success(self, failure: Failure) -> None:
        """Note that a task of the leader's gang failed on its own, so the job failed although the leader succeeded."""
        self.gang_failures.append(failure)
        if self.succeeded:
            self.verdict = None
            self.fail(f"{failure.task} {failure.exit}, although {self.state.job.leader} exited with code 0")
        if self.verdict is not None:
            self.verdict = replace(self.verdict, blame=blamed_for(self.state, self.gang_failures))

    def give_up(self, reason: str, blame: Blame | None = None, repeated: bool = False, usage: bool = False) -> None:
        """Fail the job because a restart can't help. With --watch, wait for a change to the program instead."""
        if self.on_failure is None:
            self.fail(reason, blame, repeated, usage)
        elif not self.begun:
            self.on_failure(reason, blame)

    def fail(self, reason: str, blame: Blame | None = None, repeated: bool = False, usage: bool = False) -> None:
        """Fail the job. If `usage` is True, the cause is a usage error.

        `repeated` is True if the job failed twice in the same way with no step in between.
        """
        self._stop(Verdict(RunState.FAILED, 1, reason, blame, repeated, usage), self.state.job.limits.grace)

    def abandon(self, reason: str) -> None:
        """End the run, since the supervisor lost something that it needs. Another supervisor may continue the run."""
        self._stop(Verdict(RunState.FAILED, 1, reason, lost=True), self.state.job.limits.grace)

    def suspend(self, why: str, grace: float) -> None:
        """Suspend the run, since its allocation is ending.

        If the run has already succeeded, this only makes the tasks end sooner.
        """
        if self.succeeded:
            for record in self.state.alive():
                self.state.end(record, Asked.SUCCESS, grace)
        self._stop(Verdict(RunState.SUSPENDED, SUSPENDED, why), grace)

    def crashed(self, event: Crashed, restarts: int) -> None:
        """Finish the run at once after an internal error, since clusterkit's state may be wrong."""
        self.verdict = Verdict(RunState.FAILED, CRASHED, event.sentence)
        self.state.began = self.state.began or self.state.now
        for task in self.state.census.unsettled:
            self.state.close_attempt(self.state.records[task])
        self._finish(self.verdict, restarts)

    def stop(self, state: RunState, exit_code: int, reason: str, interrupted: bool = False) -> None:
        """Stop the run, on request or after Ctrl-C (`interrupted`).

        If the run has already succeeded, this only makes the tasks end sooner.
        """
        if self.succeeded:
            for record in self.state.alive():
                self.state.end(record, Asked.SUCCESS, self.state.job.limits.grace)
        self._stop(Verdict(state, exit_code, reason), self.state.job.limits.grace, interrupted)

    def kill_all(self) -> None:
        for record in self.state.alive():
            self.state.end(record, Asked.TEARDOWN, 0.0)

    def end_remaining_tasks(self) -> None:
        """End the remaining training tasks, since their time to finish after the leader's exit has run out."""
        for record in self.state.alive():
            if record.task.type is not TaskType.EVALUATOR:
                self.state.end(record, Asked.SUCCESS, self.state.job.limits.servers)

    def loss_reported(self, step: int, loss: float | None) -> None:
        """Note the leader's loss; warn the first time that it is NaN or infinite."""
        if self.first_nan is not None and (step < self.first_nan or (step == self.first_nan and loss is not None)):
            self.first_nan = None  # a restart has gone back to this step or before it, so the old NaN no longer counts
        if loss is not None:
            self.diverged_at = None
        elif self.diverged_at is None:
            self.diverged_at = self.first_nan = step if self.first_nan is None else self.first_nan
            if not self.warned:
                self.warned = True
                self.state.warn(diverged(step), self.state.job.leader)

    def evaluator_reported(self, record: TaskRecord) -> None:
        """End the evaluator after success, once it has evaluated the newest checkpoint."""
        newest = self.state.newest_checkpoint
        if self.succeeded and newest and record.last_step is not None and record.last_step >= newest[0]:
            self.end_evaluator(record)

    def end_evaluator(self, record: TaskRecord) -> None:
        """End the evaluator, which has evaluated the last checkpoint or has run out of time."""
        self.state.end(record, Asked.SUCCESS, self.state.job.limits.grace)

    def settle(self, restarts: int) -> None:
        """Finish the run if it is ending and every task is down."""
        if self.verdict is None or self.finished or self.state.census.unsettled:
            return
        self._finish(self.verdict, restarts)

    def _finish(self, verdict: Verdict, restarts: int) -> None:
        self.finished = True
        result = self._result(self._qualified(verdict), restarts)
        self.state.record(Finished(result))
        self.state.actions.append(Finish(result))

    def _stop(self, verdict: Verdict, grace: float, interrupted: bool = False) -> None:
        if self.verdict is not None and not (self.suspending and verdict.state is not RunState.SUSPENDED):
            return
        self.verdict = verdict
        self.state.drop_held(self.state.job.tasks)
        alive = self.state.alive()
        tasks = tuple(record.task for record in alive)
        self.state.record(Stopping(verdict.reason, tasks, grace, self.suspending, interrupted))
        if self.suspending:
            end_in_order(self.state, alive, Asked.SUSPENSION, grace)
            return
        for record in alive:
            self.state.end(record, Asked.TEARDOWN, grace)

    def _qualified(self, verdict: Verdict) -> Verdict:
        """Return the verdict. A success that is not what was asked for has an exit code of its own, and says why."""
        if verdict.state is not RunState.SUCCEEDED:
            return verdict
        found = self._reservations()
        if not found:
            return verdict
        reason = f"{verdict.reason}, but {listed(list(found.values()))}"
        return replace(verdict, exit_code=NOT_AS_ASKED, reason=reason, reservations=tuple(found))

    def _reservations(self) -> dict[Reservation, str]:
        """Map each reservation about a success to a clause, leaving out those that --allow names."""
        found = dict[Reservation, str]()
        alone, faults = self.undistributed(), len(self.not_injected())
        if alone is not None:
            found[Reservation.ALONE] = alone.clause
        if self.unfinished:
            tasks = listed([failure.task for failure in self.unfinished])
            found[Reservation.UNFINISHED] = f"{tasks} had not finished"
        if self.diverged_at is not None:
            found[Reservation.NAN] = f"the loss is not a number, first at step {self.diverged_at}"
        if self.verification is not None and self.verification.differs:
            found[Reservation.VERIFY] = "its first steps are not equal to those of one process"
        if faults:
            what = "a fault that was asked for was" if faults == 1 else f"{faults} faults that were asked for were"
            found[Reservation.FAULTS] = f"{what} never injected"
        return {kind: clause for kind, clause in found.items() if kind not in self.state.job.allow}

    def _result(self, verdict: Verdict, restarts: int) -> RunResult:
        attempts = [self.state.attempts[key] for key in sorted(self.state.attempts)]
        steps = [attempt.last_step for attempt in attempts if attempt.last_step is not None]
        leader = self.state.records[self.state.job.leader]
        blame, report = verdict.blame, leader.trains_with
        short = leader.steps_total is not None and (leader.last_step or 0) < leader.steps_total
        return RunResult(
            state=verdict.state,
            exit_code=verdict.exit_code,
            reason=verdict.reason,
            cause=blame.cause if blame else None,
            collateral=blame.collateral if blame else (),
            attempts=tuple(attempts),
            restarts=restarts,
            last_step=max(steps, default=None),
            duration=self.state.now - self.state.began,
            same=blame.same if blame else (),
            repeated=verdict.repeated,
            usage_error=verdict.usage_error,
            not_injected=self.not_injected(),
            checkpoint=None if self.state.newest_checkpoint is None else self.state.newest_checkpoint[1],
            lost=verdict.lost,
            given_up=self.state.job.given_up,
            undistributed=self.undistributed(),
            unfinished=tuple(self.unfinished) if verdict.state is RunState.SUCCEEDED else (),
            metrics=metrics_of_first(self.state.metrics),
            diverged_at=self.diverged_at,
            loop=report is not None and report.training is Training.LOOP,
            short=short and verdict.state is RunState.SUCCEEDED,
            verification=self.verification,
            reservations=verdict.reservations,
        )


def end_in_order(state: ClusterState, records: Iterable[TaskRecord], request: Asked, grace: float) -> None:
    """End tasks within `grace` seconds, but servers only after the coordinator is down.

    Servers are ended at the latest when `limits.servers` seconds of the grace period remain.
    """
    leader, server_time = state.records[state.job.leader], state.job.limits.servers
    may_save = leader.state is TaskState.RUNNING and leader.end_request is None and grace > server_time
    for record in list(records):
        if may_save and state.job.is_server(record.task) and record.state is TaskState.RUNNING:
            record.end_request = record.end_request or request
            state.move(record, TaskState.STOPPING)
            state.kept_servers[record.task] = state.now + grace
            state.timers.set(Timer.KILL, state.now + grace - server_time, record.task)
        else:
            state.end(record, request, grace)


def end_kept_server(state: ClusterState, task: Task) -> None:
    """End a server that was kept running, within the rest of its grace period."""
    until, record = state.kept_servers[task], state.records[task]
    state.timers.set(Timer.KILL, until, task)
    state.end(record, record.end_request or Asked.TEARDOWN, until - state.now)
