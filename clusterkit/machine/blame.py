"""Cause and collateral: which of several failures came first in truth, not only in time."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from clusterkit.machine.likeness import way
from clusterkit.words.outcome import Failure

SIGABRT = 6

# How TensorFlow says that a peer is gone. The name of the exception decides; its text only where there is none.
_PEER_GONE = re.compile(
    r"UnavailableError|AbortedError|CancelledError|DeadlineExceededError"
    r"|Connection (?:reset|refused)|Socket closed|failed to connect to all addresses"
    r"|[Hh]eartbeat timeout|coordination service|CoordinationService"
)


def looks_collateral(failure: Failure) -> bool:
    """Whether the attempt died as TensorFlow's tasks die of a peer's death."""
    if failure.exit.signal is not None:
        return failure.exit.signal == SIGABRT
    if failure.exit.code is None or failure.exit.preempted:
        return False
    if failure.exception is not None:
        return _PEER_GONE.search(failure.exception) is not None
    return any(_PEER_GONE.search(line) for line in failure.tail)


class Blame(NamedTuple):
    """Failures that happened together. `same` are those of other tasks that failed of themselves as the cause did."""

    cause: Failure
    same: tuple[Failure, ...] = ()
    collateral: tuple[Failure, ...] = ()


def blame(failures: Sequence[Failure]) -> Blame:
    """Split failures that happened together, each part in order of time.

    The first one that does not look like a peer's death is the cause: a program that raises takes longer
    to be gone than its peers take to notice, so the order of exits alone accuses the survivor. A program that every
    task runs may raise the same in several of them, and none of these died of another.
    """
    in_time = sorted(failures, key=lambda failure: failure.at)
    cause = next((failure for failure in in_time if not looks_collateral(failure)), in_time[0])
    others = [failure for failure in in_time if failure is not cause]
    own = [] if looks_collateral(cause) else [f for f in others if way(f) is not None and way(f) == way(cause)]
    return Blame(cause, tuple(own), tuple(failure for failure in others if failure not in own))
