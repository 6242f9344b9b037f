"""A row of the table of what goes wrong in distributed programs, and the evidence that rows are held against."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from clusterkit.check.findings import Finding
from clusterkit.words.distribution import Undistributed
from clusterkit.words.job import JobSpec
from clusterkit.words.model import Shape, Task, number_of
from clusterkit.words.outcome import Exit, RunState

Words = Mapping[str, str]  # what a condition contributes to a row's sentences
HOLDS: Words = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class TaskEvidence:
    """What is known of a task.

    `text` is its error: from the beginning of its last traceback, with those that it was chained to, to the end of its
    log; without a traceback, the last lines. It is empty if the task did not end by an error of its own. `before` are
    the lines before that. `connected`: whether it was seen to be connected to its cluster; None if that is unknown.
    `source` is how the lines of a log from elsewhere name the task.
    """

    task: Task | None = None  # None: a log of unknown origin
    text: str = ""
    before: str = ""
    exit: Exit | None = None  # None: it still runs, or it is unknown
    step: int | None = None
    connected: bool | None = None
    source: str = ""

    @property
    def name(self) -> str:
        """The task as sentences name it."""
        return str(self.task or self.source or "a task")


@dataclass(frozen=True, slots=True)
class StuckTask:
    """A task as it was found when the startup timeout was over or training stalled, whatever it did then.

    `doing` is what its main thread did, as in `waits in Server.join`, and `where` the line of the program's own code
    that did it, as in `train.py:12`. `listening`: at its own endpoint. `listens` is every task at whose endpoint, and
    every port at which its process listens, as in `worker:0` or `port 2222`. `threads` is where its other threads run
    the program's code, as in `data.py:8 in rows`.
    """

    task: Task
    doing: str = ""
    where: str = ""
    endpoint: str = ""
    listening: bool = False
    listens: tuple[str, ...] = ()
    threads: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is known of a run, or of a log from elsewhere: then `job` is None, and so is `state`.

    Of `tasks`, the one that failed first is the first. `reason` is that of a run that failed without a failed task.
    `findings` are those of `check`, with and without certainty. `stuck` are the tasks of a run that failed at the
    startup timeout, the ones that had connected among them, and `stalled` those of one that ended for a stall.
    """

    tasks: tuple[TaskEvidence, ...]
    job: JobSpec | None = None
    state: RunState | None = None
    reason: str = ""
    findings: tuple[Finding, ...] = ()
    stuck: tuple[StuckTask, ...] = ()
    stalled: tuple[StuckTask, ...] = ()
    undistributed: Undistributed | None = None

    @property
    def first(self) -> TaskEvidence:
        """The task that failed first."""
        return self.tasks[0] if self.tasks else TaskEvidence()


Condition = Callable[[Evidence], Words | None]


def anywhere(evidence: Evidence) -> Words | None:
    """A condition that always holds."""
    return HOLDS


def of_shape(*shapes: Shape, unknown: bool = True) -> Condition:
    """The job has one of these shapes. `unknown`: whether a log from elsewhere counts as such a job.

    Its word is {tasks}, as in `2 workers and 1 ps`.
    """

    def holds(evidence: Evidence) -> Words | None:
        if evidence.job is None:
            return {"tasks": "its tasks"} if unknown else None
        counts = [number_of(kind, count) for kind, count in evidence.job.counts.items() if count]
        return {"tasks": " and ".join(counts)} if evidence.job.shape in shapes else None

    return holds


@dataclass(frozen=True, slots=True)
class Row:
    """One way in which a distributed program goes wrong.

    `seen` is a regular expression (multi-line) for the error text of the task that failed first; "" if facts alone
    count, which `when` looks at. The sentences have `{names}`: the expression's named groups, the condition's words,
    {task}, and {line}, the last line of the program's own code in the traceback; a condition's words {means} and
    {advice} replace a sentence as a whole. `title` is the message as people
    search for it. If `check` has a finding with the row's id, its sentences, which name the line, replace the row's.

    `over` are the ids of rows that are not shown where this one fits; a `general` row is shown where no other fits.
    With `facts_only`, the row is also tried for a run without an error text, such as one that hangs or that trains each
    task alone. With the options `example` of `up`, tests/children/mistakes/ID.py shows the row; its own arguments stand
    after a "--" there.
    """

    id: str
    title: str
    seen: str
    means: str
    advice: str
    when: Condition = anywhere
    reported: tuple[str, ...] = ()
    example: tuple[str, ...] = ()
    facts_only: bool = False
    over: tuple[str, ...] = ()
    general: bool = False
