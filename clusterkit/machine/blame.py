"""Blame: which of several failures is the cause, and which are collateral."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from clusterkit.machine.likeness import error_signature, is_mismatch, was_killed
from clusterkit.words.outcome import Failure

SIGABRT = 6

# TensorFlow's errors when a peer is gone. They are looked for in the exception; without one, in the end of the log.
_PEER_GONE = re.compile(
    r"UnavailableError|AbortedError|CancelledError|DeadlineExceededError"
    r"|Connection (?:reset|refused|closed by peer)|Gloo [\w-]+ failed|Socket closed|failed to connect to all addresses"
    r"|[Hh]eartbeat timeout|coordination service|CoordinationService"
)
_FROM_PEER = re.compile(f"{_PEER_GONE.pattern}|grpc_status|GRPC error")  # in a line before the last exception


def looks_collateral(failure: Failure) -> bool:
    """Whether the attempt failed as TensorFlow's tasks do when a peer is gone, or did not start since one is."""
    if failure.exit.unreached:
        return True
    if is_mismatch(failure) or failure.exit.ok:
        return False
    if failure.exit.signal is not None:
        return failure.exit.signal == SIGABRT
    if failure.exit.code is None or failure.exit.preempted:  # could not start, or was lost with its host, too
        return False
    if failure.exception is not None:
        return _PEER_GONE.search(failure.exception) is not None
    return any(_PEER_GONE.search(line) for line in failure.tail)


def is_own(failure: Failure) -> bool:
    """Whether nothing but its program explains how the attempt ended: no peer, whoever names it, and no signal."""
    exit_ = failure.exit
    if was_killed(exit_) or exit_.preempted or (exit_.code is None and exit_.signal is None):
        return False
    if is_mismatch(failure):
        return True
    return not looks_collateral(failure) and not any(_FROM_PEER.search(line) for line in failure.tail)


class Blame(NamedTuple):
    """Failures that happened together. `same` are other tasks' own failures with the same error as the cause."""

    cause: Failure
    same: tuple[Failure, ...] = ()
    collateral: tuple[Failure, ...] = ()


def blame(failures: Sequence[Failure]) -> Blame:
    """Find the cause of failures that happened together; `same` and `collateral` are in order of time.

    The cause is the first failure that does not look as if a peer were gone. The first exit may be a peer's: a program
    that raises an exception takes longer to exit than its peers take to notice. Tasks that run the same program may
    raise the same exception; then none of them is collateral. One that left with code 0 is the cause of what looks like
    that, and not of another's own error.
    """
    in_time = sorted(failures, key=lambda failure: failure.at)
    own = sorted((one for one in in_time if not looks_collateral(one)), key=lambda failure: failure.exit.ok)
    cause = next(iter(own), in_time[0])
    others = [failure for failure in in_time if failure is not cause]
    error = None if looks_collateral(cause) else error_signature(cause)
    like = [error is not None and error_signature(failure) == error for failure in others]
    same = tuple(failure for failure, is_own in zip(others, like, strict=True) if is_own)
    return Blame(cause, same, tuple(failure for failure, is_own in zip(others, like, strict=True) if not is_own))
