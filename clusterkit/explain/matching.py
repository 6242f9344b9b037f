"""Finds the rows of the table that fit the evidence."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from clusterkit.check.findings import Finding
from clusterkit.explain.row import Evidence, Row
from clusterkit.explain.table import TABLE
from clusterkit.text.printable import printable
from clusterkit.words.explanation import Explanation

MOST = 3  # explanations of a failure
LONGEST_WORD = 200  # characters of what a log contributes to a sentence

_FRAME = re.compile(r'^ *File "([^"\n]+)", line (\d+)', re.MULTILINE)
_INSTALLED = re.compile(r"/(?:site|dist)-packages/|/lib/python3[^/]*/|^<|\bclusterkit/(?:task|warm)/")


class _Match(NamedTuple):
    """A row that fits. `rank` is higher the more it knows."""

    row: Row
    rank: tuple[bool, bool, int]
    words: Mapping[str, str]
    finding: Finding | None


def explain(evidence: Evidence, table: Iterable[Row] = TABLE) -> list[Explanation]:
    """Return the explanations of a failure, the most specific first."""
    found = sorted((match for row in table if (match := _match(row, evidence))), key=lambda one: one.rank, reverse=True)
    covered = {id_ for match in found for id_ in match.row.over}
    return [_explanation(match, evidence) for match in found if match.row.id not in covered][:MOST]


def _match(row: Row, evidence: Evidence) -> _Match | None:
    text, seen = evidence.first.text, None
    if not text and not row.facts_only:
        return None
    if row.seen and (seen := re.search(row.seen, text, re.MULTILINE)) is None:
        return None
    words = row.when(evidence)
    if words is None:
        return None
    groups = {name: group for name, group in seen.groupdict().items() if group} if seen else {}
    finding = next(iter(_located(row, evidence)), None)
    length = 0 if seen is None else len(seen.group())
    return _Match(row, (finding is not None, bool(words), length), {**groups, **words}, finding)


def _located(row: Row, evidence: Evidence) -> list[Finding]:
    """Return what `check` found under the row's id, beginning with the lines that are in the traceback."""
    lines = {(file.rpartition("/")[2], int(number[:9])) for file, number in _FRAME.findall(evidence.first.text)}
    found = [finding for finding in evidence.findings if finding.id == row.id]
    return sorted(
        found, key=lambda one: (one.location.file.rpartition("/")[2], one.location.line) in lines, reverse=True
    )


def _explanation(match: _Match, evidence: Evidence) -> Explanation:
    row, first, finding = match.row, evidence.first, match.finding
    if finding is not None:
        return Explanation(row.id, first.task, f"{finding.location}: {finding.what}", finding.advice, row.reported)
    words = _Words(task=first.name, line=_own_line(first.text))
    words |= {name: printable(" ".join(word[:LONGEST_WORD].split())) for name, word in match.words.items()}
    return Explanation(row.id, first.task, row.means.format_map(words), row.advice.format_map(words), row.reported)


class _Words(dict[str, str]):
    """The words of a sentence; one that is missing is left out."""

    def __missing__(self, name: str) -> str:
        return "…"


def _own_line(text: str) -> str:
    """Return the last line of the program's own code in a traceback: `train.py:38`."""
    own: Iterator[tuple[str, str]] = (frame for frame in _FRAME.findall(text) if not _INSTALLED.search(frame[0]))
    file, number = next(reversed([*own]), ("", ""))
    return printable(f"{file.rpartition('/')[2]}:{number}") if file else "the program"
