"""Sentences about hosts and about changes to the program's files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from clusterkit.text.spelling import listed
from clusterkit.views.naming import few
from clusterkit.words import events as ev
from clusterkit.words.model import Task

MOST_FILES = 3  # the maximum number of files that a sentence names


def of_host(event: ev.OfHost | ev.HostAvoided) -> str:
    """Return the sentence about a host, or about the placement of tasks on hosts."""
    match event:
        case ev.Placed(hosts):
            return f"{_placed(hosts)}."
        case ev.HostCut(host, why, patience):
            what = f"The connection to the host {host} is cut ({why})."
            return f"{what} Its tasks continue; waiting up to {patience:g} s."
        case ev.HostBack(host):
            return f"The host {host} is connected again; nothing was lost."
        case ev.HostDraining(host, why):
            return f"The host {host} is about to leave: {why}. Its tasks are told to end."
        case ev.HostLost(host, why, left):
            return f"The host {host} {'has left' if left else 'is lost'}. {why}"
        case ev.HostJoined(host):
            return f"The host {host} has joined. It gets tasks when they are placed again."
        case ev.HostAvoided(host, why, moves):
            then = "all tasks move to other hosts" if moves else "there is no other host, so its tasks stay"
            return f"Attempts on the host {host} failed twice for reasons of its own ({why}): {then}."


def _placed(hosts: Mapping[Task, str]) -> str:
    """Return a list of the tasks on each host, such as `n1: chief:0, worker:0, ps:0; n2: worker:1`."""
    places: dict[str, list[str]] = {}
    for task, host in sorted(hosts.items()):
        places.setdefault(host, []).append(str(task))
    lines = [f"{host}: {', '.join(few(tasks))}" for host, tasks in places.items()]
    return "; ".join(few(lines, "hosts"))


def of_change(event: ev.ProgramChanged) -> str:
    """Return a sentence about saved files and, if the files are invalid or unchanged, about why nothing restarts."""
    if event.problem:
        return f"{event.problem}. Nothing restarts until that is corrected."
    if event.same:
        return f"{files(event.files)} {'were' if len(event.files) > 1 else 'was'} saved without changes."
    return f"{files(event.files)} changed."


def of_restart(event: ev.RestartPlanned) -> str:
    """Return a sentence such as `train.py changed: restarting all tasks from the checkpoint of step 300.`"""
    origin = "" if event.step is None else f" from the checkpoint of step {event.step}" if event.step else ""
    origin = " from the start" if event.step == 0 else origin
    return f"{files(event.files)} changed: restarting {_all(event)}{origin}."


def of_training(event: ev.EditTrains) -> str:
    return f"The changed program trains: step {event.step}, {event.seconds:.1f} s after the save."


def of_waiting(event: ev.WaitsForChange) -> str:
    return f"The job failed: {event.reason}. Waiting for a change to {event.program}; Ctrl-C ends the run."


def files(names: Sequence[str]) -> str:
    """Return a list such as `train.py, model.py and 4 more files`."""
    if len(names) > MOST_FILES:
        return f"{', '.join(names[: MOST_FILES - 1])} and {len(names) - MOST_FILES + 1} more files"
    return listed(names) or "The program"


def _all(event: ev.RestartPlanned) -> str:
    return "all tasks" if len(event.tasks) > 1 else str(event.tasks[0])
