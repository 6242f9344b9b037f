"""Roles: the part of each attempt in what failed together, and whether the restart before that was of any use."""

from __future__ import annotations

from dataclasses import replace

from clusterkit.machine.blame import Blame
from clusterkit.machine.cluster_state import ClusterState
from clusterkit.machine.repeats import UNSEEN, repeats
from clusterkit.words.model import TaskType
from clusterkit.words.outcome import Failure, FailureRole, RoleKind


def note_roles(state: ClusterState, blamed: Blame) -> None:
    """Record the role of each attempt."""
    cause = blamed.cause
    parts = ((RoleKind.CAUSE, (cause,)), (RoleKind.SAME, blamed.same), (RoleKind.COLLATERAL, blamed.collateral))
    for kind, failures in parts:
        for failure in failures:
            ended = state.attempts[failure.task, failure.attempt]
            state.note(replace(ended, role=FailureRole(kind, cause.task, cause.attempt)))


def was_useless(state: ClusterState, before: Failure | None, cause: Failure) -> bool:
    """Whether a restart was useless: it failed as the attempt before it did, without a step in between."""
    record = state.records[cause.task]
    if cause.task.type is TaskType.EVALUATOR:
        stepped = record.first_step is not None
    elif state.progress_at is None:
        stepped = cause.at - record.started > UNSEEN
    else:
        stepped = state.stepped_at is not None and state.stepped_at >= record.started
    return not stepped and repeats(before, cause)
