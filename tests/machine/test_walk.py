"""Random histories: whatever happens in whatever order, the machine keeps its promises and comes to an end."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest

from clusterkit.machine.core import Machine
from clusterkit.words import events as ev
from clusterkit.words.actions import Action, CloseOutput, Finish, Inspect, Record, Signal, Spawn, Sweep
from clusterkit.words.job import JobSpec, Limits, RestartPolicy, RestartRules, RestartScope
from clusterkit.words.model import Shape, Task, TaskState
from clusterkit.words.outcome import Asked, Exit, RunResult, RunState
from tests.histories import SIGINT, SIGKILL, SIGTERM, job

WALKS = 1600
STEPS = 200
EXITS = [Exit(code=0), Exit(code=1), Exit(signal=6), Exit(code=42), Exit(signal=9)]
SIGKILL_WORKS = 5.0  # seconds; a process that SIGKILL does not end is a history of its own
HOSTS = ("n1", "n2")  # where tasks are, in some walks
GIVE_UP = 2000  # events after the stop request by which a walk has to be over


@dataclass
class Process:
    """One attempt as a backend sees it."""

    attempt: int
    exists: bool = False
    cancelled: bool = False  # a signal came before it was started
    exited: bool = False
    drained: bool = False
    sweeping: bool = False
    killed: float | None = None  # when SIGKILL was sent
    reached: list[int] = field(default_factory=list)  # the signals that came while it lived


@dataclass
class Walk:
    """A machine and a backend that answers late, in any order that causality allows."""

    seed: int
    machine: Machine = field(init=False)
    now: float = 500.0
    processes: dict[Task, Process] = field(default_factory=dict)
    pending: list[Callable[[], ev.Happened]] = field(default_factory=list)
    finishes: int = 0
    done: bool = False  # the leader has exited with code 0 of itself
    given_up: set[Task] = field(default_factory=set)
    known: tuple[Task, ...] = ()  # those that the leader began without
    events: list[ev.Happened] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.spec = some_job(self.random)
        self.machine = Machine(self.spec, self.seed)
        self.handle(ev.Began())
        if self.seed % 3 == 2:
            self.handle(ev.Placed({task: self.random.choice(HOSTS) for task in self.spec.tasks}, {}))

    def handle(self, event: ev.Happened) -> None:
        """Give an event, check and carry out what comes of it."""
        self.events.append(event)
        for action in self.machine.handle(event, self.now):
            assert not self.finishes, f"{action} after the end"
            self.carry_out(action)
        self.check_that_nobody_is_forgotten()

    def check_that_nobody_is_forgotten(self) -> None:
        """What the machine has ended for a restart, it is going to start."""
        recoveries, records = self.machine.recoveries, self.machine.state.records.values()
        asked = (Asked.GANG, Asked.DRAIN)
        down = {record.task for record in records if record.state is TaskState.DOWN and record.end_request in asked}
        if not self.machine.ending.begun:
            assert not [task for task in down - self.given_up if not recoveries.is_restarting(task)]

    def carry_out(self, action: Action) -> None:
        """What a backend does; here are the promises."""
        match action:
            case Spawn(task, attempt):
                assert task not in self.given_up, f"{task} was given up"
                leads = task == self.machine.state.job.leader
                self.known = action.given_up if leads else self.known
                now = tuple(sorted(self.given_up))
                assert action.given_up in ((now,) if leads else (now, self.known)), f"{task} is in a cluster of its own"
                self.spawn(task, attempt)
            case Record(ev.Shrunk(tasks, left)):
                assert self.given_up.isdisjoint(tasks)
                assert len(left) >= (self.spec.restart.min_workers or 99)
                self.given_up.update(tasks)
            case Signal(task, attempt, number) if not self.processes[task].exists:
                process = self.processes[task]
                assert (process.attempt, process.exited) == (attempt, False), f"{action} is for no start"
                process.cancelled = number in (SIGTERM, SIGKILL) and self.random.random() < 0.5  # or Spawned crosses it
            case Signal(task, attempt, number):
                process = self.processes[task]
                assert process.attempt == attempt, f"{action} is for an attempt that is over"
                assert process.exited is False or process.sweeping is False, f"{action} after its exit was told"
                process.reached.append(number)
                if number == SIGKILL and process.killed is None:
                    process.killed = self.now
            case Sweep(task, attempt):
                process = self.processes[task]
                assert (process.attempt, process.exited, process.sweeping) == (attempt, True, False)
                process.sweeping = True
                self.pending.append(lambda: ev.Swept(task, attempt, left=self.random.choice((0, 0, 0, 1))))
            case CloseOutput(task, attempt):
                process = self.processes[task]
                assert process.attempt == attempt
                if not process.drained:
                    self.pending.append(lambda: self.drained(task))
            case Inspect(look):
                live = [task for task, process in self.processes.items() if self.lives(process)]
                seen = {task: self.vitals(task, look) for task in live}
                self.pending.append(lambda: ev.Inspected(seen, look))
            case Finish(result):
                self.finish(result)

    def finish(self, result: RunResult) -> None:
        """The end, once, with a result that says what was."""
        assert not any(self.lives(p) for p in self.processes.values()), "the end came before every exit"
        assert set(result.given_up) == self.given_up
        proved = 3 if result.reservations else 0
        assert (result.exit_code == proved) == (result.state is RunState.SUCCEEDED)
        if self.done and result.state is RunState.FAILED and (cause := result.cause):
            beside = self.spec.shape is Shape.MULTI_WORKER and cause.task != self.spec.leader
            assert beside, "its leader was done"
        self.finishes += 1

    def vitals(self, task: Task, look: ev.Look) -> ev.Vitals:
        """What is seen of a live task: anything, and of its pace now and then nothing."""
        letter, attempt = self.random.choice("SSSRTD"), self.processes[task].attempt
        if look is not ev.Look.PACE or self.random.random() < 0.1:
            return ev.Vitals(attempt, self.random.random() < 0.97, letter)
        stopped, busy = self.random.choice((0, 0, 12)), self.random.choice((0, 2, 16))
        cpu, delayed = self.random.choice((0.0, 1.5)), self.random.choice((0.0, 0.1, 9.0))
        pace = ev.Pace(16, stopped, min(busy, 16 - stopped), 4.0, cpu, delayed)
        return ev.Vitals(attempt, False, letter, pace=pace)

    def spawn(self, task: Task, attempt: int) -> None:
        """At most one live attempt, numbered without gaps."""
        before = self.processes.get(task)
        assert attempt == (before.attempt + 1 if before else 1)
        assert before is None or not self.lives(before), f"two live attempts of {task}"
        self.processes[task] = process = Process(attempt)

        def answer() -> ev.Happened:
            if process.cancelled or self.random.random() < 0.003:
                process.exited = True
                return ev.SpawnFailed(task, attempt, "no such file")
            process.exists = True
            return ev.Spawned(task, attempt, "pid 1", forked=self.random.random() < 0.5)

        self.pending.append(answer)

    def lives(self, process: Process) -> bool:
        """Whether there is a process that has not ended."""
        return process.exists and not process.exited

    def drained(self, task: Task) -> ev.Happened:
        """Its output is at the end; with what it died of, now and then."""
        process = self.processes[task]
        process.drained = True
        exception = self.random.choice((None, None, "UnavailableError: x", "ValueError: x"))
        return ev.Drained(task, process.attempt, (), exception)

    def step(self, calm: bool) -> None:
        """One thing happens. When it is calm, only what tasks that were told to end do, and time."""
        choice = self.random.random() * (1 if self.pending else 0.45) + (0 if self.pending else 0.55)
        deadline = self.machine.deadline()
        live = [task for task, process in self.processes.items() if self.lives(process)]
        killed = [(at, task) for task in live if (at := self.processes[task].killed) is not None]
        open_ = [t for t, p in self.processes.items() if p.exists and not p.drained and (p.exited or choice > 0.64)]
        if killed and min(killed)[0] < self.now - SIGKILL_WORKS:
            self.exit(min(killed)[1])
        elif self.pending and choice < 0.55:
            self.handle(self.pending.pop(self.random.randrange(len(self.pending)))())
        elif open_ and choice < 0.65:
            self.handle(self.drained(self.random.choice(open_)))
        elif deadline is not None and (choice < 0.67 or (not live and not self.pending and not open_)):
            if killed:
                self.exit(min(killed)[1])
                return
            self.now = max(self.now, deadline)
            self.handle(ev.Ticked())
        elif live and (calm or choice < 0.73):
            self.exit(self.random.choice(live))
        elif not calm:
            self.now += self.random.choice((0.0, 0.01, 0.5, 3.0))
            self.handle(self.some_news(live))

    def exit(self, task: Task) -> None:
        """A task ends, of SIGKILL where it got one."""
        process = self.processes[task]
        process.exited = True
        (own,) = self.random.choices(EXITS, (1, 8, 3, 2, 2))
        how = Exit(signal=9) if process.killed is not None else own
        unasked = SIGTERM not in process.reached and not self.machine.ending.begun
        self.done |= task == self.machine.state.job.leader and how.ok and unasked
        self.handle(ev.Exited(task, process.attempt, how, tuple(process.reached)))

    def some_news(self, live: list[Task]) -> ev.Happened:
        """A report of a live task or of one long gone, or a rare disaster."""
        if not live:
            return ev.Ticked()
        if self.random.random() < 0.01:
            rare: list[ev.Happened] = [
                ev.Interrupted(SIGINT),
                ev.Interrupted(SIGTERM),
                ev.LifelineLost(),
                ev.StorageFailed("full"),
            ]
            if self.machine.state.placement:
                rare += [ev.AllocationEnding("preempted", self.random.choice((1.0, 20.0)))]
                rare += [ev.HostDraining(host, "told to") for host in HOSTS for _ in range(2)]
            return self.random.choice(rare)
        task = self.random.choice(live)
        attempt = self.processes[task].attempt - self.random.choice((0, 0, 0, 1))
        number = self.random.randrange(100)
        news: list[ev.Happened] = [
            ev.Progressed(task, attempt, number),
            ev.Checkpointed(task, attempt, number, "c"),
            ev.Resumed(task, attempt, number, "c"),
            ev.Ready(task, attempt),
            ev.Exited(task, self.processes[task].attempt - 1, Exit(code=1)),
            ev.Swept(task, self.processes[task].attempt - 1),
        ]
        return self.random.choice(news)


def some_job(rng: random.Random) -> JobSpec:
    """A job of any shape under any rules."""
    rules = RestartRules(
        policy=rng.choice([*RestartPolicy, *[RestartPolicy.ON_FAILURE] * 5]),
        budget=rng.choice((0, 2, 20, 20)),
        scope=rng.choice([RestartScope.AUTO, RestartScope.AUTO, *RestartScope]),
        min_workers=rng.choice((None, 1, 2)),
    )
    limits = Limits(job=rng.choice((0, 0, 0, 0, 200)), stall=rng.choice((0, 20)), grace=rng.choice((0, 10)))
    workers, ps, chief = rng.choice([(1, 0, 0), (3, 0, 0), (4, 0, 0), (2, 0, 1), (2, 2, 1), (3, 1, 1), (0, 0, 1)])
    return job(workers, ps, chief, rng.choice((0, 1)), restart=rules, limits=limits)


@pytest.mark.slow
@pytest.mark.parametrize("block", [0, 1, *(pytest.param(block, marks=pytest.mark.long) for block in (2, 3))])
def test_random_histories_keep_every_promise_and_end(block: int) -> None:
    """Never two live attempts, never an impossible transition, no signal without a process, and one end."""
    for seed in range(block * WALKS // 4, (block + 1) * WALKS // 4):
        walk = Walk(seed)
        for _ in range(STEPS):
            if not walk.finishes:
                walk.step(calm=False)
        if not walk.finishes:
            walk.handle(ev.Interrupted(SIGTERM))
        for _ in range(GIVE_UP):
            if not walk.finishes:
                walk.step(calm=True)
        assert walk.finishes == 1, f"seed {seed} does not end: {walk.events[-20:]}"


def test_the_walks_go_everywhere() -> None:
    """The random histories would prove little if none of them restarted, failed or succeeded."""
    kinds: set[type] = set()
    attempts = shrunk = 0
    for seed in range(200):
        walk = Walk(seed)
        for _ in range(STEPS):
            if not walk.finishes:
                walk.step(calm=False)
        kinds |= {type(event) for event in walk.events}
        shrunk += bool(walk.given_up)
        attempts = max([attempts, *(process.attempt for process in walk.processes.values())])
    assert attempts >= 8
    assert shrunk >= 8
    assert kinds >= {ev.Exited, ev.Swept, ev.Drained, ev.SpawnFailed, ev.Inspected, ev.Ticked, ev.Interrupted}
