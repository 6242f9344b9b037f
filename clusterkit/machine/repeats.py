"""Repeats: a task that fails twice in the same way, because of its program, is not worth another restart."""

from __future__ import annotations

import re

from clusterkit.machine.blame import looks_collateral
from clusterkit.machine.likeness import error_signature, last_error
from clusterkit.words.outcome import Failure

UNSEEN = 120.0  # seconds; if no task reports steps, an attempt that lived longer may have made some

# Errors that come from outside the program, and may be gone at the next attempt.
_MAY_PASS = re.compile(
    r"MemoryError|ResourceExhaustedError|TimeoutError|BrokenPipeError|Connection\w*Error"
    r"|No space left on device|Disk quota exceeded|Cannot allocate memory|Too many open files"
    r"|Resource temporarily unavailable|Address already in use|Temporary failure in name resolution"
    r"|incarnation|context_id"  # TensorFlow's words for a peer that has started again meanwhile
)


def repeats(before: Failure | None, failure: Failure, numbers: bool = False) -> bool:
    """Whether two consecutive attempts failed in the same way, and only the program can be the reason.

    `numbers`: they count as well, since nothing else is known of how far the attempts came.
    """
    if before is None or failure.attempt != before.attempt + 1 or may_pass(failure):
        return False
    error = error_signature(failure, numbers)
    return error is not None and error == error_signature(before, numbers)


def may_pass(failure: Failure) -> bool:
    """Whether the attempt failed because of a peer, or for a reason that may be gone at the next attempt."""
    return looks_collateral(failure) or _MAY_PASS.search(last_error(failure) or "") is not None
