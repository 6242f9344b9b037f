"""Rows about peers that are gone: what the tasks that are left say."""

from __future__ import annotations

from clusterkit.explain.row import Row

ROWS: tuple[Row, ...] = (
    Row(
        "peer-gone",
        "UnavailableError: Collective ops is aborted by: … (stopped sending heartbeats)",
        "Collective ops is aborted by|stopped sending heartbeats|[Hh]eartbeat timeout",
        "Another worker has failed, is frozen or is cut off: the error of {task} is only the consequence.",
        "Look at the worker that is named here, or else at the one whose log ends first.",
        example=("--workers", "2"),
        general=True,
    ),
    Row(
        "heartbeats-unanswered",
        "DeadlineExceededError: … CoordinationService/Heartbeat",
        "CoordinationService/Heartbeat",
        "worker:0, to which {task} sends its heartbeats, does not answer: it is dead, frozen or cut off.",
        "Look at the log of worker:0.",
        over=("peer-gone",),
        example=("--workers", "2"),
        general=True,
    ),
)
