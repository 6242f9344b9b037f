"""Detects that a program with its own training loop has imported clusterkit.training, but reports no steps.

This file imports only standard modules that entry.py has already imported.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from clusterkit.task.patches.steps import Steps

AFTER = 60.0  # seconds; the minimum time from the first observed step to the report
LEAST = 3  # the minimum number of changes in the step count before the report; restoring an optimizer is one


class Unreported:
    """Counts the program's steps until the program itself reports a step, or until "unreported" has been reported."""

    def __init__(self, steps: Steps) -> None:
        self.steps = steps
        self.total = self.changes = 0  # the newest number of steps, and the number of times that it has changed
        self.since: float | None = None  # the time at which the count first changed

    def update(self) -> None:
        """Update the count of steps. Report "unreported" after AFTER seconds of training without a report."""
        closures = self.steps.closures if self.steps.coordinates else None
        total = sum(count for _, count in self.steps.counts()) if closures is None else closures.finished
        if total == self.total or self.steps.sent is not None:
            return
        now = time.monotonic()
        self.total, self.changes = total, self.changes + 1
        self.since = now if self.since is None else self.since
        if self.changes >= LEAST and now - self.since >= AFTER:
            self.steps.send("unreported", f'"seconds":{int(now - self.since)}')
            self.steps.unreported = None
