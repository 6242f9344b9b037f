"""Explanations as text: wrapped, set apart, and nothing that the report says anyway."""

from __future__ import annotations

import pytest

from clusterkit.views.explanations import explanation_lines
from clusterkit.words.distribution import Undistributed, WhyAlone
from clusterkit.words.explanation import Explanation
from clusterkit.words.model import Task, TaskType
from clusterkit.words.outcome import RunResult, RunState

WORKER = Task(TaskType.WORKER, 0)
FIRST = Explanation("a-row", WORKER, "Something went wrong.", "Mend it, and then run it again.", ("a/b#1", "c/d#2"))
SECOND = Explanation("b-row", WORKER, "Or this\x1b[2J did.", "Mend that.")
ALONE = Undistributed((WORKER,), WhyAlone.NO_SCOPE)
RECOVERED = "  The job recovered from this failure:"


def lines(
    *explanations: Explanation, state: RunState = RunState.FAILED, alone: Undistributed | None = None
) -> list[str]:
    """The lines of a run with these explanations, at 40 columns."""
    return explanation_lines(RunResult(state, 1, "", explanations=explanations, undistributed=alone), 40)


def test_each_is_a_block() -> None:
    """With the reports in public; what a log contributed can't act on the terminal."""
    assert lines(FIRST, SECOND) == [
        "",
        "    Why: Something went wrong.",
        "    Fix: Mend it, and then run it again.",
        "    See: https://github.com/a/b/issues/1",
        "         https://github.com/c/d/issues/2",
        "",
        "    Why: Or this␛[2J did.",
        "    Fix: Mend that.",
        "",
    ]
    assert lines() == []


@pytest.mark.parametrize(
    ("state", "alone", "head"),
    [
        (RunState.FAILED, None, []),
        (RunState.SUCCEEDED, None, [RECOVERED]),
        (RunState.SUCCEEDED, ALONE, []),
    ],
)
def test_a_failure_that_was_overcome(state: RunState, alone: Undistributed | None, head: list[str]) -> None:
    """It is said to be one."""
    assert lines(SECOND, state=state, alone=alone)[:-4] == head


def test_what_the_report_says_anyway() -> None:
    """That tasks trained alone, with the lines of code that mend it."""
    said = Explanation("no-scope", WORKER, str(ALONE), "So.")
    assert lines(said, state=RunState.SUCCEEDED, alone=ALONE) == []
