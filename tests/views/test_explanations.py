"""Explanations as text: wrapped, set apart, and nothing that the report says anyway."""

from __future__ import annotations

from dataclasses import replace

import pytest

from clusterkit.views.explanations import explanation_lines
from clusterkit.words.distribution import Undistributed, WhyAlone
from clusterkit.words.explanation import Explanation
from clusterkit.words.model import Task, TaskType
from clusterkit.words.outcome import AttemptEnded, Exit, FailureRole, RoleKind, RunResult, RunState

WORKER = Task(TaskType.WORKER, 0)
FIRST = Explanation("a-row", WORKER, "Something went wrong.", "Mend it, and then run it again.", ("a/b#1", "c/d#2"))
SECOND = Explanation("b-row", WORKER, "Or this\x1b[2J did.", "Mend that.")
ALONE = Undistributed((WORKER,), WhyAlone.NO_SCOPE)
RECOVERED = "  The job recovered from this failure:"


CAUSE = AttemptEnded(WORKER, 1, 0.0, 1.0, Exit(code=1), 1, 1, None, None, None, FailureRole(RoleKind.CAUSE, WORKER, 1))


def lines(
    *explanations: Explanation,
    state: RunState = RunState.FAILED,
    alone: Undistributed | None = None,
    attempts: tuple[AttemptEnded, ...] = (CAUSE,),
) -> list[str]:
    """The lines of a run with these explanations, at 40 columns."""
    result = RunResult(state, 1, "", attempts=attempts, explanations=explanations, undistributed=alone)
    return explanation_lines(result, 40)


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


@pytest.mark.parametrize("attempts", [(), (replace(CAUSE, fault=1),), (replace(CAUSE, role=None),)])
def test_a_note_about_a_run_that_did_not_fail(attempts: tuple[AttemptEnded, ...]) -> None:
    """It explains no failure, also if an injected fault caused one."""
    assert lines(SECOND, state=RunState.SUCCEEDED, attempts=attempts)[:2] == ["", "    Why: Or this␛[2J did."]


def test_what_the_report_says_anyway() -> None:
    """That tasks trained alone, with the lines of code that mend it."""
    said = Explanation("no-scope", WORKER, str(ALONE), "So.")
    assert lines(said, state=RunState.SUCCEEDED, alone=ALONE) == []
