"""The recovery report of a run, as a client reads it."""

from __future__ import annotations

from clusterkit.client.directory import RunDirectory
from clusterkit.client.journal import JournalReader
from clusterkit.recovery.report import recovery_report
from clusterkit.words.recovery import RecoveryReport


def report_of(run: RunDirectory) -> RecoveryReport:
    """As the run wrote it at its end; of a run that goes on, or could not write it, from its journal so far."""
    if (written := run.recovered()) is not None:
        return written
    info = run.info()
    return RecoveryReport() if info is None else recovery_report(info.job, JournalReader(run).events(clock="m"))
