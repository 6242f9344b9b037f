"""Repeats: a restart that fails as the attempt before it did is not worth another one."""

from __future__ import annotations

import re

from clusterkit.machine.blame import looks_collateral
from clusterkit.machine.likeness import last_words, way
from clusterkit.words.outcome import Failure

UNSEEN = 120.0  # seconds; where nobody reports steps, an attempt that lived longer may have made some

# What comes from outside the program, and may be over by the next attempt.
_MAY_PASS = re.compile(
    r"MemoryError|ResourceExhaustedError|TimeoutError|BrokenPipeError|Connection\w*Error"
    r"|No space left on device|Disk quota exceeded|Cannot allocate memory|Too many open files"
    r"|Resource temporarily unavailable|Address already in use|Temporary failure in name resolution"
    r"|incarnation|context_id"  # TensorFlow's words for a peer that has started again meanwhile
)


def repeats(before: Failure | None, failure: Failure) -> bool:
    """Whether two attempts in a row ended in the same way, which nothing but the program explains."""
    if before is None or failure.attempt != before.attempt + 1 or may_pass(failure):
        return False
    return way(failure) is not None and way(failure) == way(before)


def may_pass(failure: Failure) -> bool:
    """Whether the attempt failed of a peer, or of a lack that may be over by the next attempt."""
    return looks_collateral(failure) or _MAY_PASS.search(last_words(failure) or "") is not None
