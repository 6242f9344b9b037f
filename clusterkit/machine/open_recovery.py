"""A recovery in progress: the edit that caused it, its restart budget, and the reason to report if the job fails."""

from __future__ import annotations

from dataclasses import dataclass

from clusterkit.machine.blame import blame
from clusterkit.text.durations import shown
from clusterkit.words.job import RestartRules
from clusterkit.words.model import Task, TaskType
from clusterkit.words.outcome import PREEMPTED, Asked, Blame, Failure

SAVE_PAUSE = 0.1  # seconds without another save, after which the tasks start with the changed program
LONGEST_SAVES = 1.0  # seconds; the maximum wait for further saves, from the first save on


@dataclass(slots=True)
class Edit:
    """A change to the program: the changed files, and when the first of them changed. Later saves are added."""

    files: set[str]
    since: float

    def ready_at(self, now: float) -> float:
        """Return when the tasks may start if a file is saved `now`."""
        return min(now + SAVE_PAUSE, max(now, self.since + LONGEST_SAVES))


@dataclass(slots=True)
class OpenRecovery:
    """A recovery in progress: it waits for related failures, ends the remaining tasks, and restarts all tasks."""

    tasks: frozenset[Task]
    failures: list[Failure]
    decide_at: float
    doubtful: bool  # True if every failure looks collateral
    respawn_at: float | None = None  # None until the restart is decided
    key: str = ""
    uncharged: bool = False
    preempted: bool = False  # True if the exit code of the cause requests a restart, or reports success
    requested: bool = False  # True for a requested restart, which has no backoff and is not charged
    shrinks: bool = False  # True if workers are given up; the restart is then not charged
    edit: Edit | None = None  # the change to the program that caused the restart
    host: str | None = None  # the host whose departure caused the restart

    @property
    def reason(self) -> str:
        """Return the value of CLUSTERKIT_RESTART_REASON for the restarted tasks."""
        if self.edit is not None:
            return "edited"
        if self.requested and self.host is None:
            return "asked"
        return "preempted" if self.requested or self.preempted else "failure"

    def explains(self, failure: Failure) -> bool:
        """Return whether the failure is collateral of this recovery's failures, and its task will restart anyway.

        Such a failure arrives late if the peer's process ended before the restart was decided, but its output ended
        later.
        """
        decided = self.respawn_at is not None and not self.requested and failure.task in self.tasks
        return decided and failure.exit.host is None and failure in blame([*self.failures, failure]).collateral


@dataclass(slots=True)
class RestartBudget:
    """Counts the restarts of the tasks that share a restart budget."""

    used: int = 0
    consecutive: int = 0
    first_was_immediate: bool = False  # True if the first restart had no backoff, since the job had completed steps
    last_restart_at: float = 0.0
    cause: Failure | None = None  # the cause of the last restart

    def reset_after_progress(self, well_until: float, after: float) -> None:
        """Reset the budget if the job has made progress for long enough since the last restart."""
        if well_until - self.last_restart_at >= after:
            self.used = self.consecutive = 0

    def next_backoff(self, stepped: bool) -> int:
        """Return the number of the next backoff, or 0 for no backoff.

        `stepped` is True if the failed attempt had completed steps.
        """
        if not self.consecutive:
            self.first_was_immediate = stepped
        return self.consecutive + (not self.first_was_immediate)

    def add_restart(self, now: float, charged: bool) -> None:
        self.used += charged
        self.consecutive += 1
        self.last_restart_at = now


def reason(blamed: Blame, now: float, repeated: bool, budget: RestartBudget, rules: RestartRules) -> str:
    """Return why the job fails: `worker:1 exited with code 1, and its restart budget is used up (3 of 3)`."""
    cause = blamed.cause
    why, advice = f"{cause.task} {cause.exit}", ""
    if cause.exit.ok:
        step, advice = _early_exit(blamed, now)
        why += step
    if repeated and budget.used < rules.budget:
        progress = "without a new step" if cause.step is None else f"no further than at step {cause.step}"
        error = "" if cause.exit.asked is Asked.STALL else "with the same error and "
        why += ", as the attempt before it did" + ("" if cause.exit.ok else f", {error}{progress}")
    elif budget.used >= rules.budget and (cause.exit.error is None or cause.exit.unfit):
        why += f", and its restart budget is used up ({budget.used} of {rules.budget})"
    if cause.exit.preempted:
        advice = f". Exit code {PREEMPTED} is free only after SIGTERM or progress: a newer checkpoint, or more steps"
    return why + advice


def _early_exit(blamed: Blame, now: float) -> tuple[str, str]:
    """Explain that a task exited too early although other tasks needed it."""
    cause = blamed.cause
    step = "" if cause.step is None else f" at step {cause.step}"
    if cause.task.type is TaskType.PS:
        return step, "; a parameter server has to serve until the job is done (tf.distribute.Server.join)"
    failed_at = min((failure.at for failure in blamed.collateral), default=now)
    return f"{step}, {shown(max(0.0, failed_at - cause.at))} earlier", "; the workers did not stop together"
