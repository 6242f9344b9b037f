"""Tasks as processes of this machine."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress

from clusterkit.backends.base import Post
from clusterkit.backends.local.family import Ended, Family
from clusterkit.backends.local.hang_inspector import HangInspector, Subject
from clusterkit.backends.local.logs import LogPump, Viewer
from clusterkit.backends.local.profiling import NOBODY, begin_profile, end_profile
from clusterkit.backends.local.resources import RunResources
from clusterkit.backends.local.scout import Scout
from clusterkit.backends.local.stacks import ask, dump_for
from clusterkit.backends.local.sweeper import Sweeper
from clusterkit.backends.local.watcher import Watcher
from clusterkit.faults.injector import Injector
from clusterkit.job.plan import Start, TaskPlan, attempt_environment, plan_tasks
from clusterkit.system import procfs
from clusterkit.system.ports import listening
from clusterkit.system.process import Child
from clusterkit.system.sweep import WillNotDie
from clusterkit.words.errors import CannotLook
from clusterkit.words.events import (
    Impaired,
    Inspected,
    Look,
    Profiled,
    Spawned,
    SpawnFailed,
    StartsCold,
    StorageFailed,
    Vitals,
)
from clusterkit.words.faults import Fault
from clusterkit.words.model import Task

END_WITHIN = 3.0  # seconds for what is left when no attempt lives


class LocalBackend:
    """Spawns from the thread that calls it, which has to live as long as the run."""

    def __init__(self, resources: RunResources, post: Post, viewer: Viewer) -> None:
        job, directory = resources.job, resources.directory
        self._directory = directory
        self._endpoints = resources.endpoints
        self._network = resources.network
        self._post = post
        self._family = Family(directory.run_id)
        self._sweeper = Sweeper(self._family, post)
        self._environ = dict(os.environ)
        self._starts = resources.starts
        self._children: dict[Task, tuple[int, Child]] = {}
        self._waiting: dict[Task, tuple[int, str]] = {}  # attempts that start when there is a fork server
        self._plans = plan_tasks(job, resources.endpoints, directory, sys.executable)
        self._resumes = bool(job.resume)
        self._injector = Injector(self._present, self._network, directory.checkpoints, resources.seed, post)
        self._inspector = HangInspector(directory, post)
        self._scout = Scout(directory.checkpoints, post)
        self._logs = LogPump(post, viewer, directory.arrivals)
        self._watcher = Watcher(post, {task: directory.progress(task) for task in job.tasks})

    def start(self, task: Task, attempt: int, reason: str) -> None:
        plan = self._plans[task]
        env = attempt_environment(self._environ, plan, attempt, reason)
        if self._starts.has_to_wait(plan, env):
            self._waiting[task] = (attempt, reason)
        else:
            self._start(task, attempt, plan, env)

    def start_waiting(self) -> None:
        self._starts.settle()
        waiting, self._waiting = self._waiting, {}
        for task, (attempt, reason) in waiting.items():
            self.start(task, attempt, reason)

    def withdraw(self, task: Task, attempt: int) -> None:
        if self._waiting.get(task, (0, ""))[0] == attempt:
            del self._waiting[task]
            self._post(SpawnFailed(task, attempt, "it was ended before it had started"))

    def signal(self, task: Task, attempt: int, number: int) -> None:
        if child := self._child(task, attempt):
            self._injector.signal(task, child, number)

    def sweep(self, task: Task, attempt: int) -> None:
        if child := self._child(task, attempt):
            del self._children[task]
            self._injector.forget(task)
            self._sweeper.sweep(Ended(task, attempt, child))

    def close_output(self, task: Task, attempt: int) -> None:
        self._logs.close(task, attempt)

    def inspect(self, look: Look, why: str) -> None:
        try:
            vitals = self._vitals()
        except CannotLook as error:
            self._post(Impaired(str(error)))
            self._post(Inspected({}, look))
            return
        if look is Look.GLANCE:
            self._post(Inspected(vitals))
            return
        ends, children = self._endpoints, self._children
        self._inspector.begin(look, why, [Subject(t, *children[t], vitals[t], ends.get(t)) for t in sorted(vitals)])

    def dump_stacks(self, why: str, tasks: Sequence[Task]) -> None:
        for task, (attempt, child) in self._children.items():
            if not tasks or task in tasks:
                ask(dump_for(self._directory, task, attempt, why), child.pid)

    def begin_profile(self, request: int, tasks: Sequence[Task], steps: int | None, seconds: float) -> None:
        for task in tasks:
            asked = begin_profile(self._directory.requests(task), request, steps, seconds)
            if not asked and task in self._children:
                self._post(Profiled(task, self._children[task][0], request, None, why=NOBODY))

    def end_profile(self, request: int, tasks: Sequence[Task]) -> None:
        for task in tasks:
            end_profile(self._directory.requests(task), request)

    def inject(self, number: int, fault: Fault, tasks: Sequence[Task], others: Sequence[Task]) -> None:
        self._injector.inject(number, fault, tasks, others)

    def heal(self, number: int) -> None:
        self._injector.heal(number)

    def hurry_steps(self) -> None:
        self._watcher.hurry()

    def shut(self) -> None:
        with ExitStack() as stack:  # from the last to the first, each whatever becomes of the others
            stack.callback(self._remove_empty_dumps)
            stack.callback(self._logs.stop)
            stack.callback(self._scout.stop)
            stack.callback(self._inspector.stop)
            stack.callback(self._watcher.stop)
            stack.callback(self._sweeper.stop)
            stack.callback(self._end_all)
            if self._network is not None:
                stack.callback(self._network.stop)  # in peace, so that it writes what it has captured
            stack.callback(self._starts.stop)
            stack.callback(self._injector.stop)  # while no process is reaped that it may have to let go on

    def _end_all(self) -> None:
        with suppress(WillNotDie):  # the guardian tries once more, and says so
            self._family.end_all(END_WITHIN)

    def _remove_empty_dumps(self) -> None:
        for dump in self._directory.all_stacks.iterdir():
            with suppress(FileNotFoundError):
                if dump.stat().st_size == 0:
                    dump.unlink()

    def _start(self, task: Task, attempt: int, plan: TaskPlan, env: Mapping[str, str]) -> None:
        moment = time.time()
        try:
            output = self._logs.open(task, attempt, self._directory.log(task, attempt))
        except OSError as error:
            self._post(StorageFailed(f"the log of {task} could not be made: {error.strerror} ({error.filename})"))
            self._post(SpawnFailed(task, attempt, "its log could not be made"))
            return
        try:
            child = self._spawn(task, attempt, plan, env, output)
        except OSError as error:
            self._post(SpawnFailed(task, attempt, f"{error.strerror} ({error.filename})"))
            return
        finally:
            os.close(output)
        self._children[task] = (attempt, child)
        self._post(Spawned(task, attempt, child.pid))
        if attempt > 1 or self._resumes:
            self._scout.look(task, attempt, moment)
        self._watcher.wait_for(task, attempt, child)

    def _vitals(self) -> dict[Task, Vitals]:
        pids = {task: child.pid for task, (_, child) in self._children.items()}
        listen = listening(self._endpoints, pids)
        states = {task: procfs.stat(pid) for task, pid in pids.items()}
        return {task: Vitals(task in listen, seen[0] if seen else "X") for task, seen in states.items()}

    def _present(self, task: Task) -> Child | None:
        return self._children.get(task, (0, None))[1]

    def _child(self, task: Task, attempt: int) -> Child | None:
        known, child = self._children.get(task, (0, None))
        return child if known == attempt else None

    def _spawn(self, task: Task, attempt: int, plan: TaskPlan, env: Mapping[str, str], output: int) -> Child:
        server, why_cold = self._starts.server_for(plan, env)
        if why_cold:
            self._post(StartsCold(task, attempt, why_cold))
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        stacks = os.open(self._directory.stacks(task, attempt), flags, 0o600)
        namespaces = () if self._network is None else self._network.namespaces(task)
        try:
            return self._family.spawn(Start(plan, env, output, stacks, namespaces), server)
        finally:
            os.close(stacks)
