"""The spawner: starts attempts, several at a time if a fork server creates the processes."""

from __future__ import annotations

import errno
import os
import sys
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple

from clusterkit.backends.local.family import PendingStart, ProcessFamily
from clusterkit.backends.local.logs import LogPump
from clusterkit.job.plan import Endpoints, Start, TaskPlan, attempt_environment, plan_tasks
from clusterkit.store.directory import RunDirectory
from clusterkit.store.paths import RunPaths
from clusterkit.system.inbox import Work
from clusterkit.system.process import AttemptChild
from clusterkit.warm.starter import WarmStarter
from clusterkit.words.actions import Spawn
from clusterkit.words.events import NEVER_STARTED, Noted, SpawnFailed, StorageFailed
from clusterkit.words.job import JobSpec
from clusterkit.words.model import Task

if TYPE_CHECKING:
    from clusterkit.network.virtual import VirtualNetwork

# Start errors caused by this machine and not by the program. The next attempt may succeed.
HOST_ERRNOS = frozenset({
    errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.ESTALE,
    errno.EROFS, errno.ETXTBSY,
})  # fmt: skip
MOST_STARTING = 4  # the maximum number of attempts that are starting at the same time
Post = Callable[[Noted | SpawnFailed | StorageFailed | Work], None]
Started = Callable[[Spawn, float, AttemptChild], None]
Plans = Callable[[tuple[Task, ...]], Mapping[Task, TaskPlan]]
Starting = tuple[Spawn, float, PendingStart]  # a starting attempt: its order, its start's wall time, and its process


def plans_for(job: JobSpec, endpoints: Endpoints, paths: RunPaths, here: Collection[Task]) -> Plans:
    """Return a function that plans the starts of the tasks `here`, given the workers that were given up."""

    @lru_cache(1)  # the plans are the same until another worker is given up
    def plans(given_up: tuple[Task, ...]) -> Mapping[Task, TaskPlan]:
        return plan_tasks(replace(job, given_up=given_up), endpoints, paths, sys.executable, here)

    return plans


class StartResources(NamedTuple):
    """The parts of the backend that are needed to start attempts. `network` is None if tasks use the host's network."""

    directory: RunDirectory
    logs: LogPump
    warm_starter: WarmStarter
    family: ProcessFamily
    network: VirtualNetwork | None


class Spawner:
    """Starts attempts in the order of their requests, and calls `started` with each new process.

    A start begins with the request for a process, and ends when the process exists. In between, the loop can begin
    the next start. Before the loop does anything else with a task, it has to call `finish`.
    """

    def __init__(self, resources: StartResources, on_hosts: bool, post: Post, started: Started) -> None:
        self._resources = resources
        self._on_hosts = on_hosts
        self._post = post
        self._started = started
        self._environ = dict(os.environ)
        self._starting = deque[Starting]()
        self._waiting: dict[Task, Spawn] = {}  # attempts whose start is waiting for the fork server to be ready
        self.plans: Plans

    def spawn(self, order: Spawn) -> None:
        if (starting := self._begin(order)) is None:
            return
        if not self._starting:
            self._post(self.finish)
        self._starting.append(starting)
        if len(self._starting) > MOST_STARTING:
            self._finish(self._starting.popleft())

    def finish(self) -> None:
        """Wait until the processes of all starting attempts exist."""
        while self._starting:
            self._finish(self._starting.popleft())

    def start_waiting(self) -> None:
        """Start the attempts that were waiting for the fork server, which is now ready or has failed."""
        self._resources.warm_starter.replace_lost()
        waiting, self._waiting = self._waiting, {}
        for order in waiting.values():
            self.spawn(order)

    def withdraw(self, task: Task, attempt: int) -> bool:
        """Cancel an attempt's start if the start is waiting for the fork server; return whether it was cancelled."""
        waiting = self._waiting.get(task)
        if waiting is None or waiting.attempt != attempt:
            return False
        del self._waiting[task]
        self._post(SpawnFailed(task, attempt, NEVER_STARTED))
        return True

    def _begin(self, order: Spawn) -> Starting | None:
        """Begin to start an attempt. Return None if the start has to wait for a fork server, or has failed."""
        task, attempt, resources = order.task, order.attempt, self._resources
        plan = self.plans(order.given_up)[task]
        env = attempt_environment(self._environ, plan, attempt, order.reason, order.restore or "")
        if resources.warm_starter.has_to_wait(plan, env):
            self._waiting[task] = order
            return None
        wall_time = time.time()
        try:
            output = resources.logs.open(task, attempt, resources.directory.log(task, attempt))
        except OSError as error:
            what = f"its log could not be made: {_error_text(error)}"
            if not self._on_hosts:  # with several hosts, another host's disk may have room
                self._post(StorageFailed(f"{task}: {what}"))
            self._post(SpawnFailed(task, attempt, what, unfit=True))
            return None
        opened = [output]
        try:
            server, why_cold = resources.warm_starter.server_for(plan, env)
            if why_cold:
                self._post(Noted(f"{task} starts cold: {why_cold}."))
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
            opened.append(os.open(resources.directory.stacks(task, attempt), flags, 0o600))
            namespaces = () if resources.network is None else resources.network.namespaces(task)
            pending = resources.family.begin(Start(plan, env, output, opened[-1], namespaces), server)
        except OSError as error:
            self._failed(order, error, opened)
            return None
        return order, wall_time, pending

    def _finish(self, starting: Starting) -> None:
        order, wall_time, pending = starting
        opened = [pending.start.output, pending.start.stacks]
        try:
            child = self._resources.family.finish(pending)
        except OSError as error:
            self._failed(order, error, opened)
            return
        _close(opened)
        self._started(order, wall_time, child)

    def _failed(self, order: Spawn, error: OSError, opened: Iterable[int]) -> None:
        _close(opened)
        unfit = error.errno in HOST_ERRNOS
        self._post(SpawnFailed(order.task, order.attempt, _error_text(error), unfit=unfit))


def _error_text(error: OSError) -> str:
    return f"{error.strerror} ({error.filename})" if error.filename else f"{error.strerror}"


def _close(descriptors: Iterable[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)
