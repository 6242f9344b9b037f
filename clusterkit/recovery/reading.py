"""The recovery report of a run, as a client reads it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from clusterkit.client.history import History, messages
from clusterkit.client.store import RESULT, job_of, read_json
from clusterkit.recovery.report import recovery_report
from clusterkit.words import wire
from clusterkit.words.events import Event
from clusterkit.words.recovery import RecoveryReport


def report_of(run: Path) -> RecoveryReport:
    """As the run wrote it at its end; of a run that goes on, or could not write it, from its journal so far."""
    try:
        message = read_json(run / RESULT)
        known = {name: message[name] for name in ("recoveries", "faults")}
        report: RecoveryReport = wire.decode(RecoveryReport, known)
        return report
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        file = job_of(run)
        return RecoveryReport() if file is None else recovery_report(file.job, timed_events(run))


def timed_events(run: Path) -> Iterator[tuple[float, Event]]:
    """The journal's events with their monotonic times. What is no event is left out: a newer run may know more."""
    for message in messages(History(run).lines()):
        try:
            yield float(message["m"]), wire.decode_event(message)
        except (ValueError, KeyError, TypeError, AttributeError):
            continue
