"""After a failed run: the finding that explains the failure, for the final report and for result.json.

This is optional: reading the program's files has a time limit, and if it fails, the result stays unchanged.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from clusterkit.system.barrier import start_thread
from clusterkit.words.job import JobSpec
from clusterkit.words.lines import last_traceback
from clusterkit.words.outcome import RunResult, RunState

if TYPE_CHECKING:  # imported late: only failed runs need it
    from clusterkit.check.findings import Finding

WITHIN = 2.0  # seconds


def explained(result: RunResult, job: JobSpec) -> RunResult:
    """Return the result with the finding that explains its failure, if there is one."""
    text, hints = _error_text(result), list[str]()
    if not text:
        return result
    try:  # before the limit, which is for the program's files
        from clusterkit.check.misplaced import refused
        from clusterkit.check.reading import findings_of
    except Exception:  # clusterkit's own may have been replaced while the job ran
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
    """Return the cause's last traceback, else the end of its log, else the run's reason; empty if none needs a hint."""
    cause = result.cause
    if cause is None:
        return result.reason if result.state is RunState.FAILED else ""
    if not cause.exit.code or cause.exit.preempted:  # it was killed, or never started
        return ""
    return "\n".join([*cause.tail[last_traceback(cause.tail) or 0 :], cause.exception or ""])


def matching(findings: Iterable[Finding], text: str) -> Finding | None:
    """Return the finding whose pattern occurs in the text; prefer one whose line is in the traceback too."""
    matches = [each for each in findings if each.explains and re.search(each.explains, text)]
    return next((each for each in matches if _has_line_of(text, each)), next(iter(matches), None))


def _has_line_of(text: str, finding: Finding) -> bool:
    name = re.escape(finding.location.file.rpartition("/")[2])
    return re.search(rf'File "(?:[^"]*/)?{name}", line {finding.location.line}\b', text) is not None
