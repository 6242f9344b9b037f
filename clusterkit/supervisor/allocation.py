"""The end of an allocation: whether it has come, and how the run continues after it."""

from __future__ import annotations

import signal
import sys
from contextlib import suppress
from typing import TYPE_CHECKING

from clusterkit.system.inbox import Inbox
from clusterkit.words.events import AllocationEnding
from clusterkit.words.outcome import SUSPENDED

if TYPE_CHECKING:  # only runs on hosts need it
    from clusterkit.backends.hosts.allocation import Allocation


def ends(allocation: Allocation | None, inbox: Inbox) -> bool:
    """Whether the allocation ends, to a run that has no hosts: what they were told may not have come here."""
    if allocation is None:
        return False
    return inbox.is_moving or isinstance(allocation.ending(signal.SIGTERM, elsewhere=True), AllocationEnding)


def again(allocation: Allocation | None) -> int:
    """Have a suspended run continue, if the engine can do that; return the exit code."""
    if allocation is not None and (why := allocation.again()):
        with suppress(OSError):
            print(f"clusterkit: no other allocation could be asked for: {why}", file=sys.stderr)
    return SUSPENDED
