"""Profiles: which tasks are asked for one, and when those that make no steps of their own have done enough."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from clusterkit.machine.cluster_state import ClusterState
from clusterkit.words.actions import BeginProfile, EndProfile
from clusterkit.words.events import Profiled, Requested
from clusterkit.words.model import Task
from clusterkit.words.states import TaskState


@dataclass(slots=True)
class Profiles:
    """A server's window is the coordinator's, so the coordinator is profiled along with it.

    Where the coordinator gives no profile, a server's window lasts as long as was asked for at most.
    """

    state: ClusterState
    _servers: dict[int, tuple[Task, ...]] = field(default_factory=dict)  # by request, until their window is over

    def begin(self, event: Requested, tasks: Sequence[Task]) -> tuple[Task, ...]:
        """Ask for profiles; return of which tasks."""
        leader = self.state.job.leader
        servers = tuple(task for task in tasks if self.state.job.is_server(task))
        own = tuple(task for task in tasks if task not in servers)
        if servers and leader not in own and self.state.records[leader].state is TaskState.RUNNING:
            own = (leader, *own)
        if servers:
            self._servers[event.request] = servers
            self.state.out.append(BeginProfile(event.request, servers, None, event.seconds))
        if own:
            self.state.out.append(BeginProfile(event.request, own, event.steps, event.seconds))
        return tuple(sorted({*own, *servers}))

    def took(self, event: Profiled) -> None:
        """A task has answered. With the coordinator's answer the servers' window is over."""
        if event.task == self.state.job.leader and event.path is not None:
            servers = self._servers.pop(event.request, ())
            if servers:
                self.state.out.append(EndProfile(event.request, servers))
