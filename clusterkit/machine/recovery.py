"""Recoveries: failures that happened together, which tasks restart because of them, and when."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from clusterkit.machine.blame import Blame, blame, looks_collateral
from clusterkit.machine.cluster_state import ClusterState, TaskRecord
from clusterkit.machine.ending import Ending
from clusterkit.machine.hosts import HostRecords
from clusterkit.machine.repeats import UNSEEN, repeats
from clusterkit.machine.restart import backoff_delay, budget_key, can_be_collateral, restart_scope
from clusterkit.words.events import Failed, RestartPlanned
from clusterkit.words.job import RestartPolicy
from clusterkit.words.model import Task, TaskType
from clusterkit.words.outcome import Asked, Failure, FailureRole, RoleKind
from clusterkit.words.seeded import seeded_uniform

SEEN_CUT = 1.0  # seconds from half of a host's time-out until it counts as cut off


@dataclass(slots=True)
class OpenRecovery:
    """A recovery in progress: it waits for collateral failures, ends what still runs of its tasks, restarts them."""

    tasks: frozenset[Task]
    failures: list[Failure]
    decide_at: float
    doubtful: bool  # whether each failure may be due to another one
    respawn_at: float | None = None  # None until decided
    key: str = ""
    free: bool = False
    asked: bool = False  # a requested restart: no backoff, not charged


@dataclass(slots=True)
class Account:
    """The restarts that are charged to one budget key."""

    used: int = 0
    in_a_row: int = 0
    last: float = 0.0
    cause: Failure | None = None  # of the last restart


@dataclass(slots=True)
class Recoveries:
    """Every open recovery. No task is in two of them."""

    state: ClusterState
    ending: Ending
    hosts: HostRecords
    open: list[OpenRecovery] = field(default_factory=list)
    accounts: dict[str, Account] = field(default_factory=dict)
    restarts: int = 0

    def failed(self, record: TaskRecord) -> None:
        """An attempt failed; it had not been asked to end."""
        failure = record.failure()
        self.state.record(Failed(failure))
        scope = restart_scope(self.state.job, record.task, moves=failure.exit.host is not None)
        self._open([failure], scope, self._window(failure))

    def ended_well(self, record: TaskRecord) -> None:
        """A task exited with code 0 and the policy restarts it; not one of a gang, whose peers still run."""
        if restart_scope(self.state.job, record.task) == {record.task}:
            self._open([record.failure()], frozenset({record.task}), 0.0)

    def asked(self, tasks: set[Task]) -> tuple[Task, ...]:
        """A restart was requested: of these tasks, with those that have to restart with them. Return all of them."""
        scopes = {restart_scope(self.state.job, task) for task in tasks}
        together = frozenset[Task]().union(*scopes)
        self._open([], together, 0.0, asked=True)
        return tuple(sorted(together))

    def settle(self) -> None:
        """Decide each recovery for which the decision is due."""
        for recovery in list(self.open):
            if not any(recovery is one for one in self.open):  # it became a part of another one
                continue
            undecided = recovery.respawn_at is None and not self.ending.begun and not self._in_doubt(recovery)
            if undecided and (self.state.now >= recovery.decide_at or self._nobody_left()):
                self._decide(recovery)
        if self.ending.begun:
            self.open.clear()

    def respawn(self) -> None:
        """Start the tasks of each recovery whose time has come, once nothing is left of them."""
        for recovery in list(self.open):
            self._respawn_when_clear(recovery)

    def next(self) -> float | None:
        """The earliest time at which a recovery can advance by itself."""
        times = [r.decide_at if r.respawn_at is None else r.respawn_at for r in self.open]
        return min((at for at in times if at > self.state.now), default=None)

    def covers(self, task: Task) -> bool:
        """Whether the task is going to restart."""
        return any(task in recovery.tasks for recovery in self.open)

    def _open(self, failures: list[Failure], tasks: frozenset[Task], window: float, asked: bool = False) -> None:
        decide_at, doubtful = self.state.now + window, all(map(looks_collateral, failures))
        for other in [other for other in self.open if other.tasks is tasks or not other.tasks.isdisjoint(tasks)]:
            self.open.remove(other)
            other.failures.extend(failures)
            failures = other.failures
            tasks = tasks if other.tasks is tasks else tasks | other.tasks  # a gang's is one set for all its failures
            decide_at, asked = min(decide_at, other.decide_at), asked or other.asked
            doubtful = doubtful and other.doubtful
        self.open.append(OpenRecovery(tasks, failures, decide_at, doubtful, asked=asked))

    def _window(self, failure: Failure) -> float:
        limits = self.state.job.limits
        if failure.exit.unreached:
            return self._until_seen
        if failure.exit.error is not None or not can_be_collateral(self.state.job, failure.task):
            return 0.0
        if failure.exit.preempted:
            # Peers that were asked to stop may still be writing the checkpoint that the first one has written.
            return limits.grace if len(restart_scope(self.state.job, failure.task)) > 1 else 0.0
        if self.state.job.hosts.count and looks_collateral(failure):
            return self._until_seen
        return limits.collateral

    @property
    def _until_seen(self) -> float:
        """Seconds within which a host that may be the cause is known to be cut off: after half of its time-out.

        No time is lost: where one of its tasks was on such a host, it could not start again before.
        """
        return max(self.state.job.limits.collateral, self.state.job.hosts.timeout / 2 + SEEN_CUT)

    def _in_doubt(self, recovery: OpenRecovery) -> bool:
        """Whether the cause may be a host that is cut off, of which it will be known whether it is lost."""
        return bool(self.state.cut_off) and not recovery.asked and recovery.doubtful

    def _nobody_left(self) -> bool:
        """Whether no task is left that could still fail, as the cause or as collateral."""
        unsettled = self.state.census.unsettled
        return len(unsettled) <= 1 and all(task.type is TaskType.EVALUATOR for task in unsettled)

    def _decide(self, recovery: OpenRecovery) -> None:
        if recovery.asked:
            self._grant(recovery)
            return
        blamed = blame(recovery.failures)
        self._note(blamed)
        cause = blamed.cause
        rules, now = self.state.job.restart, self.state.now
        recovery.key = budget_key(restart_scope(self.state.job, cause.task), cause.task)
        recovery.free = cause.exit.preempted or cause.exit.ok
        account = self._account(recovery.key)
        repeated, account.cause = self._repeats(account.cause, cause), cause
        cant_start = cause.exit.error is not None and not (cause.exit.unfit and self.state.job.hosts.count)
        hopeless = rules.policy is RestartPolicy.NEVER or cant_start
        hopeless |= repeated and rules.policy is not RestartPolicy.ALWAYS
        if hopeless or (not recovery.free and account.used >= rules.budget):
            self._give_up(recovery, blamed, account, repeated)
            return
        if self.hosts.judge(recovery.failures):
            self._widen(recovery)
            blamed = blame(recovery.failures)
            self._note(blamed)
        self._clear(recovery, Asked.GANG, 0.0)
        nth = account.in_a_row + 1
        delay = backoff_delay(rules, nth, seeded_uniform(self.state.seed, recovery.key, self.restarts))
        recovery.respawn_at = max(now, recovery.failures[0].at + delay)
        charged = account.used + (not recovery.free)
        tasks, delay = tuple(sorted(recovery.tasks)), recovery.respawn_at - now
        self.state.record(
            RestartPlanned(tasks, blamed.cause, blamed.collateral, delay, charged, rules.budget, same=blamed.same)
        )

    def _widen(self, recovery: OpenRecovery) -> None:
        """Tasks move: all that know an endpoint restart, together with what else is restarting."""
        tasks = recovery.tasks | self.state.job.cluster
        for other in [one for one in self.open if one is not recovery and not one.tasks.isdisjoint(tasks)]:
            self.open.remove(other)
            recovery.failures += other.failures if other.respawn_at is None else []
            tasks |= other.tasks
        recovery.tasks = tasks

    def _note(self, blamed: Blame) -> None:
        """Record the role of each attempt."""
        cause = blamed.cause
        parts = ((RoleKind.CAUSE, (cause,)), (RoleKind.SAME, blamed.same), (RoleKind.COLLATERAL, blamed.collateral))
        for kind, failures in parts:
            for failure in failures:
                ended = self.state.attempts[failure.task, failure.attempt]
                self.state.note(replace(ended, role=FailureRole(kind, cause.task, cause.attempt)))

    def _repeats(self, before: Failure | None, cause: Failure) -> bool:
        """Whether a restart was useless: it failed as the attempt before it did, without a step in between."""
        state, record = self.state, self.state.records[cause.task]
        if cause.task.type is TaskType.EVALUATOR:
            stepped = record.first_step is not None
        elif state.progress_at is None:
            stepped = cause.at - record.started > UNSEEN
        else:
            stepped = state.stepped_at is not None and state.stepped_at >= record.started
        return not stepped and repeats(before, cause)

    def _grant(self, recovery: OpenRecovery) -> None:
        """Begin a requested restart. It also repairs a failure of the same tasks."""
        recovery.key, recovery.free, recovery.respawn_at = "asked", True, self.state.now
        self._clear(recovery, Asked.REQUEST, self.state.job.limits.grace)
        budget = self.state.job.restart.budget
        self.state.record(RestartPlanned(tuple(sorted(recovery.tasks)), None, (), 0.0, 0, budget))

    def _clear(self, recovery: OpenRecovery, asked: Asked, grace: float) -> None:
        self.state.drop_held(recovery.tasks)  # they start with the others, not before
        for task in sorted(recovery.tasks):
            if self.state.records[task].alive:
                self.state.end(self.state.records[task], asked, grace)

    def _account(self, key: str) -> Account:
        """The key's account, reset if the job has made progress for long enough since its last restart."""
        account = self.accounts.setdefault(key, Account())
        well_until = self.state.now if self.state.progress_at is None else self.state.progress_at
        if well_until - account.last >= self.state.job.restart.forgive_after:
            account.used = account.in_a_row = 0
        return account

    def _give_up(self, recovery: OpenRecovery, blamed: Blame, account: Account, repeated: bool) -> None:
        self.open.remove(recovery)
        cause = blamed.cause
        if cause.task.type is TaskType.EVALUATOR:
            self.state.warn(
                f"{cause.task} {cause.exit}{', as the attempt before it did,' if repeated else ''} and is not started "
                "again. The job continues without its evaluator.",
                cause.task,
            )
            return
        rules, why = self.state.job.restart, f"{cause.task} {cause.exit}"
        if repeated and account.used < rules.budget:
            why += ", as the attempt before it did, with the same error and without a new step"
        elif account.used >= rules.budget and (cause.exit.error is None or cause.exit.unfit):
            why += f", and its restart budget is used up ({account.used} of {rules.budget})"
        self.ending.fail(why, blamed, repeated)

    def _respawn_when_clear(self, recovery: OpenRecovery) -> None:
        due = recovery.respawn_at is not None and self.state.now >= recovery.respawn_at
        if not due or self._is_unsettled(recovery.tasks):
            return
        self.open.remove(recovery)
        if not recovery.asked:
            account = self.accounts[recovery.key]
            account.used += not recovery.free
            account.in_a_row += 1
            account.last = self.state.now
        self.restarts += 1
        reason = "asked" if recovery.asked else "preempted" if recovery.free else "failure"
        self.state.spawn(recovery.tasks, reason)

    def _is_unsettled(self, tasks: frozenset[Task]) -> bool:
        """Whether something of one of them is still waited for. Mostly their number says it."""
        unsettled = self.state.census.unsettled
        others = len(self.state.records) - len(tasks)
        return len(unsettled) > others or not tasks.isdisjoint(unsettled)
