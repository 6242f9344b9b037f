"""The spawner: starts attempts, several at a time if a fork server creates the processes."""

from __future__ import annotations

import errno
import os
import sys
import time
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import replace
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
OF_HOST = frozenset({
    errno.EAGAIN, errno.ENOMEM, errno.EMFILE, errno.ENFILE, errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.ESTALE,
    errno.EROFS, errno.ETXTBSY,
})  # fmt: skip
AT_ONCE = 4  # attempts that may be starting at the same time
Post = Callable[[Noted | SpawnFailed | StorageFailed | Work], None]
Started = Callable[[Spawn, float, AttemptChild], None]
Starting = tuple[Spawn, float, PendingStart]  # a starting attempt: its order, the wall time, and its process


class Plans:
    """The start plans of this machine's tasks, made for the first attempt, and again when workers are abandoned."""

    def __init__(self, job: JobSpec, endpoints: Endpoints, paths: RunPaths, here: Collection[Task]) -> None:
        self._job, self._endpoints, self._paths, self._here = job, endpoints, paths, here
        self._plans: Mapping[Task, TaskPlan] = {}
        self._without: tuple[Task, ...] | None = None  # the omitted workers; None before the first plan

    def of(self, order: Spawn) -> TaskPlan:
        if self._without != order.given_up:
            job = replace(self._job, given_up=order.given_up)
            self._plans = plan_tasks(job, self._endpoints, self._paths, sys.executable, self._here)
            self._without = order.given_up
        return self._plans[order.task]


class StartResources(NamedTuple):
    """The parts of the backend that are needed to start attempts. `network` is None if tasks use the host's network."""

    directory: RunDirectory
    logs: LogPump
    servers: WarmStarter
    family: ProcessFamily
    network: VirtualNetwork | None


class Spawner:
    """Starts attempts in the order of their requests, and calls `started` with each new process.

    A start begins with the request for a process, and is finished when the process exists. In between, the loop can
    begin the next start. Before the loop does anything else with a task, it has to call `finish`.
    """

    def __init__(self, means: StartResources, on_hosts: bool, post: Post, started: Started) -> None:
        self._means = means
        self._on_hosts = on_hosts
        self._post = post
        self._started = started
        self._environ = dict(os.environ)
        self._begun = deque[Starting]()
        self._waiting: dict[Task, Spawn] = {}  # attempts whose start waits until the fork server is ready
        self.plans: Plans

    def spawn(self, order: Spawn) -> None:
        if (starting := self._begin(order)) is None:
            return
        if not self._begun:
            self._post(self.finish)
        self._begun.append(starting)
        if len(self._begun) > AT_ONCE:
            self._finish(self._begun.popleft())

    def finish(self) -> None:
        """Wait until the processes of all starting attempts exist."""
        while self._begun:
            self._finish(self._begun.popleft())

    def start_waiting(self) -> None:
        """Start the attempts that waited for the fork server, which is now ready or has failed."""
        self._means.servers.replace_lost()
        waiting, self._waiting = self._waiting, {}
        for order in waiting.values():
            self.spawn(order)

    def withdraw(self, task: Task, attempt: int) -> bool:
        """Cancel the start of an attempt if the start waits for the fork server; return whether it was cancelled."""
        waiting = self._waiting.get(task)
        if waiting is None or waiting.attempt != attempt:
            return False
        del self._waiting[task]
        self._post(SpawnFailed(task, attempt, NEVER_STARTED))
        return True

    def _begin(self, order: Spawn) -> Starting | None:
        """Begin to start an attempt. Return None if the start waits for a fork server or failed (which is posted)."""
        plan, task, attempt, means = self.plans.of(order), order.task, order.attempt, self._means
        env = attempt_environment(self._environ, plan, attempt, order.reason, order.restore or "")
        if means.servers.has_to_wait(plan, env):
            self._waiting[task] = order
            return None
        moment = time.time()
        try:
            output = means.logs.open(task, attempt, means.directory.log(task, attempt))
        except OSError as error:
            what = f"its log could not be made: {_why(error)}"
            if not self._on_hosts:  # on hosts, another host's disk may have room
                self._post(StorageFailed(f"{task}: {what}"))
            self._post(SpawnFailed(task, attempt, what, unfit=True))
            return None
        opened = [output]
        try:
            server, why_cold = means.servers.server_for(plan, env)
            if why_cold:
                self._post(Noted(f"{task} starts cold: {why_cold}."))
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
            opened.append(os.open(means.directory.stacks(task, attempt), flags, 0o600))
            namespaces = () if means.network is None else means.network.namespaces(task)
            begun = means.family.begin(Start(plan, env, output, opened[-1], namespaces), server)
        except OSError as error:
            self._failed(order, error, opened)
            return None
        return order, moment, begun

    def _finish(self, starting: Starting) -> None:
        order, moment, begun = starting
        opened = [begun.start.output, begun.start.stacks]
        try:
            child = self._means.family.finish(begun)
        except OSError as error:
            self._failed(order, error, opened)
            return
        _close(opened)
        self._started(order, moment, child)

    def _failed(self, order: Spawn, error: OSError, opened: Iterable[int]) -> None:
        _close(opened)
        unfit = error.errno in OF_HOST
        self._post(SpawnFailed(order.task, order.attempt, _why(error), unfit=unfit))


def _why(error: OSError) -> str:
    return f"{error.strerror} ({error.filename})" if error.filename else f"{error.strerror}"


def _close(descriptors: Iterable[int]) -> None:
    for descriptor in descriptors:
        os.close(descriptor)
