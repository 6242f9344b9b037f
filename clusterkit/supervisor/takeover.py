"""Takeover: lets a new supervisor continue a run from the files in its run directory."""

from __future__ import annotations

import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass

from clusterkit.ledger.ledger import ledger_of
from clusterkit.machine.history import RunHistory
from clusterkit.store.directory import RunDirectory, RunInfo
from clusterkit.store.journal import JournalReader, Stamped, events_of
from clusterkit.words.errors import BadJob, ClusterkitError
from clusterkit.words.events import Began, Continued
from clusterkit.words.job import JobSpec
from clusterkit.words.outcome import RunResult

LOCK_TIMEOUT = 120.0  # seconds; a file server may hold a lost host's lock for this long


@dataclass(frozen=True, slots=True)
class PastRun:
    """The history of a run. `clock_offset` is the run's clock minus the monotonic clock of this host, in seconds."""

    history: RunHistory
    events: Sequence[Stamped] = ()  # the earlier events, stamped with the run's clock
    info: RunInfo | None = None
    clock_offset: float = 0.0

    def first(self, doubts: tuple[str, ...]) -> Began | Continued:
        """Return the loop's first event. A new run begins with these warnings about its program."""
        return Continued(self.history.allocations + 1) if self.history.allocations else Began(doubts)

    def clock(self) -> float:
        """Return the time on the run's clock, which also runs while there is no supervisor."""
        return time.monotonic() + self.clock_offset


NEW_RUN = PastRun(RunHistory())


class RunOver(ClusterkitError):
    """The run can't be continued, since it has ended."""

    def __init__(self, run_id: str, result: RunResult) -> None:
        super().__init__(f"The run {run_id} {result.state} already: {result.reason}.")
        self.exit_code = result.exit_code


def take_over(directory: RunDirectory, job: JobSpec) -> PastRun | None:
    """Lock and reopen the directory of a run that has no supervisor; return None if the run does not exist.

    Raises RunOver if the run has ended, RunDirectoryError if the run is live, BadJob if it belongs to another job.
    """
    if not directory.path.exists():
        return None
    directory.take_lock(LOCK_TIMEOUT if job.hosts.count else 0.0)
    result = directory.result()
    if result is not None and result.final:
        raise RunOver(directory.run_id, result)
    past_run = _read(directory)
    if (decided := past_run.history.final) is not None:  # the supervisor was lost before it wrote result.json
        with suppress(OSError):
            directory.write_result(decided, ledger_of(job, past_run.events).account())
        raise RunOver(directory.run_id, decided)
    if past_run.info is not None and past_run.info.job.tasks != job.tasks:
        what = f"The run {directory.run_id} has {past_run.info.job.shape_text}, and not {job.shape_text}."
        raise BadJob([f"{what} Continue it with the options that it began with."])
    directory.reopen()
    return past_run


def _read(directory: RunDirectory) -> PastRun:
    from clusterkit.ledger.takeover import history_of

    lines = JournalReader(directory).new()
    events = events_of(lines, "m")
    info = directory.info()
    ledger = ledger_of(None if info is None else info.job, events)
    history, offset = history_of(ledger), 0.0
    if events:
        written_at = max(at for at, _ in events_of(lines, "t"))
        offset = history.last_event_at + max(0.0, time.time() - written_at) - time.monotonic()
    return PastRun(history, events, info, offset)
