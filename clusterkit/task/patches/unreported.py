"""Notices a program that imports clusterkit.training, trains in its own loop, and reports no step.

Loaded by path: standard library only, and no module that entry.py has not imported.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from clusterkit.task.patches.steps import Steps

AFTER = 60.0  # seconds of training
LEAST = 3  # changes of the count: a restored optimizer makes one


class Unreported:
    """Follows the steps that the program makes, until it reports one or a report has said that it does not."""

    def __init__(self, steps: Steps) -> None:
        self.steps = steps
        self.closures = 0  # that a coordinator has finished
        self.made = self.changes = 0  # the newest count, and how often it was another one
        self.since: float | None = None  # the first change

    def look(self) -> None:
        """Count anew; once the program has trained long enough without a report, report that."""
        made = self.closures if self.steps.coordinates else sum(count for _, count in self.steps.counts())
        if made == self.made or self.steps.sent is not None:
            return
        now = time.monotonic()
        self.made, self.changes = made, self.changes + 1
        self.since = now if self.since is None else self.since
        if self.changes >= LEAST and now - self.since >= AFTER:
            self.steps.send("unreported", f'"seconds":{int(now - self.since)}')
            self.steps.unreported = None
