"""The final report of a job that continued with fewer workers."""

from __future__ import annotations

from dataclasses import replace

from clusterkit.words.account import Death, Recovery, RecoveryReport, Return
from clusterkit.words.outcome import Exit
from tests.views.test_report import CHIEF, OTHER, SUCCESS, WORKER, lines

RECOVERY = Recovery(
    at=5.0, asked=False, cause=Death(WORKER, 1, 5.0, Exit(signal=9)), collateral=(), faults=(), detected=5.0,
    planned=5.1, returns=(Return(CHIEF, 2),), training=True, went_on=False, first_step=9.0, last_step=130,
    resumed_step=120, checkpoint="/c/ckpt-120", lost=10, ended=9.0, given_up=(WORKER,), left=3,
)  # fmt: skip


def test_who_was_given_up_is_said_and_how_many_are_left() -> None:
    """Above the table of the tasks, and in the row of the recovery."""
    text = lines(replace(SUCCESS, given_up=(WORKER,)), recovered=RecoveryReport((RECOVERY,)))
    assert text[1] == "  Given up: worker:1. The job continued without it."
    assert [text[6].endswith("ckpt-120,"), text[7].endswith("  3 workers left")] == [True, True], text
    two = lines(replace(SUCCESS, given_up=(WORKER, OTHER)))
    assert two[1] == "  Given up: worker:1, worker:0. The job continued without them."
