"""Sentences about hosts."""

from __future__ import annotations

from collections.abc import Mapping

from clusterkit.views.naming import few
from clusterkit.words import events as ev
from clusterkit.words.model import Task


def of_host(event: ev.OfHost | ev.HostAvoided) -> str:
    """Return the sentence about an event of a host, or about the placement of tasks."""
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
    """Return the tasks by host, such as `n1: chief:0, worker:0, ps:0; n2: worker:1`."""
    places: dict[str, list[str]] = {}
    for task, host in sorted(hosts.items()):
        places.setdefault(host, []).append(str(task))
    lines = [f"{host}: {', '.join(few(tasks))}" for host, tasks in places.items()]
    return "; ".join(few(lines, "hosts"))
