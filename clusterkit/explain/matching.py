"""Matches the rows of the table against the evidence, and explains the failure with the rows that match."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

from clusterkit.check.findings import Finding
from clusterkit.explain.frames import frames_of, own_line
from clusterkit.explain.row import Evidence, Row, Words
from clusterkit.text.printable import printable
from clusterkit.words.explanation import Explanation

MOST = 3  # the maximum number of explanations of a failure
LONGEST_WORD = 200  # characters; the maximum length of a text from a log in a sentence


class _Match(NamedTuple):
    """A row that matches the evidence."""

    row: Row
    rank: tuple[bool, bool, int]  # sort key: has a finding, condition has values, length of the match of `seen`
    words: Words  # values for the placeholders of the row's sentences
    span: tuple[int, int] | None  # where `seen` matched in the error text; None if the row has no `seen`
    finding: Finding | None


def explain(evidence: Evidence, rows: Iterable[Row] | None = None) -> list[Explanation]:
    """Return explanations of a failure, the most specific first, from these rows or, by default, the whole table."""
    if rows is None:
        from clusterkit.explain.table import TABLE  # imported only here, since runs without a problem need few rows

        rows = TABLE
    found = sorted((match for row in rows if (match := _match(row, evidence))), key=lambda one: one.rank, reverse=True)
    covered = {id_ for match in found for id_ in match.row.over}
    shown = [match for match in found if match.row.id not in covered]
    located = [match for match in shown if match.finding is not None]  # `check` has found the line of the mistake
    others = [match for match in shown if match.finding is None and not match.row.general]
    # A row about the same words of the error, or about the same hang, says less than the line that `check` has found.
    # Other rows are about something else, and the finding may not be what ended the run.
    hung = bool(evidence.stuck)
    special = located + [match for match in others if not any(_same_subject(match, one, hung) for one in located)]
    return [_explanation(match, evidence) for match in (special or shown[:1])[:MOST]]


def _match(row: Row, evidence: Evidence) -> _Match | None:
    text, seen = evidence.first.text, None
    if not text and not row.facts_only:
        return None
    if row.seen and (seen := re.search(row.seen, text, re.MULTILINE)) is None:
        return None
    words = row.when(evidence)
    if words is None:
        return None
    groups = {name: group[:LONGEST_WORD] for name, group in seen.groupdict().items() if group} if seen else {}
    words = {**groups, **words}
    finding = _finding(row, evidence, words)
    rank = (finding is not None, len(words) > len(groups), 0 if seen is None else len(seen.group()))
    return _Match(row, rank, words, None if seen is None else seen.span(), finding)


def _same_subject(one: _Match, other: _Match, hung: bool) -> bool:
    """Return whether both rows matched the same words of the error text, or explain why the run hung."""
    if one.span is None or other.span is None:
        return hung and one.span is other.span
    return one.span[0] < other.span[1] and other.span[0] < one.span[1]


def _finding(row: Row, evidence: Evidence, words: Words) -> Finding | None:
    """Return `check`'s finding with the row's id, preferably for a line in the traceback; None if not found."""
    lines = {(file.rpartition("/")[2], number) for file, number in frames_of(evidence.first.text)}

    def is_in_traceback(finding: Finding) -> bool:
        return (finding.location.file.rpartition("/")[2], str(finding.location.line)) in lines

    known = {"", *words.values()}
    found = [finding for finding in evidence.findings if finding.id == row.id and finding.word in known]
    return max(found, key=is_in_traceback, default=None)


def _explanation(match: _Match, evidence: Evidence) -> Explanation:
    row, first, finding = match.row, evidence.first, match.finding
    if finding is not None:
        return Explanation(row.id, first.task, f"{finding.location}: {finding.what}", finding.advice, row.reported)
    line = own_line(first.text)
    words = _Words(task=printable(first.name), line=printable(line or "the program"))
    words |= {name: printable(" ".join(word.split())) for name, word in match.words.items()}
    template = row.means if line else row.means.replace("at {line}", "in {line}").replace("At {line}", "In {line}")
    means = words.get("means") or template.format_map(words)
    advice = words.get("advice") or row.advice.format_map(words)
    return Explanation(row.id, first.task, means, advice, row.reported)


class _Words(dict[str, str]):
    """Values for the placeholders of a sentence; "…" for a placeholder without a value."""

    def __missing__(self, name: str) -> str:
        return "…"
