"""Explains failures in the log of one or several tasks, written by any tool, such as kubectl. Logs are untrusted."""

from __future__ import annotations

import json
import re
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import chain, islice
from typing import NamedTuple

from clusterkit.explain.errors import LAST, LONGEST_LINE, error_text
from clusterkit.explain.matching import explain
from clusterkit.explain.row import Evidence, TaskEvidence
from clusterkit.machine.blame import blame, looks_collateral
from clusterkit.text.lines import LineSplitter, chained_traceback, last_exception
from clusterkit.text.printable import COLOR
from clusterkit.words.explanation import Explanation
from clusterkit.words.model import Task, TaskType
from clusterkit.words.outcome import Exit, Failure

# A source is the task or process that a log line names in its prefix; "" for lines without a prefix.
KEPT = 2000  # the maximum number of lines kept of each source; the last lines are kept
MOST_SOURCES = 64  # the maximum number of sources; lines of further sources count as lines without a prefix
FIRST = 500  # lines; the format of the prefixes is detected from this many lines at the beginning
HANDLED = 300  # lines; if more lines follow a traceback, the program is assumed to have handled the exception

_OURS = re.compile(r"(?P<source>(?:chief|worker|ps|evaluator):\d{1,9}) *│ ?")
_OF_REPORT = re.compile(r" {2,}(?:(?:chief|worker|ps|evaluator):\d+ *)?│")  # a log line that the final report quotes
_FORMS = (  # formats of prefixes, each with the tools that write it
    re.compile(r"\[pod/(?P<source>[^\s/\]]{1,253})(?:/[^\s\]]{1,253})?\] ?"),  # kubectl logs --prefix
    re.compile(r"\[(?:\d{1,9},)?(?P<source>\d{1,9})\]<std(?:out|err)>: ?"),  # horovodrun, mpirun --tag-output
    re.compile(r"\[(?P<source>(?:default|rank)?\d{1,9})\]: ?"),  # torchrun
    re.compile(r"\((?P<source>[^()=\n]{0,80}\bpid=\d{1,9})[^()\n]{0,80}\) ?"),  # ray
    re.compile(r"(?P<source>[A-Za-z][\w.-]{0,80}) +\| ?"),  # docker compose
    re.compile(r"(?P<source>\d{1,6}): ?"),  # tools that write only the number of the task
)
_TIME = re.compile(  # a timestamp of a tool; the timestamps of TensorFlow itself end in a colon, and do not match
    r"\d{4}[-/]\d\d[-/]\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d{1,9})?(?:Z|[+-]\d\d:?\d\d)? "
)
_COLOR = re.compile(COLOR)
_POD = re.compile(r"(?:^|[^a-z])(chief|worker|ps|evaluator)[-_:](\d{1,9})(?!\d)")
_JSON = '{"t": '  # the beginning of each line of `clusterkit logs --format json`


class SourcedLine(NamedTuple):
    """A line without its prefix, and the source that the prefix named."""

    source: str
    text: str


class LogExplained(NamedTuple):
    """The evidence about the tasks in a log, and the explanations of the failure, the most specific first."""

    evidence: Evidence
    explanations: list[Explanation]


@dataclass(slots=True)
class _Source:
    lines: deque[tuple[int, str]] = field(default_factory=lambda: deque(maxlen=KEPT))


class _Block(NamedTuple):
    """An error in a log. The program may have handled the error."""

    at: int  # the number of the error's first line in the log
    source: str
    lines: list[str]
    before: list[str]


def explain_log(chunks: Iterable[bytes]) -> LogExplained:
    """Explain the failure in a log. If several tasks failed, explain the failure that caused the others."""
    sources = dict[str, _Source]()
    for number, line in enumerate(_without_prefix(_lines(chunks))):
        known = line.source in sources or len(sources) < MOST_SOURCES
        sources.setdefault(line.source if known else "", _Source()).lines.append((number, line.text))
    blocks = [block for name, source in sources.items() for block in _blocks(name, [*source.lines])]
    if not blocks:
        log = "\n".join(text for _, text in next(iter(sources.values()), _Source()).lines)
        evidence = Evidence(tuple(_end(name, source) for name, source in sources.items()), log=log)
        return LogExplained(evidence, explain(evidence))
    tasks, own = _in_order(blocks)
    for number, task in enumerate(tasks[: max(1, own)]):
        evidence = Evidence((task, *tasks[:number], *tasks[number + 1 :]))
        explanations = explain(evidence)
        if explanations or task.source:  # without a prefix, the program may have handled the error: try the next
            return LogExplained(evidence, explanations)
    return LogExplained(Evidence(tuple(tasks)), [])


