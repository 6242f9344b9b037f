"""Adds the finding that explains a failed run to its result, for the final report and result.json.

It has a time limit for reading the program's files. If that fails, the result stays unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from clusterkit.system.barrier import start_thread
from clusterkit.text.lines import last_traceback
from clusterkit.words.job import JobSpec
from clusterkit.words.outcome import RunResult, RunState

if TYPE_CHECKING:  # imported late: only failed runs need it
    from clusterkit.check.findings import Finding

WITHIN = 2.0  # seconds


def explained(result: RunResult, job: JobSpec) -> RunResult:
    """Return the result, with the finding that explains its failure if one does."""
    text, hints = _error_text(result), list[str]()
    if not text:
        return result
    try:  # outside the time limit, which is for the program's files
        from clusterkit.check.misplaced import refused
        from clusterkit.check.reading import findings_of
    except Exception:  # clusterkit may have been reinstalled while the job ran
        return result

    def read() -> None:
        hints.extend(filter(None, [refused(job, text)]))
        with suppress(Exception):  # the files may contain anything
            finding = matching(findings_of(job, strict=False), text)
            hints.extend([] if finding is None else [f"{finding.location}: {finding.what} {finding.advice}"])

    with suppress(OSError):  # no thread can be started
        start_thread("check", read, lambda crashed: None).join(WITHIN)
    return replace(result, finding=hints[0]) if hints else result


def _error_text(result: RunResult) -> str:
    """Return the cause's last traceback, or the end of its log, or the run's reason; empty if no hint is needed."""
    cause = result.cause
    if cause is None:
        return result.reason if result.state is RunState.FAILED else ""
    if not cause.exit.code or cause.exit.preempted:  # it was killed, or never started
        return ""
    return "\n".join([*cause.tail[last_traceback(cause.tail) or 0 :], cause.exception or ""])


def matching(findings: Iterable[Finding], text: str) -> Finding | None:
    """Return a finding whose pattern occurs in the text, preferably one whose line is in the traceback."""

    def is_in_traceback(finding: Finding) -> bool:
        name = re.escape(finding.location.file.rpartition("/")[2])
        return re.search(rf'File "(?:[^"]*/)?{name}", line {finding.location.line}\b', text) is not None

    matches = (each for each in findings if each.explains and re.search(each.explains, text))
    return max(matches, key=is_in_traceback, default=None)
