"""Roles: which attempts were the cause or collateral, and whether the last restart was useful."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from clusterkit.machine.blame import SILENT_LIFETIME, blame, is_bug, is_usage_error, repeats
from clusterkit.machine.cluster_state import ClusterState
from clusterkit.machine.restart import window
from clusterkit.words.model import Task, TaskType
from clusterkit.words.outcome import REFUSED, SIGKILL, Blame, Failure, FailureRole, RoleKind

SHORT_WINDOW = 0.05  # seconds to wait for further tasks that were killed together with the first one
STEPPING_WITHIN = 1.0  # seconds; a job counts as making steps for this long after its last step


def collateral_window(state: ClusterState, failure: Failure) -> float:
    """Return the seconds to wait for related failures: the cause of this failure, or its results.

    The wait is short if a task is killed while the job is making steps: then the job is not about to finish, and the
    kill needs no further explanation. The usual wait would add 0.3 to 0.5 s to each recovery of a gang.
    """
    progress_at, usual = state.progress_at, window(state.job, failure)
    is_at_work = progress_at is not None and failure.at - progress_at < STEPPING_WITHIN
    return min(SHORT_WINDOW, usual) if failure.exit.signal == SIGKILL and is_at_work else usual


def blamed_for(state: ClusterState, failures: Sequence[Failure]) -> Blame:
    """Find the cause of failures that happened together, and record the role of each attempt."""
    blamed = blame(failures)
    cause = blamed.cause
    if cause.step is None and cause.task.type is not TaskType.EVALUATOR:
        steps = [step for task in state.job.training if (step := state.records[task].last_step) is not None]
        blamed = blamed._replace(cause=replace(cause, step=max(steps, default=None)))
    roles = ((RoleKind.CAUSE, (cause,)), (RoleKind.SAME, blamed.same), (RoleKind.COLLATERAL, blamed.collateral))
    for kind, failures in roles:
        for failure in failures:
            ended = state.attempts[failure.task, failure.attempt]
            state.update_attempt(replace(ended, role=FailureRole(kind, cause.task, cause.attempt)))
    return blamed


def is_futile(state: ClusterState, blamed: Blame) -> bool:
    """Return whether a restart is useless: after a refusal, a usage error, or a bug that follows the last step.

    A refusal means that clusterkit ended the program in the task's process, since the program can't work there. Only
    refusals count if the user has set the restart budget, or if the job runs on hosts: a file or module that is missing
    on one host may exist on another. A bug counts only if all steps were completed and no checkpoint exists. Before the
    last step, a restart may get past a bug between two steps, since the program may resume from a checkpoint that
    clusterkit does not see.
    """
    job, cause = state.job, blamed.cause
    if cause.exit.code == REFUSED and any(line.startswith("clusterkit: ") for line in cause.tail):
        return True
    record = state.records[cause.task]
    stepped = record.first_step if cause.task.type is TaskType.EVALUATOR else state.progress_at
    if job.hosts.count or job.restart.insists:
        return False
    if stepped is not None:
        all_made = record.last_step is not None and record.last_step == record.steps_total
        return all_made and state.newest_checkpoint is None and is_bug(cause)
    return cause.at - record.started <= SILENT_LIFETIME and is_usage_error(blamed, job.leader)


def was_useless(state: ClusterState, previous: Failure | None, cause: Failure) -> bool:
    """Return whether a restart was useless: the attempt failed like the previous one, and training made no progress."""
    if previous is None:
        return False
    is_evaluator = cause.task.type is TaskType.EVALUATOR
    stepless = previous.step is None and cause.step is None and (is_evaluator or state.progress_at is None)
    return repeats(previous, cause, numbers=stepless) and not _made_progress(state, previous, cause)


def _made_progress(state: ClusterState, previous: Failure, cause: Failure) -> bool:
    """Return whether the attempt completed more steps than the previous one, or left a newer checkpoint."""
    if state.progress_at is None and cause.task.type is not TaskType.EVALUATOR:
        return _lived_long(state, cause)
    if not made_steps(state, cause):
        return False
    if previous.step is None or cause.step is None or cause.step > previous.step:
        return True
    return _has_new_checkpoint(state, cause)


def was_preempted(state: ClusterState, previous: Failure | None, cause: Failure, tasks: Iterable[Task]) -> bool:
    """Return whether an attempt's request for a restart, by exit code 42, is to be believed and costs nothing.

    A program that exits with this code each time, without a step, would otherwise restart for ever. So it needs a
    notice, which is SIGTERM to one of the `tasks` that restart together, or progress since the `previous` failure:
    a signal from outside is not seen, but a program that handles one saves a checkpoint or has completed steps.
    """
    if not cause.exit.preempted:
        return False
    if any(state.records[task].sigterm_at is not None for task in tasks):
        return True
    if _has_new_checkpoint(state, cause):
        return True
    if state.progress_at is None and cause.task.type is not TaskType.EVALUATOR:
        return _lived_long(state, cause)
    if not made_steps(state, cause):
        return False
    return previous is None or previous.step is None or cause.step is None or cause.step > previous.step


def _lived_long(state: ClusterState, failure: Failure) -> bool:
    """Return whether the attempt may have completed steps that nobody reported."""
    return failure.at - state.records[failure.task].started > SILENT_LIFETIME


def _has_new_checkpoint(state: ClusterState, failure: Failure) -> bool:
    """Return whether a newer checkpoint was reported since the attempt began."""
    newest, known = state.newest_checkpoint, state.records[failure.task].checkpoint_known
    return newest is not None and (known is None or newest[0] > known[0])


def made_steps(state: ClusterState, failure: Failure) -> bool:
    """Return whether the attempt is known to have completed steps; for an evaluator, to have evaluated."""
    record = state.records[failure.task]
    if failure.task.type is TaskType.EVALUATOR:
        return record.first_step is not None
    return state.stepped_at is not None and state.stepped_at >= record.started
