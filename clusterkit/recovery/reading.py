"""The recovery report of a run, as a client reads it."""

from __future__ import annotations

from clusterkit.client.directory import RunDirectory
from clusterkit.client.journal import JournalReader
from clusterkit.recovery.report import recovery_report
from clusterkit.words.recovery import RecoveryReport


def report_of(run: RunDirectory) -> RecoveryReport:
    """The report that the run wrote at its end; without one, what its journal says so far."""
    if (written := run.recovered()) is not None:
        return written
    info = run.info()
    return RecoveryReport() if info is None else recovery_report(info.job, JournalReader(run).events(clock="m"))
