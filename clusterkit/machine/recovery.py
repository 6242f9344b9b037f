"""Recoveries: decides which tasks restart, and when, after failures that happened together."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from clusterkit.machine.blame import looks_collateral
from clusterkit.machine.cluster_state import ON_REQUEST, ClusterState, TaskRecord
from clusterkit.machine.ending import Ending, end_in_order
from clusterkit.machine.hosts import HostRecords
from clusterkit.machine.open_recovery import Edit, OpenRecovery, RestartBudget, reason
from clusterkit.machine.restart import (
    backoff_delay,
    budget_key,
    is_needed,
    needs_coordinator,
    restart_scope,
    scope_of,
    workers_of,
    workers_to_give_up,
)
from clusterkit.machine.roles import blamed_for, collateral_window, is_futile, made_steps, was_preempted, was_useless
from clusterkit.words.actions import Refresh
from clusterkit.words.events import Failed, RestartPlanned, Shrunk
from clusterkit.words.faults import seeded_uniform
from clusterkit.words.job import RestartPolicy
from clusterkit.words.model import Shape, Task, TaskType
from clusterkit.words.outcome import Asked, Blame, Failure


@dataclass(slots=True)
class Recoveries:
    """The open recoveries. Each task belongs to at most one of them."""

    state: ClusterState
    ending: Ending
    hosts: HostRecords
    open: list[OpenRecovery] = field(default_factory=list)
    budgets: dict[str, RestartBudget] = field(default_factory=dict)
    restarts: int = 0
    changed_files: set[str] = field(default_factory=set)  # files that changed after the tasks had started
    moved_tasks: frozenset[Task] = frozenset()  # tasks that lost their host in the last recovery

    def failed(self, record: TaskRecord) -> None:
        """Open a recovery for an attempt that failed without being asked to end, or exited too early with code 0."""
        failure = self.state.failure(record)
        self.state.record(Failed(failure, self.state.now - failure.at if failure.exit.ok else 0.0))
        if explained := next((one for one in self.open if one.explains(failure)), None):
            explained.failures.append(failure)
            blamed_for(self.state, explained.failures)
        elif not self.state.awaits_change:
            scope = scope_of(self.state.job, self.state.omitted, record.task, moves=failure.exit.host is not None)
            self._open([failure], scope, collateral_window(self.state, failure))

    def restart_finished(self, record: TaskRecord) -> None:
        """Restart a task that exited with code 0, unless other tasks would have to restart with it."""
        if restart_scope(self.state.job, record.task) == {record.task}:
            self._open([self.state.failure(record)], scope_of(self.state.job, self.state.omitted, record.task), 0.0)

    def request_restart(self, tasks: set[Task], host: str | None = None) -> tuple[Task, ...]:
        """Restart the requested tasks and the tasks that have to restart with them. Return all tasks that restart.

        If a `host` is about to leave, its tasks move to other hosts.
        """
        moves = host is not None
        scopes = {scope_of(self.state.job, self.state.omitted, task, moves) for task in tasks}
        restarting = frozenset[Task]().union(*scopes)
        self._open([], restarting, 0.0, requested=True, host=host)
        return tuple(sorted(restarting))

    def restart_with_edit(self, files: tuple[str, ...]) -> None:
        """Restart every task with the changed program; merge this restart with the restarts in progress."""
        now = self.state.now
        self.changed_files.update(files)
        for recovery in self.open:
            if recovery.edit is not None and recovery.respawn_at is not None:
                recovery.edit.files.update(files)
                recovery.respawn_at = recovery.edit.ready_at(now)
                return
        self._open([], frozenset(self.state.job.tasks), 0.0, requested=True, edit=Edit({*files}, now))

    def settle(self) -> None:
        """Decide how to carry out each recovery that is due, unless the leader is done: then the job is done, too."""
        for recovery in list(self.open):
            if not any(recovery is one for one in self.open):  # merged into another recovery
                continue
            undecided = recovery.respawn_at is None and not (self.ending.begun or self.state.is_leader_done)
            # The cause may be a host that is cut off, but not yet known to be lost.
            waits = bool(self.state.cut_hosts) and not recovery.requested and recovery.doubtful
            if undecided and not waits and (self.state.now >= recovery.decide_at or self._nobody_can_fail()):
                self._decide(recovery)
        if self.ending.begun:
            self.open.clear()

    def respawn(self) -> None:
        """Start the tasks of each recovery that is due, once their old processes are gone."""
        for recovery in list(self.open):
            self._respawn_when_clear(recovery)

    def next_deadline(self) -> float | None:
        """Return the earliest time at which a recovery can advance without an event."""
        times = [r.decide_at if r.respawn_at is None else r.respawn_at for r in self.open]
        return min((at for at in times if at > self.state.now), default=None)

    def is_restarting(self, task: Task) -> bool:
        """Return whether the task is about to restart."""
        return any(task in recovery.tasks for recovery in self.open)

    def has_doubtful(self, task: Task) -> bool:
        """Return whether an undecided recovery of this task has only failures that look collateral."""
        undecided = (one for one in self.open if one.respawn_at is None and not one.requested)
        return any(task in one.tasks and one.doubtful for one in undecided)

    def _open(
        self,
        failures: list[Failure],
        tasks: frozenset[Task],
        window: float,
        requested: bool = False,
        edit: Edit | None = None,
        host: str | None = None,
    ) -> None:
        decide_at, doubtful = self.state.now + window, all(map(looks_collateral, failures))
        for other in [other for other in self.open if other.tasks is tasks or not other.tasks.isdisjoint(tasks)]:
            self.open.remove(other)
            other.failures.extend(failures)
            failures = other.failures
            tasks = tasks if other.tasks is tasks else tasks | other.tasks  # failures of a gang share one set
            decide_at, requested = min(decide_at, other.decide_at), requested or other.requested
            doubtful, edit, host = doubtful and other.doubtful, edit or other.edit, host or other.host
        self.open.append(OpenRecovery(tasks, failures, decide_at, doubtful, requested=requested, edit=edit, host=host))

    def _nobody_can_fail(self) -> bool:
        """Return whether no attempt is in progress, except perhaps the evaluator's: no related failure can follow."""
        unsettled = self.state.census.unsettled
        return len(unsettled) <= 1 and all(task.type is TaskType.EVALUATOR for task in unsettled)

    def _decide(self, recovery: OpenRecovery) -> None:
        if recovery.requested:
            self._restart_on_request(recovery)
            return
        blamed = blamed_for(self.state, recovery.failures)
        cause = blamed.cause
        if cause.task in self.state.job.given_up:  # another recovery has given up the task
            self._restart_shrunk(recovery, blamed)
            return
        rules = self.state.job.restart
        recovery.key = budget_key(restart_scope(self.state.job, cause.task), cause.task)
        budget = self._budget(recovery.key)
        ended_well = cause.exit.ok and not is_needed(self.state.job, cause.task)
        recovery.preempted = cause.exit.preempted or ended_well
        recovery.uncharged = ended_well or was_preempted(self.state, budget.cause, cause, recovery.tasks)
        recovery.uncharged |= self._is_paused(cause.paused)  # somebody paused a peer until it seemed lost
        repeated, budget.cause = was_useless(self.state, budget.cause, cause), cause
        cant_start = cause.exit.error is not None and not cause.exit.unfit
        hopeless = rules.policy is RestartPolicy.NEVER or cant_start or bool(self.state.program_problem)
        futile = not hopeless and is_futile(self.state, blamed)
        hopeless |= (repeated or futile) and rules.policy is not RestartPolicy.ALWAYS
        if hopeless or (not recovery.uncharged and budget.used >= rules.budget):
            is_programs = repeated or futile or bool(self.state.program_problem)
            if workers := workers_to_give_up(self.state.job, blamed, is_programs, self.moved_tasks):
                self._shrink(recovery, blamed, budget, workers)
            else:
                self.open.remove(recovery)
                self._give_up(blamed, budget, repeated, futile and not repeated)
            return
        if self.hosts.attribute(recovery.failures):
            self._extend_to_cluster(recovery)
            blamed = blamed_for(self.state, recovery.failures)
        self._plan_restart(recovery, blamed, budget, budget.used + (not recovery.uncharged))

    def _is_paused(self, tasks: Iterable[Task]) -> bool:
        """Return whether a user has paused one of the tasks."""
        return any(ON_REQUEST in self.state.records[task].paused_by for task in tasks)

    def _plan_restart(self, recovery: OpenRecovery, blamed: Blame, budget: RestartBudget, charged: int) -> None:
        rules, now = self.state.job.restart, self.state.now
        self._end_tasks(recovery, Asked.GANG, 0.0)
        backoff = budget.next_backoff(made_steps(self.state, blamed.cause))
        delay = backoff_delay(rules, backoff, seeded_uniform(self.state.seed, recovery.key, self.restarts))
        recovery.respawn_at = max(now, recovery.failures[0].at + delay)
        self.moved_tasks = frozenset(failure.task for failure in recovery.failures if failure.exit.host is not None)
        tasks, delay = tuple(sorted(recovery.tasks)), recovery.respawn_at - now
        self.state.record(
            RestartPlanned(
                tasks,
                blamed.cause,
                blamed.collateral,
                delay,
                charged,
                rules.budget,
                same=blamed.same,
                free=recovery.uncharged or recovery.shrinks,
            )
        )

    def _shrink(self, recovery: OpenRecovery, blamed: Blame, budget: RestartBudget, lost: tuple[Task, ...]) -> None:
        """Give up the `lost` workers. The rest of a gang restarts; a coordinator restarts only if it can't continue."""
        state, cause = self.state, blamed.cause
        state.give_up(lost)
        recovery.tasks -= frozenset(lost)
        job = state.job
        if job.shape is Shape.MULTI_WORKER or cause.exit.crowded:
            self._extend_to_cluster(recovery)
        else:
            needless = all(failure.task in job.given_up for failure in recovery.failures)
            if recovery.tasks == {job.leader} and needless and state.records[job.leader].is_not_ending:
                recovery.tasks = frozenset()  # the coordinator waited for a worker that was given up
            if not recovery.tasks and self._is_coordinator_stuck():
                recovery.tasks = frozenset({job.leader})
        newest = state.newest_checkpoint if recovery.tasks else None
        workers, step = job.counts[TaskType.WORKER], None if newest is None else newest[0]
        least, remaining = job.restart.min_workers or 1, workers_of(job)
        state.record(Shrunk(lost, remaining, cause, budget.used, workers, least, bool(recovery.tasks), step))
        if recovery.tasks:
            self._restart_shrunk(recovery, blamed)
        else:
            self.open.remove(recovery)

    def _restart_shrunk(self, recovery: OpenRecovery, blamed: Blame) -> None:
        """Restart the remaining tasks with a new restart budget. This restart is not charged."""
        job, cause = self.state.job, blamed.cause
        recovery.key, recovery.shrinks = budget_key(restart_scope(job, job.leader), job.leader), True
        self._plan_restart(recovery, blamed, self.budgets.setdefault(recovery.key, RestartBudget(cause=cause)), 0)

    def _is_coordinator_stuck(self) -> bool:
        records, leader = self.state.records, self.state.records[self.state.job.leader]
        started = {task: math.inf if self.is_restarting(task) else record.started for task, record in records.items()}
        stuck = needs_coordinator(self.state.job, started, leader.first_step is not None)
        return stuck and leader.alive and not self.is_restarting(leader.task)

    def _extend_to_cluster(self, recovery: OpenRecovery) -> None:
        """Extend the recovery to the cluster, since endpoints change when tasks move; merge overlapping recoveries."""
        tasks = recovery.tasks | self.state.job.cluster
        for other in [one for one in self.open if one is not recovery and not one.tasks.isdisjoint(tasks)]:
            self.open.remove(other)
            recovery.failures += other.failures if other.respawn_at is None else []
            tasks |= other.tasks
        recovery.tasks = tasks - set(self.state.job.given_up)

    def _restart_on_request(self, recovery: OpenRecovery) -> None:
        """Begin a requested restart. If any of its tasks has failed, the restart also recovers from that failure."""
        recovery.key, recovery.uncharged, recovery.respawn_at = "asked", True, self.state.now
        tasks, grace, host = tuple(sorted(recovery.tasks)), self.state.job.limits.grace, recovery.host
        planned = RestartPlanned(tasks, None, (), 0.0, 0, self.state.job.restart.budget, host=host, free=True)
        if (edit := recovery.edit) is None and host is not None:
            self.state.drop_held(recovery.tasks)
            end_in_order(self.state, self.state.alive(tasks), Asked.DRAIN, grace)
        elif edit is None:
            self._end_tasks(recovery, Asked.REQUEST, grace)
        else:
            self.state.end_for_edit(recovery.tasks)
            recovery.respawn_at = edit.ready_at(self.state.now)
            step = None if self.state.newest_checkpoint is None else self.state.newest_checkpoint[0]
            step = 0 if self.state.job.watch_fresh else step
            planned = replace(planned, files=tuple(sorted(edit.files)), step=step)
        self.state.record(planned)

    def _end_tasks(self, recovery: OpenRecovery, request: Asked, grace: float) -> None:
        self.state.drop_held(recovery.tasks)  # the held-back tasks start together with the others
        for task in sorted(recovery.tasks):
            if self.state.records[task].alive:
                self.state.end(self.state.records[task], request, grace)

    def _budget(self, key: str) -> RestartBudget:
        """Return the budget of the key. Reset the budget first if the job has made progress for long enough."""
        budget = self.budgets.setdefault(key, RestartBudget())
        well_until = self.state.now if self.state.progress_at is None else self.state.progress_at
        budget.reset_after_progress(well_until, self.state.job.restart.forgive_after)
        return budget

    def _give_up(self, blamed: Blame, budget: RestartBudget, repeated: bool, futile: bool) -> None:
        cause = blamed.cause
        if cause.task.type is TaskType.EVALUATOR:
            self.state.warn(
                f"{cause.task} {cause.exit}{', as the attempt before it did,' if repeated else ''} and is not started "
                "again. The job continues without its evaluator.",
                cause.task,
            )
            return
        why = reason(blamed, self.state.now, repeated, budget, self.state.job.restart)
        if futile:
            why += f"{' before it reported a step' * (cause.step is None)}, with an error that a restart repeats"
        if self.state.program_problem:
            why += f", and {self.state.program_problem}"
        self.ending.give_up(why, blamed, repeated, futile)

    def _respawn_when_clear(self, recovery: OpenRecovery) -> None:
        is_due = recovery.respawn_at is not None and self.state.now >= recovery.respawn_at
        if not is_due or self._is_unsettled(recovery.tasks):
            return
        self.open.remove(recovery)
        if not recovery.requested:
            charged = not (recovery.uncharged or recovery.shrinks)
            self.budgets[recovery.key].add_restart(self.state.now, charged)
        self.restarts += 1
        if self.changed_files:
            self._refresh()
        self.state.spawn(recovery.tasks, recovery.reason)

    def _refresh(self) -> None:
        """Prepare the restart for a changed program, and forget the failures of the previous program."""
        self.budgets.clear()
        fresh = self.state.job.watch_fresh
        if fresh:
            self.state.newest_checkpoint = None
            self.state.checkpoints.clear()
        self.state.actions.append(Refresh(tuple(sorted(self.changed_files)), fresh))
        self.changed_files.clear()

    def _is_unsettled(self, tasks: frozenset[Task]) -> bool:
        """Return whether the run is still waiting for one of these tasks. For speed, compare numbers of tasks first."""
        unsettled = self.state.census.unsettled
        other_count = len(self.state.records) - len(tasks)
        return len(unsettled) > other_count or not tasks.isdisjoint(unsettled)
