"""Ends in order: a coordinator that is told to end may save what its servers hold, so they end after it."""

from __future__ import annotations

from collections.abc import Iterable

from clusterkit.machine.cluster_state import ClusterState, TaskRecord
from clusterkit.machine.timers import Timer
from clusterkit.words.model import Task
from clusterkit.words.outcome import Asked
from clusterkit.words.states import TaskState


def end_in_order(state: ClusterState, records: Iterable[TaskRecord], asked: Asked, grace: float) -> None:
    """Ask tasks to end within `grace` seconds, servers once the coordinator is down.

    At the latest they are asked when as much time is left as they have after a success.
    """
    leader, last = state.records[state.job.leader], state.job.limits.servers
    saves = leader.state is TaskState.RUNNING and leader.asked is None and grace > last
    for record in list(records):
        if saves and state.job.is_server(record.task) and record.state is TaskState.RUNNING:
            record.asked = record.asked or asked
            state.move(record, TaskState.STOPPING)
            state.kept_up[record.task] = state.now + grace
            state.timers.set(Timer.KILL, state.now + grace - last, record.task)
        else:
            state.end(record, asked, grace)


def end_servers(state: ClusterState) -> None:
    """The coordinator is down: end the servers that were kept up for it."""
    for task in list(state.kept_up):
        end_server(state, task)


def end_server(state: ClusterState, task: Task) -> None:
    """End one that was kept up; it has the rest of the grace period."""
    until, record = state.kept_up[task], state.records[task]
    state.timers.set(Timer.KILL, until, task)
    state.end(record, record.asked or Asked.TEARDOWN, until - state.now)
