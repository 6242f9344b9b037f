"""Tasks as processes of this machine."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from clusterkit.backends.base import Post
from clusterkit.hands import procfs
from clusterkit.hands.checkpoints import newest_checkpoint
from clusterkit.hands.family import Ended, Family
from clusterkit.hands.logs import LogPump, Viewer
from clusterkit.hands.ports import Ports
from clusterkit.hands.process import STACKS_SIGNAL, Child, signal_group
from clusterkit.hands.rundir import RunDirectory
from clusterkit.hands.starts import Starts
from clusterkit.hands.sweep import WillNotDie
from clusterkit.hands.sweeper import Sweeper
from clusterkit.hands.watcher import Watcher
from clusterkit.rules.plan import TaskPlan, attempt_environment, plan_tasks
from clusterkit.words.events import Inspected, Spawned, SpawnFailed, StartsCold, StorageFailed, Vitals
from clusterkit.words.model import JobSpec, Task


class LocalBackend:
    """Spawns from the thread that calls it, which has to live as long as the run."""

    def __init__(
        self, job: JobSpec, directory: RunDirectory, ports: Ports, starts: Starts, post: Post, viewer: Viewer,
        ropes: Mapping[int, str],
    ) -> None:  # fmt: skip
        self._directory = directory
        self._ports = ports
        self._post = post
        self._family = Family(directory.run_id)
        self._sweeper = Sweeper(self._family, post)
        self._environ = dict(os.environ)
        self._starts = starts
        self._children: dict[Task, tuple[int, Child]] = {}
        self._waiting: dict[Task, tuple[int, str]] = {}  # attempts that start when there is a fork server
        self._plans = plan_tasks(job, ports.endpoints, directory.paths, sys.executable)
        self._resumes = bool(job.resume)
        self._logs = LogPump(post, viewer, directory.paths.arrivals)
        self._watcher = Watcher(post, {task: directory.paths.progress(task) for task in job.tasks}, ropes)

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
            signal_group(child, number)

    def sweep(self, task: Task, attempt: int) -> None:
        if child := self._child(task, attempt):
            del self._children[task]
            self._sweeper.sweep(Ended(task, attempt, child))

    def close_output(self, task: Task, attempt: int) -> None:
        self._logs.close(task, attempt)

    def inspect(self) -> None:
        listening = procfs.listening_ports()
        numbers = self._ports.numbers
        vitals = {}
        for task, (_, child) in self._children.items():
            seen = procfs.stat(child.pid)
            vitals[task] = Vitals(numbers.get(task) in listening, seen[0] if seen else "X")
        self._post(Inspected(vitals))

    def dump_stacks(self, why: str, tasks: Sequence[Task]) -> None:
        for task, (attempt, child) in self._children.items():
            if (not tasks or task in tasks) and procfs.catches(child.pid, STACKS_SIGNAL):
                with suppress(OSError), Path(self._directory.paths.stacks(task, attempt)).open("a") as file:
                    file.write(f"--- {task}, attempt {attempt}: {why}\n")
                with suppress(ProcessLookupError):
                    os.kill(child.pid, STACKS_SIGNAL)

    def shut(self) -> None:
        self._starts.stop()
        with suppress(WillNotDie):
            self._family.end_all()
        self._sweeper.stop()
        self._watcher.stop()
        self._logs.stop()
        self._ports.release()
        for dump in Path(self._directory.path, "stacks").iterdir():
            if dump.stat().st_size == 0:
                dump.unlink()

    def _start(self, task: Task, attempt: int, plan: TaskPlan, env: Mapping[str, str]) -> None:
        paths = self._directory.paths
        checkpoint = newest_checkpoint(paths.checkpoints) if attempt > 1 or self._resumes else None
        try:
            output = self._logs.open(task, attempt, paths.log(task, attempt))
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
        self._post(Spawned(task, attempt, child.pid, checkpoint))
        self._watcher.wait_for(task, attempt, child)

    def _child(self, task: Task, attempt: int) -> Child | None:
        known, child = self._children.get(task, (0, None))
        return child if known == attempt else None

    def _spawn(self, task: Task, attempt: int, plan: TaskPlan, env: Mapping[str, str], output: int) -> Child:
        server, why_cold = self._starts.server_for(plan, env)
        if why_cold:
            self._post(StartsCold(task, attempt, why_cold))
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
        stacks = os.open(self._directory.paths.stacks(task, attempt), flags, 0o600)
        try:
            return self._family.spawn(plan, env, output, stacks, server)
        finally:
            os.close(stacks)
