"""Rows about peers that are gone: what the tasks that are left say."""

from __future__ import annotations

from clusterkit.explain.row import Row

ROWS: tuple[Row, ...] = (
    Row(
        "collective-aborted",
        "UnavailableError: Collective ops is aborted by: …",
        "Collective ops is aborted by",
        "Another worker failed first, which aborted the collective operation that {task} was in.",
        "Look for the first error in the logs of the other workers: this one is its consequence.",
        general=True,
    ),
    Row(
        "heartbeats-stopped",
        "UnavailableError: The following tasks are unhealthy (stopped sending heartbeats)",
        "stopped sending heartbeats|[Hh]eartbeat timeout",
        "worker:0 has not heard from another worker for several seconds: that one is dead, frozen or cut off.",
        "Look at the worker that is named here, or else at the one whose log ends first.",
        general=True,
    ),
    Row(
        "heartbeats-unanswered",
        "DeadlineExceededError: … CoordinationService/Heartbeat",
        "CoordinationService/Heartbeat",
        "worker:0, to which {task} sends its heartbeats, does not answer: it is dead, frozen or cut off.",
        "Look at the log of worker:0.",
        general=True,
    ),
    Row(
        "ps-gone",
        "UnavailableError: … Additional GRPC error information from remote target /job:ps/replica:0/task:0",
        r"UnavailableError(?:[^\n]*\n){0,12}?[^\n]*remote target /job:ps/replica:0/task:(?P<index>\d+)",
        "ps:{index} is gone, and the coordinator can't continue without the variables that were there.",
        "Look at the log of ps:{index}. It has to restart together with the chief, from a checkpoint.",
        general=True,
    ),
)
