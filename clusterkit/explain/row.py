"""Defines the rows of the table of known failures, and the evidence against which the rows are matched."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from clusterkit.check.findings import Finding
from clusterkit.words.distribution import Undistributed
from clusterkit.words.job import JobSpec
from clusterkit.words.model import Shape, Task, number_of
from clusterkit.words.outcome import Exit, RunState

Words = Mapping[str, str]  # values for the placeholders of a row's sentences
HOLDS: Words = MappingProxyType({})  # the result of a condition that holds, but has no values


@dataclass(frozen=True, slots=True)
class TaskEvidence:
    """The evidence about one task."""

    task: Task | None = None  # None if the log does not name the task
    text: str = ""  # the task's error as `error_text` returns it; "" if the task did not end with an error of its own
    before: str = ""  # the lines of the log before `text`
    exit: Exit | None = None  # None if the task still runs, or if its exit is unknown
    step: int | None = None  # the last step that the task reported
    connected: bool | None = None  # whether the task connected to its cluster, or its server started; None if unknown
    source: str = ""  # the name of the task in the prefixes of a log's lines

    @property
    def name(self) -> str:
        """Return the task's name for a sentence."""
        return str(self.task or self.source or "a task")


@dataclass(frozen=True, slots=True)
class StuckTask:
    """A task that was inspected when the run hung. The task is not necessarily stuck itself."""

    task: Task
    doing: str = ""  # the activity of the main thread, as in `waits in Server.join`
    where: str = ""  # the innermost line of the program's own code in the main thread, as in `train.py:12`
    endpoint: str = ""  # the endpoint that clusterkit assigned to the task
    listening: bool = False  # True if the task listens on `endpoint`
    listens: tuple[str, ...] = ()  # all endpoints and ports on which the task listens, as in `worker:0` or `port 2222`
    threads: tuple[str, ...] = ()  # innermost lines of the program's code in other threads, as in `data.py:8 in rows`


@dataclass(frozen=True, slots=True)
class Evidence:
    """The evidence about a run, or about a log without a run directory."""

    tasks: tuple[TaskEvidence, ...]  # all tasks, beginning with the task that failed first
    job: JobSpec | None = None  # the run's job; None for a log without a run directory
    state: RunState | None = None  # how the run ended; None for a log without a run directory
    reason: str = ""  # the reason why the run failed, if no task failed
    findings: tuple[Finding, ...] = ()  # the findings of `check`, including those in code that a run may not reach
    stuck: tuple[StuckTask, ...] = ()  # all inspected tasks, if a timeout or a stall ended the run
    undistributed: Undistributed | None = None  # the tasks that trained alone, although they have peers
    diverged: bool = False  # True if the leader's last loss is not a number
    short: bool = False  # True if `fit` completed fewer steps than it announced
    endpoints: tuple[str, ...] = ()  # the endpoints that clusterkit assigned to the tasks; () if unknown
    own: frozenset[str] | None = None  # the names of the functions and classes that the program defines, if known
    log: str = ""  # the end of the leader's log or, without a run, of a task's log, if no task ended with an error

    @property
    def first(self) -> TaskEvidence:
        """Return the task that failed first."""
        return self.tasks[0] if self.tasks else TaskEvidence()


# A function that returns values for a row's placeholders if the condition holds, and None otherwise.
Condition = Callable[[Evidence], Words | None]


def anywhere(evidence: Evidence) -> Words | None:
    """Accept all evidence."""
    return HOLDS


def found(id_: str) -> Condition:
    """Return a condition that holds if `check` has a finding with this id."""
    return lambda evidence: HOLDS if any(finding.id == id_ for finding in evidence.findings) else None


def logged(pattern: str) -> Condition:
    """Return a condition that holds if no task failed with an error, and the leader's log matches the pattern.

    The condition's values are the named groups of the pattern.
    """
    line = re.compile(pattern, re.MULTILINE)

    def holds(evidence: Evidence) -> Words | None:
        match = line.search(evidence.log)
        return None if match is None else {name: word for name, word in match.groupdict().items() if word}

    return holds


def of_shape(*shapes: Shape, unknown: bool = True) -> Condition:
    """Return a condition that holds if the job has one of these shapes, or if it is not known and `unknown` is True.

    The condition's value {tasks} is the number of tasks of each type, as in `2 workers and 1 ps`.
    """

    def holds(evidence: Evidence) -> Words | None:
        if evidence.job is None:
            return {"tasks": "its tasks"} if unknown else None
        counts = [number_of(kind, count) for kind, count in evidence.job.counts.items() if count]
        return {"tasks": " and ".join(counts)} if evidence.job.shape in shapes else None

    return holds


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the table: one way in which a distributed program goes wrong.

    The sentences `means` and `advice` may contain placeholders: {task}, {line} (the last line of the program's own code
    in the traceback), the named groups of `seen`, and the values of the condition `when`. If the condition has a value
    {means} or {advice}, this value replaces the whole sentence. A finding of `check` with the row's id, which includes
    the line of the mistake, replaces both sentences.
    """

    id: str  # the row's name; tests/children/mistakes/ID.py ("_" for "-") is a program that fails in this way
    title: str  # the error message, as people search for it
    seen: str  # the regular expression (re.MULTILINE) for the first failed task's error text; "" if only `when` counts
    means: str  # the sentence that says what went wrong
    advice: str  # the sentence that says what to do
    when: Condition = anywhere  # the condition that must hold in addition to `seen`
    reported: tuple[str, ...] = ()  # GitHub threads about the failure, as in `tensorflow/tensorflow#28096`
    example: tuple[str, ...] = ()  # `up` options with which that program fails; after "--", the program's own arguments
    facts_only: bool = False  # True if the row also applies without an error text, such as to a run that hangs
    over: tuple[str, ...] = ()  # the ids of rows that are not shown if this row matches
    general: bool = False  # True if the row is shown only if no more specific row matches
