"""A run on simulated hosts: the supervisor's loop with all that it feeds, driven by a script of what happens."""

from __future__ import annotations

import os
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple
from unittest import mock

from clusterkit.backends.hosts import backend as agents_backend
from clusterkit.backends.hosts.backend import AgentsBackend
from clusterkit.ledger.ledger import Ledger
from clusterkit.machine.core import Machine
from clusterkit.store.directory import RunDirectory
from clusterkit.supervisor.loop import Journal, Loop
from clusterkit.system.inbox import Inbox
from clusterkit.views.console import Console, Show
from clusterkit.views.narrate import Level, sentence
from clusterkit.words import events as ev
from clusterkit.words.account import RecoveryReport
from clusterkit.words.job import HostRequest, JobSpec, RestartRules
from clusterkit.words.model import Program, ProgramKind, TaskType
from clusterkit.words.outcome import RunResult
from tests.backends.hosts.simulated import SimulatedHosts

SEED = 1
TASKS_PER_HOST = 8
Milestone = tuple[type[ev.Event], int]  # an event, and how many of them there have to be from now on
Script = Callable[["SimulatedRun"], Iterator[Milestone]]


class Mark(NamedTuple):
    """A moment: seconds on the clock, of the supervisor's processor time in its two threads, and events so far."""

    at: float
    loop: float
    receiving: float
    events: int


def gang(hosts: int) -> JobSpec:
    """A mirrored job of eight workers on each host, with one spare host."""
    return _job(hosts, {TaskType.WORKER: TASKS_PER_HOST * hosts})


def servers(hosts: int) -> JobSpec:
    """A parameter-server job: on each host one ps and seven workers, and on the first one the coordinator for one."""
    workers = (TASKS_PER_HOST - 1) * hosts - 1
    return _job(hosts, {TaskType.CHIEF: 1, TaskType.WORKER: workers, TaskType.PS: hosts})


def _job(hosts: int, counts: dict[TaskType, int]) -> JobSpec:
    everyone = {kind: counts.get(kind, 0) for kind in TaskType}
    program = Program(ProgramKind.COMMAND, "train")
    return JobSpec(program, everyone, restart=RestartRules(), hosts=HostRequest(count=hosts, spare=1))


@dataclass
class SimulatedRun:
    """One run. `play` lets it happen; after that there are its result, its report and its marks."""

    place: Path
    job: JobSpec
    marks: dict[str, Mark] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.directory = RunDirectory(self.place / "runs" / "r-1")
        self.directory.make()
        self.hosts = SimulatedHosts(self.job.hosts.count + self.job.hosts.spare)
        self.counts = Counter[type[ev.Event]]()
        self.events = 0
        self.result: RunResult | None = None
        self.report: RecoveryReport | None = None

    def mark(self, name: str) -> None:
        """Note the moment under a name. For the loop's thread."""
        self.marks[name] = Mark(time.monotonic(), time.thread_time(), self.hosts.receiving, self.events)

    def play(self, script: Script) -> RunResult:
        """Run the job to its end. The script goes on at each milestone."""
        self._ledger, self._script = Ledger(self.job), script(self)
        with ExitStack() as stack:
            inbox = self.inbox = Inbox()
            stack.callback(inbox.close)
            nowhere = os.open(os.devnull, os.O_WRONLY)
            stack.callback(os.close, nowhere)
            self._console = Console(nowhere, self.job.tasks, Show())
            stack.callback(self._console.close)
            self._status_line = self._console.follow(self._ledger.run)
            backend = AgentsBackend(self.job, SEED, inbox, self._console.output, self.hosts)
            stack.callback(backend.shut)
            self.mark("begin")
            with mock.patch.object(agents_backend, "Listener", self.hosts.listener):
                backend.place(self.directory)
            self.mark("placed")
            self._journal = Journal(self.directory.journal, time.time, self._failed)
            stack.callback(self._journal.close)
            self._awaited = next(self._script)
            self.counts.clear()
            self.result = Loop(Machine(self.job, SEED), backend, inbox, self._observe, print).run()
            self.report = self._ledger.incidents.report()
            self.mark("over")
        self.mark("shut")
        return self.result

    def _observe(self, event: ev.Event, now: float) -> None:
        """What launch.py does for each event; then go on with the script, where this is its next milestone."""
        self._journal.write(event, now)
        with self._status_line:
            self._ledger.add(now, event, time.time())
        if (told := sentence(event)) is not None and told[0] >= Level.INFO:
            self._console.say(told[1])
        self.events += 1
        self.counts[type(event)] += 1
        kind, count = self._awaited
        if self.counts[kind] >= count:
            self.counts.clear()
            self._awaited = next(self._script, (ev.Began, 2))

    def _failed(self, error: str) -> None:
        raise AssertionError(error)


def life(steps: int) -> Script:
    """All start, report some steps, lose a host, start again, report once more, and end."""

    def script(run: SimulatedRun) -> Iterator[Milestone]:
        tasks = len(run.job.tasks)
        yield ev.Ready, tasks
        run.mark("started")
        yield from _reports(run, range(steps))
        run.mark("reported")
        run.hosts.lose(run.hosts.hosts[1])
        yield ev.HostLost, 1
        yield ev.Spawned, tasks
        run.mark("restarted")
        yield from _reports(run, range(steps, steps + 1))
        run.mark("ending")
        run.hosts.finish()

    return script


def _reports(run: SimulatedRun, steps: range) -> Iterator[Milestone]:
    """Each round when the one before it has been handled, so that nothing piles up."""
    for step in steps:
        run.hosts.progress(step)
        yield ev.Progressed, len(run.job.tasks)


def losing_the_first(run: SimulatedRun) -> Iterator[Milestone]:
    """All start, and then the first host is lost."""
    yield ev.Ready, len(run.job.tasks)
    run.hosts.lose(run.hosts.hosts[0])
