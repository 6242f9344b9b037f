"""The local backend: runs tasks as processes on this machine."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Mapping
from contextlib import ExitStack, suppress
from functools import cached_property
from pathlib import PurePath
from signal import SIGCONT
from typing import TYPE_CHECKING, assert_never

from clusterkit.backends.local.family import AttemptProcess, ProcessFamily
from clusterkit.backends.local.logs import LogPump, Viewer
from clusterkit.backends.local.resources import SWITCH, claim_endpoints, network_for
from clusterkit.backends.local.spawner import Spawner, StartResources, plans_for
from clusterkit.backends.local.stacks import dump_for, remove_empty_dumps, request_dump
from clusterkit.backends.local.sweeper import Sweeper
from clusterkit.backends.local.watcher import EVERY, Watcher
from clusterkit.faults.aim import waits_for_steps
from clusterkit.faults.throttle import Throttle
from clusterkit.job.keras import patches_of
from clusterkit.store.directory import RunDirectory
from clusterkit.system import procfs
from clusterkit.system.files import open_fd
from clusterkit.system.inbox import Inbox
from clusterkit.system.ports import listening
from clusterkit.system.process import AttemptChild, on_child_end, signal_group
from clusterkit.system.sweep import ProcessesSurvived
from clusterkit.warm.starter import ForkServerSettings, WarmStarter
from clusterkit.words import actions as ac
from clusterkit.words.errors import CannotLook
from clusterkit.words.events import Impaired, Inspected, Look, Profiled, Spawned, Vitals
from clusterkit.words.job import JobSpec
from clusterkit.words.model import ProgramKind, Task
from clusterkit.words.outcome import SIGKILL, SIGTERM

if TYPE_CHECKING:  # many runs need none of these classes, so each is imported when it is first used
    from clusterkit.backends.local.checkpoint_finder import CheckpointFinder
    from clusterkit.backends.local.hang_inspector import HangInspector
    from clusterkit.backends.local.pace_inspector import PaceInspector
    from clusterkit.backends.local.step_reader import StepReader
    from clusterkit.faults.injector import Injector

END_WITHIN = 3.0  # seconds; the time limit for killing the remaining processes at the end of the run
NOT_LISTENING = (
    "its program does not use clusterkit.training (report, serve, Checkpointer or ReportProgress), "
    "or has not reached its first call yet"
)


class LocalBackend:
    """Runs tasks as child processes of the calling thread, which has to outlive the run. Random faults use `seed`."""

    def __init__(self, job: JobSpec, seed: int, inbox: Inbox, viewer: Viewer, warmth: ForkServerSettings) -> None:
        self._job = job
        self._seed = seed
        self._inbox = inbox
        self._post = inbox.put
        self._viewer = viewer
        self._warmth = warmth
        self._children: dict[Task, tuple[int, AttemptChild]] = {}
        self._own_tasks: set[Task] = set()
        self._steps: StepReader | None = None
        self._stack = ExitStack()

    def place(self, directory: RunDirectory) -> Mapping[Task, str]:
        self.open(directory)
        endpoints = self.claim(self._job.tasks)
        self.plan(endpoints)
        return endpoints

    def open(self, directory: RunDirectory) -> None:
        """Create the network and start the fork server and the threads; `shut` stops them in reverse order."""
        job, post, on_shut = self._job, self._post, self._stack.callback
        self._directory = directory
        # The fork server starts first because it takes the longest.
        self._warm_starter = WarmStarter(self._warmth, post, lambda: post(lambda: self._spawner.start_waiting()))
        on_shut(self._warm_starter.stop)
        self._network = network_for(job, directory, self._seed)
        if self._network is not None:
            on_shut(self._network.stop)
            self._inbox.watch(self._network.pidfd, SWITCH)
        on_shut(lambda: remove_empty_dumps(directory))
        self._logs = LogPump(post, self._handle_output, directory.arrivals)
        on_shut(self._logs.stop)
        self._family = ProcessFamily(directory.run_id)
        self._watcher = Watcher(post, self._family.in_grace)
        on_shut(self._watcher.stop)
        self._sweeper = Sweeper(self._family, post)
        on_shut(self._sweeper.stop)
        on_shut(on_child_end(self._sweeper.child_ended.ring))
        on_shut(self._end_all)
        if job.progress_regex:
            self._steps = self._step_reader(job.progress_regex)
            on_shut(self._steps.close)  # before `_end_all` kills the process that searches
        if self._network is not None:
            on_shut(self._network.stop)  # before `_end_all` kills the switch, which has to write captured packets first
        on_shut(self._warm_starter.stop)
        self._throttle = Throttle(self._child_of, post)
        on_shut(self._throttle.stop)  # before processes are reaped, since the throttle may have to resume them
        resources = StartResources(directory, self._logs, self._warm_starter, self._family, self._network)
        if job.program.kind is ProgramKind.COMMAND and any("stages" in patches_of(job, task) for task in job.tasks):
            from clusterkit.backends.local.unpatched import UnpatchedPrograms

            on_shut(UnpatchedPrograms(self.pids, self._watcher.has_reported, post).stop)
        self._spawner = Spawner(resources, job.hosts.count > 0, post, self._started)
        on_shut(self._spawner.finish)

    def claim(self, tasks: Iterable[Task]) -> dict[Task, str]:
        """Prepare to start tasks on this machine: create their directories and hold ports. Return their endpoints."""
        tasks = list(tasks)
        self._own_tasks |= set(tasks)
        for task in tasks:
            self._directory.add_task(task)
            self._watcher.listen(task, self._directory.progress(task))
        return claim_endpoints(self._job, tasks, self._stack)

    def plan(self, endpoints: Mapping[Task, str]) -> None:
        """Set the endpoints of all of the job's tasks, including those on other hosts."""
        self._endpoints = endpoints
        self._spawner.plans = plans_for(self._job, endpoints, self._directory, self._own_tasks)

    def do(self, order: ac.Order) -> None:
        if isinstance(order, ac.Spawn):
            if order.attempt > 1:
                self._watcher.begin_line(order.task)
            self._spawner.spawn(order)
            return
        self._spawner.finish()
        match order:
            case ac.Signal():
                self._signal(order)
            case ac.Sweep():
                self._sweep(order)
            case ac.CloseOutput(task, attempt):
                self._logs.close(task, attempt)
            case ac.Inspect():
                self._inspect(order)
            case ac.DumpStacks():
                self._dump_stacks(order)
            case ac.BeginProfile():
                self._begin_profile(order)
            case ac.EndProfile(request, tasks):
                for task in tasks:
                    send_request(self._directory.requests(task), do="end-profile", request=request)
            case ac.Inject(number, fault, tasks, others):
                self._injector.inject(number, fault, tasks, others)
            case ac.Heal(number):
                self._injector.heal(number)
            case ac.HurrySteps():
                self._watcher.read_often()
            case ac.Avoid():
                pass  # tasks can't move to another host
            case ac.Refresh(files, fresh):
                self._warm_starter.replace_outdated(self._job, self._directory, files)
                if fresh:
                    from clusterkit.backends.local.checkpoint_finder import start_afresh

                    self._post(start_afresh(self._directory.checkpoints))
            case _:
                assert_never(order)

    def pids(self) -> dict[Task, int]:
        """Return the pid of each task that has a process. May be called in any thread."""
        return {task: child.pid for task, (_, child) in self._children.copy().items()}

    def suspend(self) -> None:
        """Do nothing: a local run does not continue in another allocation."""

    def shut(self) -> None:
        """Stop every part of the backend, even if stopping another part raises an exception."""
        self._stack.close()

    def _step_reader(self, regex: str) -> StepReader:
        from clusterkit.backends.local.step_reader import StepReader

        reader = StepReader(regex, self._post, every=0.0 if waits_for_steps(self._job) else EVERY)
        reader.start()
        return reader

    @cached_property
    def _finder(self) -> CheckpointFinder:
        from clusterkit.backends.local.checkpoint_finder import CheckpointFinder

        finder = CheckpointFinder(self._directory.checkpoints, self._post)
        self._stack.callback(finder.stop)
        return finder

    @cached_property
    def _injector(self) -> Injector:
        from clusterkit.faults.injector import Injector

        injector = Injector(self._throttle, self._network, self._directory.checkpoints, self._seed, self._post)
        self._stack.callback(injector.stop)
        return injector

    @cached_property
    def _inspector(self) -> HangInspector:
        from clusterkit.backends.local.hang_inspector import HangInspector

        inspector = HangInspector(self._directory, self._post)
        self._stack.callback(inspector.stop)
        return inspector

    @cached_property
    def _pace_inspector(self) -> PaceInspector:
        from clusterkit.backends.local.pace_inspector import PaceInspector

        inspector = PaceInspector(self._post)
        self._stack.callback(inspector.stop)
        return inspector

    def _started(self, order: ac.Spawn, wall_time: float, child: AttemptChild) -> None:
        task, attempt = order.task, order.attempt
        self._children[task] = (attempt, child)
        self._post(Spawned(task, attempt, f"pid {child.pid}", forked=child.process is None))
        if attempt > 1 or self._job.resume:
            with suppress(ImportError):  # clusterkit was reinstalled meanwhile; training does not need the event
                self._finder.look(task, attempt, wall_time)
        self._watcher.wait_for(task, attempt, child)

    def _signal(self, order: ac.Signal) -> None:
        if self._spawner.withdraw(order.task, order.attempt):
            return  # the attempt's process had not been started yet
        if child := self._child(order.task, order.attempt):
            if order.grace or order.signal == SIGKILL:
                child.grace_until = time.monotonic() + order.grace if order.grace else 0.0
            self._throttle.signal(order.task, child, order.signal)
            if order.signal == SIGTERM and order.grace:  # somebody may have stopped the task; then it could not save
                signal_group(child, SIGCONT)

    def _sweep(self, order: ac.Sweep) -> None:
        if child := self._child(order.task, order.attempt):
            del self._children[order.task]
            self._throttle.forget(order.task)
            self._sweeper.sweep(AttemptProcess(order.task, order.attempt, child))

    def _inspect(self, order: ac.Inspect) -> None:
        try:
            self._begin_inspection(order)
        except (CannotLook, OSError, ImportError) as error:  # imports fail if clusterkit was reinstalled meanwhile
            why = f"The tasks can't be inspected: {error.strerror}." if isinstance(error, OSError) else str(error)
            self._post(Impaired(why))
            self._post(Inspected({}, order.look))

    def _begin_inspection(self, order: ac.Inspect) -> None:
        if order.look is Look.PACE:
            self._pace_inspector.begin(
                {task: (attempt, child.pid) for task, (attempt, child) in self._children.items()}
            )
            return
        vitals = self._vitals()
        if order.look is Look.GLANCE:
            self._post(Inspected(vitals))
            return
        from clusterkit.backends.local.hang_inspector import InspectedAttempt

        ends, children = self._endpoints, self._children
        subjects = [InspectedAttempt(task, *children[task], vitals[task], ends.get(task)) for task in sorted(vitals)]
        self._inspector.begin(order.look, order.why, subjects)

    def _dump_stacks(self, order: ac.DumpStacks) -> None:
        for task, (attempt, child) in self._children.items():
            if not order.tasks or task in order.tasks:
                request_dump(dump_for(self._directory, task, attempt, order.why), child.pid)

    def _begin_profile(self, order: ac.BeginProfile) -> None:
        for task in order.tasks:
            pipe = self._directory.requests(task)
            wanted = {"request": order.request, "steps": order.steps, "seconds": order.seconds}
            was_sent = send_request(pipe, do="profile", **wanted)
            if not was_sent and task in self._children:
                self._post(Profiled(task, self._children[task][0], order.request, None, why=NOT_LISTENING))

    def _handle_output(self, task: Task, attempt: int, chunk: bytes) -> None:
        self._viewer(task, attempt, chunk)
        if self._steps is not None:
            self._steps.feed(task, attempt, chunk)

    def _end_all(self) -> None:
        with suppress(ProcessesSurvived):  # the guardian tries again to kill the processes, and reports a failure
            self._family.end_all(END_WITHIN)

    def _vitals(self) -> dict[Task, Vitals]:
        pids = self.pids()
        listeners = listening(self._endpoints, pids)
        seen = {task: procfs.stat(pid) for task, pid in pids.items()}
        return {
            task: Vitals(attempt, task in listeners, state[0] if (state := seen[task]) else "X")
            for task, (attempt, _) in self._children.items()
        }

    def _child_of(self, task: Task) -> AttemptChild | None:
        return self._children.get(task, (0, None))[1]

    def _child(self, task: Task, attempt: int) -> AttemptChild | None:
        known, child = self._children.get(task, (0, None))
        return child if known == attempt else None


def send_request(pipe: PurePath, **request: object) -> bool:
    """Write a request to the named pipe that the training library reads; return whether writing succeeded."""
    # Opening fails if no task has the pipe open; writing fails if a stopped task has let the pipe fill with requests.
    with suppress(OSError), open_fd(pipe, os.O_WRONLY | os.O_NONBLOCK) as descriptor:
        os.write(descriptor, json.dumps(request).encode() + b"\n")
        return True
    return False
