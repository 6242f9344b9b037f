"""`show --patches` lists what took effect, by task, and says what it is."""

from __future__ import annotations

from clusterkit.ledger.ledger import Ledger
from clusterkit.views.patches import UNKNOWN, patches_data, patches_text
from clusterkit.words import events as ev
from clusterkit.words.job import JobSpec
from clusterkit.words.model import Program, ProgramKind, Task, TaskState, TaskType
from clusterkit.words.repairs import REPAIRS
from tests.histories import task

JOB = JobSpec(Program(ProgramKind.SCRIPT, "train.py"), {TaskType.WORKER: 3})


def ledger_of(*repairs: tuple[str, int, str], attempts: int = 1, workers: int = 3) -> Ledger:
    """The ledger of a run whose tasks started, and in which repairs took effect."""
    ledger = Ledger(JOB)
    ledger.add(0.0, ev.Began())
    for index in range(workers):
        for attempt in range(1, attempts + 1):
            ledger.add(1.0, ev.Changed(Task(TaskType.WORKER, index), attempt, TaskState.STARTING))
    for name, attempt, repair in repairs:
        ledger.add(2.0, ev.Repaired(task(name), attempt, repair))
    return ledger


def text_of(ledger: Ledger, width: int | None = None) -> str:
    """What the command prints."""
    return patches_text(ledger.attempts.by_task, width)


def test_tasks_are_listed_with_their_patches_and_each_patch_is_explained_once() -> None:
    """In the order of the tasks, and of the table; tasks with the same patches share a line."""
    ledger = ledger_of(
        *(("worker:0", 1, "order"), ("worker:0", 1, "keras-fit"), ("worker:0", 1, "order")),
        *(("worker:1", 1, "keras-fit"), ("worker:1", 1, "order"), ("worker:2", 1, "leader-first")),
    )
    assert text_of(ledger).splitlines() == [
        "worker:0 and worker:1  keras-fit, order",
        "worker:2               leader-first",
        "",
        f"keras-fit     {REPAIRS['keras-fit']}",
        f"order         {REPAIRS['order']}",
        f"leader-first  {REPAIRS['leader-first']}",
    ]


def test_tasks_in_which_nothing_was_changed_are_listed() -> None:
    """If there are others."""
    assert text_of(ledger_of(workers=2)) == patches_text({}) == "No patch took effect in this run.\n"
    lines = text_of(ledger_of(("worker:1", 1, "order"))).splitlines()
    assert lines[:2] == ["worker:0 and worker:2  no patch", "worker:1               order"]


def test_attempts_that_differ_are_apart() -> None:
    """An attempt that was killed before it trained has none; each attempt has its own record."""
    ledger = ledger_of(("worker:0", 2, "order"), attempts=2, workers=1)
    assert text_of(ledger).splitlines()[:2] == ["worker:0 (attempt 1)  no patch", "worker:0 (attempt 2)  order"]
    assert patches_data(ledger.attempts.by_task) == [
        {"task": "worker:0", "attempt": 1, "patches": []},
        {"task": "worker:0", "attempt": 2, "patches": [{"name": "order", "text": str(REPAIRS["order"])}]},
    ]


def test_a_patch_of_another_version_is_listed() -> None:
    """Its journal may be read by an older clusterkit."""
    ledger = ledger_of(("worker:0", 1, "new-one"), ("worker:0", 1, "order"), workers=1)
    assert text_of(ledger).splitlines() == [
        "worker:0  order, new-one",
        "",
        f"order    {REPAIRS['order']}",
        f"new-one  {UNKNOWN}",
    ]


def test_lines_fit_the_terminal() -> None:
    """An explanation continues below itself."""
    first, empty, *others = text_of(ledger_of(("worker:0", 1, "order"), workers=1), 60).splitlines()
    assert (first, empty) == ("worker:0  order", "")
    assert max(map(len, others)) <= 60
    assert {line[:7] for line in others} == {"order  ", " " * 7}


def test_a_report_about_an_unknown_attempt_is_ignored() -> None:
    """Such as one that no start was recorded for."""
    assert text_of(ledger_of(("worker:7", 1, "order"), workers=1)) == "No patch took effect in this run.\n"
