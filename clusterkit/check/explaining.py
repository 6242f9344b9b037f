"""After a failure: the finding that explains it, for the final report and for result.json.

This is a courtesy at the end of a run. It has so much time and no more, and whatever goes wrong in it, the result stays
as it was.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace

from clusterkit.check.findings import Finding
from clusterkit.system.barrier import start_thread
from clusterkit.words.job import JobSpec
from clusterkit.words.outcome import RunResult, RunState

WITHIN = 2.0  # seconds
_TRACEBACK = "Traceback (most recent call last)"


def explained(result: RunResult, job: JobSpec) -> RunResult:
    """The result, with what the program's text says of its failure."""
    text, said = _last_words(result), list[str]()

    def read() -> None:
        from clusterkit.check.reading import findings_of  # only a run that failed needs it

        with suppress(Exception):  # the files may hold anything
            finding = fitting(findings_of(job, strict=False), text)
            said.extend([] if finding is None else [f"{finding.place}: {finding.what} {finding.advice}"])

    if text:
        start_thread("check", read, lambda crashed: None).join(WITHIN)
    return replace(result, finding=said[0]) if said else result


def _last_words(result: RunResult) -> str:
    """The cause's last traceback, or the end of its log; the reason where no task failed. Empty: nothing to explain."""
    cause = result.cause
    if cause is None:
        return result.reason if result.state is RunState.FAILED else ""
    if not cause.exit.code or cause.exit.preempted:  # a signal, or it never started
        return ""
    starts = [number for number, line in enumerate(cause.tail) if line.startswith(_TRACEBACK)]
    return "\n".join([*cause.tail[starts[-1] if starts else 0 :], cause.exception or ""])


def fitting(findings: Iterable[Finding], text: str) -> Finding | None:
    """The finding whose pattern is in the text; of several, one whose line is in it, too."""
    fit = [each for each in findings if each.explains and re.search(each.explains, text)]
    return next((each for each in fit if _is_in(each, text)), next(iter(fit), None))


def _is_in(finding: Finding, text: str) -> bool:
    name = re.escape(finding.place.file.rpartition("/")[2])
    return re.search(rf'File "(?:[^"]*/)?{name}", line {finding.place.line}\b', text) is not None