def _lines(chunks: Iterable[bytes]) -> Iterator[str]:
    """Yield each line, cut off after LONGEST_LINE characters; of a progress bar, yield only the last state."""
    splitter = LineSplitter()
    for chunk in chunks:
        yield from (text[:LONGEST_LINE] for text, is_bar in splitter.feed(chunk) if not is_bar)
    yield from (text[:LONGEST_LINE] for text, is_bar in splitter.flush() if not is_bar)


def _without_prefix(lines: Iterator[str]) -> Iterator[SourcedLine]:
    """Detect the format of the prefixes from the first lines, and yield all lines with their sources."""
    first = [_plain(line) for line in islice(lines, FIRST)]
    form = _form(first)
    for line in chain(first, map(_plain, lines)):
        if (found := _line(line, form)) is not None:
            yield found


def _plain(line: str) -> str:
    return _COLOR.sub("", line) if "\x1b" in line else line


def _form(lines: Iterable[str]) -> re.Pattern[str] | None:
    """Return the prefix format of more than half of the nonblank lines; None if there is no such format."""
    full = [line for line in lines if line.strip()]
    counts = Counter(form for line in full for form in _FORMS if form.match(_TIME.sub("", line, count=1)))
    form, count = next(iter(counts.most_common(1)), (None, 0))
    return form if count * 2 > len(full) else None


def _line(line: str, form: re.Pattern[str] | None) -> SourcedLine | None:
    """Return the line without its prefix and timestamps; None for a log line quoted in the final report."""
    if line.startswith(_JSON):
        with suppress(ValueError, KeyError, TypeError, RecursionError):
            fields = json.loads(line)
            return SourcedLine(str(fields["task"])[:80], str(fields["line"]))
    line = _untimed(line)
    if "│" in line:
        if _OF_REPORT.match(line):
            return None
        if found := _OURS.match(line):
            return SourcedLine(found["source"], _untimed(line[found.end() :]))
    if form is not None and (found := form.match(line)):
        return SourcedLine(found["source"], _untimed(line[found.end() :]))
    return SourcedLine("", line)


def _untimed(line: str) -> str:
    return _TIME.sub("", line, count=1) if line[:2] == "20" else line


def _blocks(source: str, lines: list[tuple[int, str]]) -> Iterator[_Block]:
    """Yield the last error of a source. Without a source, yield all errors, since they may come from several tasks."""
    texts = [text for _, text in lines]
    end = len(lines)
    while (start := chained_traceback(texts[:end])) is not None:
        error = texts[start:end]
        if end == len(lines) and len(error) - _length(error) > HANDLED:
            return
        yield _Block(lines[start][0], source, error, texts[max(0, start - LAST) : start])
        if source:
            return
        end = start


def _length(lines: list[str]) -> int:
    """Return the length of the traceback with which `lines` begin, including the line of the exception."""
    exception = last_exception(lines)
    ends = (number for number, line in enumerate(lines, 1) if exception is not None and line.endswith(exception))
    return next(ends, len(lines))


def _in_order(blocks: Iterable[_Block]) -> tuple[list[TaskEvidence], int]:
    """Return the failed tasks, the cause first, and how many of them failed without losing a peer."""
    of = dict(enumerate(blocks))
    failures = [
        Failure(
            task=_task(block.source) or Task(TaskType.WORKER, 0),
            attempt=number,
            exit=Exit(code=1),
            at=block.at,
            tail=tuple(block.lines),
            exception=last_exception(block.lines),
        )
        for number, block in of.items()
    ]
    judged = blame(failures)
    ordered = sorted((judged.cause, *judged.same, *judged.collateral), key=looks_collateral)
    found = [of[failure.attempt] for failure in ordered]
    own = sum(not looks_collateral(failure) for failure in ordered)
    return [_evidence(block.source, [*block.before, *block.lines]) for block in found], own


def _end(name: str, source: _Source) -> TaskEvidence:
    return _evidence(name, [text for _, text in source.lines][-2 * LAST :])


def _evidence(source: str, lines: list[str]) -> TaskEvidence:
    task = TaskEvidence(_task(source), *error_text(lines))
    return replace(task, source=source)


def _task(source: str) -> Task | None:
    """Return the task that a source names, such as `worker:1` for the pod `train-worker-1-x7k2p`."""
    found = _POD.search(source)
    return Task(TaskType(found[1]), int(found[2])) if found else None
