"""Which tasks were slower than their peers: from the journal to the lines of the report."""

from __future__ import annotations

import pytest

from clusterkit.ledger.ledger import ledger_of
from clusterkit.views.goodput import MOST, straggler_lines
from clusterkit.words import events as ev
from clusterkit.words import wire
from clusterkit.words.account import Account, Straggler
from clusterkit.words.outcome import Exit
from tests.histories import job, task

ONE, TWO = task("worker:1"), task("worker:2")
STOPPED = ev.Slowness.STOPPED
SLOW = ev.Straggling(ONE, 1, STOPPED, 4.0, 15.0, "is stopped 75 % of the time (worker:0 0 %)")
FOUND = Straggler(ONE, 1, 25.0, STOPPED, 4.0, SLOW.why)


def found(*told: tuple[float, ev.Event]) -> tuple[Straggler, ...]:
    """What is known after these events of a run that began at 100 s."""
    return ledger_of(job(workers=3), [(100.0, ev.Began()), *told]).account().stragglers


@pytest.mark.parametrize(
    ("end", "until"),
    [
        (ev.KeepsUp(ONE, 1, 35.0), 60.0),
        (ev.Exited(ONE, 1, Exit(signal=9)), 60.0),
        (ev.Continued(2), 60.0),
        (ev.KeepsUp(TWO, 1, 35.0), None),
        (ev.Exited(TWO, 1, Exit(signal=9)), None),
    ],
)
def test_how_long_a_task_was_a_straggler(end: ev.Event, until: float | None) -> None:
    """Since the first look that showed it; until it kept up, or its attempt was over."""
    (one,) = found((140.0, SLOW), (160.0, end))
    assert one == Straggler(ONE, 1, 25.0, STOPPED, 4.0, SLOW.why, until)


def test_stragglers_are_in_order_of_time() -> None:
    """Also the same task, time and again."""
    later = ev.Straggling(TWO, 2, STOPPED, 2.0, 20.0, "is stopped 50 % of the time (worker:0 0 %)")
    told = found((140.0, SLOW), (150.0, later), (160.0, ev.KeepsUp(ONE, 1, 35.0)), (200.0, SLOW))
    assert [(str(one.task), one.at, one.until) for one in told] == [
        ("worker:1", 25.0, 60.0),
        ("worker:2", 30.0, None),
        ("worker:1", 85.0, None),
    ]


def test_the_report_says_who_when_and_why() -> None:
    """One line each."""
    over = Straggler(TWO, 2, 30.0, STOPPED, 2.0, "is stopped 50 % of the time (worker:0 0 %)", 95.0)
    assert straggler_lines([FOUND, over]) == [
        "  Straggler: worker:1 was about 4.0 times as slow as its peers from 25.0 s on: "
        "it is stopped 75 % of the time (worker:0 0 %).",
        "  Straggler: worker:2 was about 2.0 times as slow as its peers from 30.0 s on for 1 min 5 s: "
        "it is stopped 50 % of the time (worker:0 0 %).",
    ]
    assert straggler_lines([]) == []
    assert straggler_lines([FOUND] * (MOST + 5))[-1] == "  Stragglers: 5 more."


def test_they_are_part_of_the_account() -> None:
    """And survive result.json."""
    told = ledger_of(job(workers=3), [(100.0, ev.Began()), (140.0, SLOW)]).account()
    assert told.stragglers == (FOUND,)
    assert wire.decode(Account, wire.encode(told)) == told
