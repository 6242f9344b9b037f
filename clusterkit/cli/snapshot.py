"""The status of a run, computed from the run's files, for the commands that show the status."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from clusterkit.ledger.attempts import Attempt
from clusterkit.ledger.ledger import Ledger
from clusterkit.store.directory import RunDirectory
from clusterkit.store.journal import JournalReader
from clusterkit.store.usage import UsageReader, Use
from clusterkit.views.listing import run_row, run_state, task_rows
from clusterkit.views.present_use import present_use
from clusterkit.views.situations import ending, told
from clusterkit.words.model import Task

if TYPE_CHECKING:
    from clusterkit.system.meter import Meter
    from clusterkit.views.guidance import Guidance

PLAIN_STATES = ("starting", "training", "stopping", "over")  # states in which the user has nothing to do


class RunSnapshot:
    """The status of a run, as of the last `refresh`."""

    def __init__(self, run: RunDirectory) -> None:
        self.run = run
        self.info = run.info()
        self._ledger = Ledger(self.info.job, self.info.endpoints) if self.info else Ledger(None)
        self.status = self._ledger.run
        self._journal = JournalReader(run)
        self._samples = UsageReader(run.usage)
        self.live = False
        self.refresh()

    @property
    def state(self) -> str:
        """The run's state in one word."""
        result = None if self.live else self.run.result() or self.status.result
        return run_state(self.live, self.status.phase, result)

    @property
    def attempts(self) -> Mapping[Task, Mapping[int, Attempt]]:
        """The attempts of each task that has been started, by number."""
        return self._ledger.attempts.by_task

    @property
    def activity(self) -> tuple[str, str]:
        """The run's present activity, or how the run ended: a word and a sentence."""
        if not self.live or self.status.result is not None:
            result = self.run.result() or self.status.result
            return run_state(False, self.status.phase, result), ending(result)
        wall = time.time()
        return told(self._ledger, wall, wall - (self.status.began_at or wall))[:2]

    def advice(self) -> dict[str, Any]:
        """Return, for JSON, the reason for the run's present state, what to do about it, and the cost of a restart."""
        found, saved = self._guidance(), self.status.checkpoint
        cost = {"saved_step": None if saved is None else saved[0], "unsaved_steps": self.status.unsaved}
        return {"why": found.why, "todo": found.todo, "commands": list(found.commands), **cost}

    def advice_lines(self, width: int | None) -> list[str]:
        """Return the advice as lines of text.

        The list is empty in PLAIN_STATES. It is also empty if the run has ended, since the report then gives advice.
        """
        if not self.live or self.activity[0] in PLAIN_STATES:
            return []
        from clusterkit.views.guidance import guidance_lines

        return guidance_lines(self._guidance(), width)

    def _guidance(self) -> Guidance:
        from clusterkit.job.options import resume_command, start_command
        from clusterkit.views.guidance import end_guidance, guidance

        name, saved = self.run.run_id, self.status.checkpoint is not None
        if self.live and self.status.result is None:
            return guidance(self._ledger, name)
        result = self.run.result() or self.status.result
        resume = resume_command(name, self._ledger.job, result, saved)
        start = start_command(self._ledger.job)
        part_of = None if self.info is None else self.info.job.part_of
        return end_guidance(result, self._ledger.incidents.report(), name, resume, start, part_of)

    def refresh(self) -> None:
        """Read what the run has written since the last refresh."""
        self.live = self.run.is_live()  # first, so that everything written before the end is read below
        for line in self._journal.newest():
            if (found := line.timed()) is not None:
                self._ledger.add(*found)

    def row(self) -> dict[str, Any]:
        """Return the run's row for `ls`."""
        job = self.info.job if self.info else None
        return run_row(
            self.run.run_id, (self.state, self.activity[0]), time.time() - self.run.created(), job, self.status
        )

    def rows(self, meter: Meter | None, sampled: bool = False) -> list[dict[str, Any]]:
        """Return the rows of the tasks for `ps`; with `sampled`, prefer the run's last sample, which the page shows."""
        return task_rows(self.status, time.time(), self.live, {} if meter is None else self._used(meter, sampled))

    def _used(self, meter: Meter, sampled: bool) -> Mapping[Task, Use]:
        """Return each task's CPU and memory usage. In a job on several hosts, the usage is the agents' last sample."""
        if not self.live:
            return {}
        elsewhere = self.info is not None and bool(self.info.job.hosts.count)
        if sampled or elsewhere:
            self._samples.new()
            found = present_use(self._samples, self.status, time.time())
            if found or elsewhere:
                return found
        return meter.sample(self.status.pids)
