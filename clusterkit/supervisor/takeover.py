"""Lets a new supervisor continue a run from the files in its run directory."""

from __future__ import annotations

import time
from contextlib import suppress

from clusterkit.ledger.ledger import ledger_of
from clusterkit.store.checkpoint_lock import lock_checkpoints
from clusterkit.store.directory import RunDirectory, RunGone
from clusterkit.store.journal import JournalReader, events_of
from clusterkit.store.store import RunStore
from clusterkit.supervisor.past_run import PastRun
from clusterkit.words.errors import BadJob, ClusterkitError
from clusterkit.words.job import JobSpec
from clusterkit.words.outcome import RunResult

LOCK_TIMEOUT = 120.0  # seconds; a file server may hold a lost host's lock for this long


class RunOver(ClusterkitError):
    """The run can't be continued, since it has ended."""

    def __init__(self, run_id: str, result: RunResult) -> None:
        super().__init__(f"The run {run_id} {result.state} already: {result.reason}.")
        self.exit_code = result.exit_code


def take_over(directory: RunDirectory, job: JobSpec) -> PastRun | None:
    """Lock and reopen the directory of a run that has no supervisor; return None if the run does not exist.

    Raises RunOver if the run has ended, RunDirectoryError if the run is live, BadJob if the run is of another job.
    """
    if not directory.path.exists():
        return None
    try:
        directory.lock(LOCK_TIMEOUT if job.hosts.count else 0.0)
    except RunGone:
        return None
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
    lock_checkpoints(directory, RunStore(directory.path.parent.parent).all())
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
