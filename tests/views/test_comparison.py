"""Runs side by side: tables of events."""

from __future__ import annotations

from dataclasses import replace

from clusterkit.views.comparison import Compared, compared, comparison
from clusterkit.words import events as ev
from tests.histories import job, task

JOB = job(workers=2)
WORKER, OTHER = task("worker:0"), task("worker:1")


def made(run_id: str, *losses: float | None, every: int = 10) -> Compared:
    """A run whose workers report a loss each second, as often as there are any."""
    told: list[tuple[float, ev.Event]] = [
        (float(n), ev.Progressed(one, 1, n * every, {"loss": loss if one is WORKER else 99.0}))
        for n, loss in enumerate(losses, 1)
        for one in (OTHER, WORKER)
    ]
    return compared(run_id, "succeeded", JOB, [(0.0, ev.Began()), *told])


def test_two_runs_side_by_side() -> None:
    """The first task's metrics, at the same steps of both; nothing beyond the end of the shorter one."""
    table = comparison([made("a", 4.0, 3.0, 2.0, 1.0), made("b", 8.0, None)], None, None)
    rows = {line[:11].strip(): line[11:].split("  ") for line in table.splitlines()}
    cells = {name: [cell.strip() for cell in row if cell.strip()] for name, row in rows.items()}
    assert cells["loss at 10"] == ["4", "8"]
    assert cells["loss at 20"] == ["3", "not a number"]
    assert cells["loss at 40"] == ["1", "-"]
    assert cells["last loss"] == ["1 at 40", "not a number at 20"]
    assert cells["steps"] == ["40", "20"]


def test_no_value_is_carried_on_to_later_steps() -> None:
    """A run that reports at half of the steps has dashes at the others, even if it goes on later."""
    sparse = replace(made("b", 1.0), metrics={"loss": {10: 5.0, 40: 2.0}})
    table = comparison([made("a", 4.0, 3.0, 2.0, 1.0), sparse], None, None)
    rows = [line.split() for line in table.splitlines() if line.startswith(("loss at", "last"))]
    assert rows == [
        ["loss", "at", "10", "4", "5"],
        ["loss", "at", "20", "3", "-"],
        ["loss", "at", "30", "2", "-"],
        ["loss", "at", "40", "1", "2"],
        ["last", "loss", "1", "2"],
    ]


def test_equal_runs_have_equal_values() -> None:
    """Although each reports other steps: only steps that both have are compared."""
    curve = {step: 100.0 - step for step in range(1, 81)}
    first = replace(made("a", 1.0), metrics={"loss": {step: curve[step] for step in (*range(3, 80, 3), 80)}})
    second = replace(made("b", 1.0), metrics={"loss": {step: curve[step] for step in (*range(2, 80, 4), 79)}})
    rows = [line.split() for line in comparison([first, second], None, None).splitlines()]
    compared_at = {int(row[2]): row[3:] for row in rows if row[:2] == ["loss", "at"]}
    assert list(compared_at) == [6, 18, 30, 42, 54, 66, 78]
    assert all(values == [f"{curve[step]:g}"] * 2 for step, values in compared_at.items())
    assert rows[-1] == ["last", "loss", "20", "at", "80", "21", "at", "79"]


def test_runs_without_a_common_step_have_only_their_last_values() -> None:
    """Values at different steps are not set side by side."""
    first = replace(made("a", 1.0), metrics={"loss": {1: 1.0, 3: 0.5}})
    second = replace(made("b", 1.0), metrics={"loss": {2: 0.7, 4: 0.4}})
    rows = [line.split() for line in comparison([first, second], None, None).splitlines()]
    assert [row for row in rows if row[:2] == ["loss", "at"] and "-" not in row] == []


def test_only_options_and_arguments_that_differ_are_shown() -> None:
    """An option of the program goes with its value; what a run does not have is a dash."""
    first = replace(made("a", 1.0), options={"program": "t.py", "--ps": "1"}, args=("x", "--lr", "0.1", "-v"))
    other = replace(made("b", 1.0), options={"program": "t.py"}, args=("x", "--lr", "0.2", "-v"))
    rows = [
        [cell.strip() for cell in line.split("  ") if cell.strip()]
        for line in comparison([first, other], None, None).splitlines()
    ]
    assert rows[:4] == [
        ["a", "b"],
        ["--ps", "1", "-"],
        ["arguments", "--lr 0.1", "--lr 0.2"],
        ["state", "succeeded", "succeeded"],
    ]
    assert "arguments" not in comparison([first, first], None, None)


def test_a_step_that_was_made_again_counts_once() -> None:
    """After a restart: with its newest value."""
    again = [(float(n), ev.Progressed(WORKER, n, 5, {"loss": 1.0 * n})) for n in (1, 2)]
    assert compared("a", "failed", JOB, [(0.0, ev.Began()), *again]).metrics == {"loss": {5: 2.0}}


def test_a_run_without_metrics_or_steps() -> None:
    """It has its state, and dashes."""
    empty = compared("a", "lost", None, [])
    assert (empty.steps, empty.speed, empty.metrics) == (None, None, {})
    assert "loss at" not in comparison([empty], None, 80)
    assert comparison([empty], "accuracy", 80).count("-") >= 3
