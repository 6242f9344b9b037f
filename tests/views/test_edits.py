"""Sentences about changes of the program."""

from __future__ import annotations

import pytest

from clusterkit.ledger.ledger import Ledger
from clusterkit.ledger.status import RunPhase
from clusterkit.views.narrate import Level, is_bad, sentence
from clusterkit.views.surroundings import files
from clusterkit.words import events as ev
from tests.histories import job, task

BOTH = (task("worker:0"), task("worker:1"))


def planned(step: int | None, *tasks: str) -> ev.RestartPlanned:
    """A restart for a change."""
    return ev.RestartPlanned(tuple(map(task, tasks)) or BOTH, None, (), 0.0, 0, 3, files=("train.py",), step=step)


@pytest.mark.parametrize(
    ("event", "level", "bad", "text"),
    [
        (planned(300), Level.WARNING, False, "train.py changed: restarting all tasks from the checkpoint of step 300."),
        (planned(0), Level.WARNING, False, "train.py changed: restarting all tasks from the start."),
        (planned(None), Level.WARNING, False, "train.py changed: restarting all tasks."),
        (planned(None, "worker:0"), Level.WARNING, False, "train.py changed: restarting worker:0."),
        (ev.ProgramChanged(("a.py", "b.py")), Level.DEBUG, False, "a.py and b.py changed."),
        (ev.ProgramChanged(("a.py",), same=True), Level.INFO, False, "a.py was saved without changes."),
        (
            ev.ProgramChanged(("a.py", "b.py"), same=True),
            Level.INFO,
            False,
            "a.py and b.py were saved without changes.",
        ),
        (
            ev.ProgramChanged(("a.py",), problem="a.py:1 is not valid Python: x in `\x1b[2J`"),
            Level.WARNING,
            True,
            "a.py:1 is not valid Python: x in `␛[2J`. Nothing restarts until that is corrected.",
        ),
        (ev.EditTrains(301, 1.96), Level.INFO, False, "The changed program trains: step 301, 2.0 s after the save."),
        (
            ev.WaitsForChange("worker:1 exited with code 1", "train.py"),
            Level.WARNING,
            True,
            "The job failed: worker:1 exited with code 1. Waiting for a change to train.py; Ctrl-C ends the run.",
        ),
    ],
)
def test_sentences(event: ev.Event, level: Level, bad: bool, text: str) -> None:
    """What a file contains can move no cursor."""
    assert sentence(event) == (level, text)
    assert is_bad(event) is bad


def test_of_many_files_some_are_named() -> None:
    """As after a change of branch."""
    assert files(("a", "b", "c")) == "a, b and c"
    assert files(tuple("abcdefg")) == "a, b and 5 more files"


def test_a_run_waits_until_its_tasks_start_again() -> None:
    """That is its phase, for `ls` and the page."""
    ledger = Ledger(job(workers=2))
    status = ledger.run
    ledger.add(0.0, ev.Began())
    ledger.add(1.0, ev.WaitsForChange("why", "train.py"))
    assert (status.phase, status.reason) == (RunPhase.WAITING, "why")
    ledger.add(2.0, planned(3))
    assert (status.phase, status.reason) == (RunPhase.RUNNING, "")
