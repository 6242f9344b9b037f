"""Sentences about changes of the program."""

from __future__ import annotations

from collections.abc import Sequence

from clusterkit.text.spelling import listed
from clusterkit.words import events as ev

MOST_FILES = 3  # files that a sentence names


def of_change(event: ev.ProgramChanged) -> str:
    """Return which files were saved, and why nothing restarts if the change has a problem or changes nothing."""
    if event.problem:
        return f"{event.problem}. Nothing restarts until that is corrected."
    if event.same:
        return f"{files(event.files)} {_was(event.files)} saved as before."
    return f"{files(event.files)} changed."


def of_restart(event: ev.RestartPlanned) -> str:
    """Return a sentence such as `train.py changed: restarting all tasks from the checkpoint of step 300.`"""
    origin = "" if event.step is None else f" from the checkpoint of step {event.step}" if event.step else ""
    origin = " from the start" if event.step == 0 else origin
    return f"{files(event.files)} changed: restarting {_all(event)}{origin}."


def of_training(event: ev.EditTrains) -> str:
    """Return how long after the save the changed program trains."""
    return f"The changed program trains: step {event.step}, {event.seconds:.1f} s after the save."


def of_waiting(event: ev.WaitsForChange) -> str:
    """Return why no task runs, and what the user can do."""
    return f"The job failed: {event.reason}. Waiting for a change to {event.program}; Ctrl-C ends the run."


def files(names: Sequence[str]) -> str:
    """Return a list such as `train.py, model.py and 4 more files`."""
    if len(names) > MOST_FILES:
        return f"{', '.join(names[: MOST_FILES - 1])} and {len(names) - MOST_FILES + 1} more files"
    return listed(names) or "The program"


def _was(names: Sequence[str]) -> str:
    return "were" if len(names) > 1 else "was"


def _all(event: ev.RestartPlanned) -> str:
    return "all tasks" if len(event.tasks) > 1 else str(event.tasks[0])
