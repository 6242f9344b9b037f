"""What the commands that look at runs share: a run's files, folded into its status."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from clusterkit.client.history import History
from clusterkit.client.rundir import is_live
from clusterkit.client.store import RunInfo, job_of, result_of
from clusterkit.views.listing import Usage, run_row, run_state, task_rows
from clusterkit.views.status import RunStatus
from clusterkit.words.model import Task

if TYPE_CHECKING:
    from clusterkit.system.usage import Meter


class RunSnapshot:
    """A look at a run, which can be brought up to date."""

    def __init__(self, run: Path) -> None:
        self.run = run
        self.file: RunInfo | None = job_of(run)
        self.status = RunStatus(self.file.job.tasks, self.file.endpoints) if self.file else RunStatus(())
        self._history = History(run)
        self.live = False
        self.refresh()

    @property
    def state(self) -> str:
        """The run's state in one word."""
        result = None if self.live else result_of(self.run)
        return run_state(self.live, self.status.phase, result)

    def refresh(self) -> None:
        """Take in what was written since."""
        self.live = is_live(self.run)  # first: what a run wrote before its end is then read below
        for at, event in self._history.newest():
            self.status.take(at, event)

    def row(self, created: float) -> dict[str, Any]:
        """The run, for `ls`."""
        job = self.file.job if self.file else None
        return run_row(self.run.name, self.state, time.time() - created, job, self.status)

    def rows(self, meter: Meter | None) -> list[dict[str, Any]]:
        """The tasks, for `ps`."""
        usage = {} if meter is None else {task: Usage(*use) for task, use in meter.sample(self.pids()).items()}
        return task_rows(self.status, time.time(), self.live, usage)

    def pids(self) -> dict[Task, int]:
        """The tasks that have a process."""
        if not self.live:
            return {}
        return {task: of.pid for task, of in self.status.tasks.items() if of.alive and of.pid is not None}
