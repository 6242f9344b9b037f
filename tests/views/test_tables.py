"""Tables in terminals of every width: nothing is wider than the terminal, and columns go in their order."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, seed, settings
from hypothesis import strategies as st

from clusterkit.ledger.ledger import Ledger
from clusterkit.ledger.status import RunStatus
from clusterkit.text.printable import columns
from clusterkit.views.listing import TASKS, run_row, runs_table, task_rows, tasks_table
from clusterkit.views.recoveries import DROPPED, TITLES, recovery_lines
from clusterkit.views.tables import Column, table, table_lines
from clusterkit.words import events as ev
from clusterkit.words.account import RecoveryReport
from clusterkit.words.model import TaskState
from clusterkit.words.outcome import Exit
from tests.histories import job, task
from tests.views.test_report import RECOVERED as REPORT

WIDTHS = range(40, 201)
ENDPOINTS = {one: f"127.0.0.1:3{number}073" for number, one in enumerate(job(workers=2, ps=1).tasks)}


def status(killed: bool) -> RunStatus:
    """A run of four tasks whose chief reports steps; one may have been killed."""
    made = Ledger(job(workers=2, ps=1), ENDPOINTS)
    for number, one in enumerate(ENDPOINTS):
        made.add(0.0, ev.Changed(one, 1, TaskState.RUNNING))
        made.add(0.0, ev.Spawned(one, 1, f"pid {2290 + number}"))
    for second in range(4):
        made.add(float(second), ev.Progressed(task("chief:0"), 1, 130 * second, {}, 1500))
    if killed:
        made.add(4.0, ev.Exited(task("worker:1"), 1, Exit(signal=9)))
        made.add(4.0, ev.Changed(task("worker:1"), 2, TaskState.RUNNING))
        made.add(4.0, ev.Spawned(task("worker:1"), 2, "pid 2300"))
    return made.run


def ps(width: int | None, killed: bool = True) -> list[str]:
    """The lines of `ps`."""
    usage = dict.fromkeys(ENDPOINTS, (26.4, 372 << 20))
    return tasks_table(task_rows(status(killed), 8.0, True, usage), width).splitlines()


def ls(width: int | None) -> list[str]:
    """The lines of `ls`."""
    ids = ("20261122-080031-e911", "20261122-080031-e91f9")
    rows = [run_row(run_id, ("succeeded", "succeeded"), 1800.0, job(workers=2, ps=1), status(True)) for run_id in ids]
    rows[0]["program"] = "/home/训练/projects/recommender/training/train.py"
    return runs_table(rows, width).splitlines()


@pytest.mark.parametrize(
    ("width", "killed", "titles"),
    [
        (None, False, [kind.title for kind in TASKS]),
        (120, False, [kind.title for kind in TASKS]),
        (100, False, ["TASK", "STATE", "ATTEMPT", "PID", "ENDPOINT", "UPTIME", "CPU", "MEMORY", "STEP", "STEPS/S"]),
        (80, False, ["TASK", "STATE", "ATTEMPT", "PID", "UPTIME", "CPU", "MEMORY", "STEP", "STEPS/S"]),
        (120, True, [kind.title for kind in TASKS]),
        (80, True, ["TASK", "STATE", "ATTEMPT", "UPTIME", "MEMORY", "STEP", "STEPS/S", "LAST EXIT"]),
        (60, True, ["TASK", "STATE", "ATTEMPT", "STEP", "STEPS/S", "LAST EXIT"]),
        (40, True, ["TASK", "STATE", "STEP"]),
    ],
)
def test_columns_of_ps(width: int | None, killed: bool, titles: list[str]) -> None:
    """The endpoint is left out first, then the pid, the CPU, the memory; what says nothing before all of them."""
    assert re.split(r"  +", ps(width, killed)[0]) == titles


@pytest.mark.parametrize(
    ("width", "titles"),
    [
        (None, ["RUN", "STATE", "AGE", "SHAPE", "TASKS", "PROGRAM", "ATTEMPTS", "STEP"]),
        (200, ["RUN", "STATE", "AGE", "SHAPE", "TASKS", "PROGRAM", "ATTEMPTS", "STEP"]),
        (80, ["RUN", "STATE", "AGE", "PROGRAM", "STEP"]),
        (40, ["RUN", "STATE"]),
    ],
)
def test_columns_of_ls(width: int | None, titles: list[str]) -> None:
    """The run id is never cut: commands take it."""
    lines = ls(width)
    assert re.split(r"  +", lines[0]) == titles
    assert all(line.startswith("20261122-080031-e91") for line in lines[1:])


@pytest.mark.parametrize("width", WIDTHS)
def test_nothing_is_wider_than_the_terminal(width: int) -> None:
    """And a wider terminal never shows less."""
    for lines, wider in (
        (ps(width), ps(width + 1)),
        (ps(width, False), ps(width + 1, False)),
        (ls(width), ls(width + 1)),
    ):
        assert max(map(columns, lines)) <= width
        assert len(lines[0].split()) <= len(wider[0].split())
    recoveries = recovery_lines(REPORT, width)
    assert max(map(columns, recoveries)) <= width
    assert len(recoveries[0].split()) <= len(recovery_lines(REPORT, width + 1)[0].split())


def test_in_a_pipe_nothing_is_cut() -> None:
    """Whatever it takes."""
    text = "\n".join([*ps(None), *ls(None)])
    assert "…" not in text
    for whole in (
        "was killed by SIGKILL",
        "/home/训练/projects/recommender/training/train.py",
        "1 chief, 2 workers, 1 ps",
    ):
        assert whole in text
    assert recovery_lines(REPORT) == recovery_lines(REPORT, 100)


def test_a_path_is_cut_at_its_beginning() -> None:
    """The file's name is at its end."""
    assert "…commender/training/train.py" in ls(80)[1]


@pytest.mark.slow
def test_columns_of_the_recovery_table() -> None:
    """They go in their order, and a wide terminal has fewer lines."""
    seen = [tuple(title for title in TITLES if title in recovery_lines(REPORT, width)[0]) for width in range(30, 200)]
    gone = [tuple(title for title in TITLES if title not in DROPPED[:number]) for number in range(len(DROPPED), -1, -1)]
    assert [titles for titles in gone if titles in seen] == list(dict.fromkeys(seen))
    assert len(recovery_lines(REPORT, 200)) < len(recovery_lines(REPORT, 100))
    assert recovery_lines(RecoveryReport((), ()), 80) == []


CELLS = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@seed(1)
@settings(max_examples=300)
@given(
    st.lists(st.tuples(CELLS, CELLS, CELLS, CELLS), max_size=4),
    st.integers(1, 90),
    st.lists(st.tuples(st.integers(0, 4), st.none() | st.integers(0, 9), st.booleans(), st.booleans()), min_size=4,
             max_size=4),
)  # fmt: skip
def test_any_table_fits(
    rows: list[tuple[str, ...]], width: int, kinds: list[tuple[int, int | None, bool, bool]]
) -> None:
    """Of any cells, with wide and with hostile characters; unless it is asked for, nothing is left out."""
    made = [Column(f"TITLE {number}", *kind) for number, kind in enumerate(kinds)]
    lines = table_lines(made, rows, width)
    assert len(lines) == len(rows) + 1
    assert max(map(columns, lines)) <= width
    whole = table(made, rows).splitlines()
    assert len(whole) == len(rows) + 1
    assert all(f"TITLE {number}" in whole[0] for number in range(4))
