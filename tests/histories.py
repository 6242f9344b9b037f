"""Histories: a machine with a clock and a backend of words, so that a test is events in and what was asked out."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar, cast

from clusterkit.job.options import GivenOptions, JobOptions
from clusterkit.job.spec import describe
from clusterkit.machine.core import Machine
from clusterkit.machine.history import RunHistory
from clusterkit.words import events as ev
from clusterkit.words.actions import (
    Action,
    Answer,
    Avoid,
    BeginProfile,
    CloseOutput,
    DumpStacks,
    EndProfile,
    Finish,
    Heal,
    HurrySteps,
    Inject,
    Inspect,
    Record,
    Refresh,
    Signal,
    Spawn,
    Sweep,
)
from clusterkit.words.errors import BadJob
from clusterkit.words.faults import Fault
from clusterkit.words.grammar import parse_fault
from clusterkit.words.job import JobSpec, Limits, RestartRules
from clusterkit.words.model import Program, ProgramKind, Task, TaskState, TaskType
from clusterkit.words.outcome import Exit, Failure, RunResult

SIGINT, SIGKILL, SIGTERM, SIGABRT, SIGSEGV = 2, 9, 15, 6, 11
HARMLESS = (10, 18, 19)  # SIGUSR1, for which tests have a handler, SIGCONT and SIGSTOP
BEGAN = 1000.0  # the clock of a history does not begin at 0, as monotonic clocks do not
E = TypeVar("E", bound=ev.Decided)


def job(
    workers: int = 0,
    ps: int = 0,
    chief: int | None = None,
    evaluator: int = 0,
    restart: RestartRules | None = None,
    limits: Limits | None = None,
    resume: str | None = None,
) -> JobSpec:
    """A job of so many tasks; a ps brings its chief."""
    chiefs = int(ps > 0) if chief is None else chief
    counts = {TaskType.CHIEF: chiefs, TaskType.WORKER: workers, TaskType.PS: ps, TaskType.EVALUATOR: evaluator}
    program = Program(ProgramKind.SCRIPT, "train.py")
    return JobSpec(program, counts, restart=restart or RestartRules(), limits=limits or Limits(), resume=resume)


def build_job(options: Mapping[str, Any], kind: ProgramKind) -> JobSpec:
    """The job that options describe. Raises BadJob with every problem."""
    built, problems, _ = describe(GivenOptions(cast(JobOptions, options)))
    if problems:
        raise BadJob(problems)
    return replace(built, program=replace(built.program, kind=kind))


def faults(*texts: str) -> tuple[Fault, ...]:
    """Faults as a job has them."""
    return tuple(map(parse_fault, texts))


def task(name: str) -> Task:
    """`worker:1` as a task."""
    return Task.parse(name)


@dataclass
class History:
    """Drives a machine. Answers what it asks at once, except to the tasks that a test makes stubborn."""

    job: JobSpec
    seed: int = 1
    now: float = BEGAN
    before: RunHistory = field(default_factory=RunHistory)
    machine: Machine = field(init=False)
    actions: list[tuple[float, Action]] = field(default_factory=list)
    attempts: dict[str, int] = field(default_factory=dict)  # the newest attempt of each task
    live: set[str] = field(default_factory=set)
    stubborn: set[str] = field(default_factory=set)  # they do not die of SIGTERM
    unreachable: set[str] = field(default_factory=set)  # they have exited when a signal comes; a test tells how
    polite: set[str] = field(default_factory=set)  # they answer SIGTERM with exit code 0
    reached: dict[str, list[int]] = field(default_factory=dict)  # the signals that came while a task lived
    listening: bool = True  # whether Inspect finds the tasks' ports open
    inbox: deque[ev.Happened] = field(default_factory=deque)
    clinging: set[str] = field(default_factory=set)  # something keeps their output open
    unswept: set[str] = field(default_factory=set)  # a test tells how their sweep ends
    unlooked: bool = False  # a test answers the looks that take long
    unspawnable: dict[str, str] = field(default_factory=dict)  # and the error
    vitals: dict[str, ev.Vitals] = field(default_factory=dict)  # of those that Inspect finds not as usual
    futile: dict[int, str] = field(default_factory=dict)  # faults that can't be injected, by number, and why
    unanswered: set[int] = field(default_factory=set)  # faults of which a test tells what came of them
    warming: bool = False  # a fork server is on its way: what is spawned waits for it
    forked: bool = False  # what is spawned is forked
    waiting: dict[Task, int] = field(default_factory=dict)  # and the attempts that do
    checkpoint: str | None = None  # what is in the checkpoint directory
    late_scan: bool = False  # what was found there is told by a test
    happened: list[tuple[float, ev.Happened]] = field(default_factory=list)
    observe: Callable[[ev.Event, float], None] = lambda event, now: None
    last_words: dict[str, tuple[tuple[str, ...], str | None]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.machine = Machine(self.job, self.seed, self.before)

    def begin(self) -> History:
        """Begin the run; every task is up after that, unless a fork server is on its way."""
        self.send(ev.Began())
        return self

    def send(self, event: ev.Happened) -> None:
        """Put an event in the inbox; take what is in it one by one, as the loop does, unless that is going on."""
        self.inbox.append(event)
        if len(self.inbox) > 1:
            return
        while self.inbox:
            self._handle(self.inbox[0])
            self.inbox.popleft()

    def _handle(self, event: ev.Happened) -> None:
        self.happened.append((self.now, event))
        self.observe(event, self.now)
        for action in self.machine.handle(event, self.now):
            self.actions.append((self.now, action))
            if isinstance(action, Record):
                self.observe(action.event, self.now)
            self._answer(action)

    def after(self, seconds: float) -> None:
        """Let time pass, with a tick at each of the machine's deadlines, as the loop does."""
        until = self.now + seconds
        while (deadline := self.machine.deadline()) is not None and deadline <= until:
            self.now = max(self.now, deadline)
            self.send(ev.Ticked())
        self.now = until

    def warms(self) -> None:
        """The fork server is ready: what waited for it is forked."""
        self._start_waiting(forked=True)

    def chills(self) -> None:
        """The fork server is gone: what waited for it starts cold."""
        self._start_waiting(forked=False)

    def _start_waiting(self, forked: bool) -> None:
        self.warming, self.forked = False, forked
        while self.waiting:
            self._spawn(*self.waiting.popitem())

    def exits(
        self, name: str, code: int | None = None, signal: int | None = None, exception: str | None = None
    ) -> None:
        """A task ends by itself: with an exit code, by a signal, or with 1 where it has an exception in its log."""
        assert name in self.live, f"{name} has no process that could exit"
        self.live.discard(name)
        if exception is not None:
            self.last_words[name] = ((exception,), exception)
            code = 1 if code is None and signal is None else code
        reached = tuple(self.reached.pop(name, ()))
        self.send(ev.Exited(task(name), self.attempts[name], Exit(code, signal), reached))

    def loses(self, host: str, *names: str) -> None:
        """A host is lost, with these tasks: what the backend says of each, and then of the host."""
        for name in names:
            if name in self.live:
                self.live.discard(name)
                self.send(ev.Exited(task(name), self.attempts[name], Exit(host=host)))
        self.send(ev.HostLost(host, "its agent is gone"))

    def progresses(self, name: str, step: int) -> None:
        """A task reports a step."""
        self.send(ev.Progressed(task(name), self.attempts[name], step))

    def checkpoints(self, name: str, step: int) -> None:
        """A task has written the checkpoint of a step."""
        self.checkpoint = f"ckpt-{step}"
        self.send(ev.Checkpointed(task(name), self.attempts[name], step, self.checkpoint))

    def resumes(self, name: str, step: int, path: str | None) -> None:
        """A task tells from where it goes on."""
        self.send(ev.Resumed(task(name), self.attempts[name], step, path))

    def asked(self, kind: type[Action]) -> list[Any]:
        """Every action of a kind so far."""
        return [action for _, action in self.actions if isinstance(action, kind)]

    def signals(self) -> list[tuple[float, str, int]]:
        """Every signal so far: seconds since the beginning, task and number."""
        signals = [(at, action) for at, action in self.actions if isinstance(action, Signal)]
        return [(round(at - BEGAN, 6), str(signal.task), signal.signal) for at, signal in signals]

    def spawn_times(self, name: str) -> list[float]:
        """When each attempt of a task was asked for, in seconds since the beginning."""
        return [at - BEGAN for at, a in self.actions if isinstance(a, Spawn) and a.task == task(name)]

    def decided(self, kind: type[E]) -> list[E]:
        """Every decision of a kind so far."""
        return [record.event for record in self.asked(Record) if isinstance(record.event, kind)]

    @property
    def warnings(self) -> list[str]:
        """The texts of the warnings so far, of stalls too."""
        kinds = ev.Warned | ev.Stalled
        return [record.event.text for record in self.asked(Record) if isinstance(record.event, kinds)]

    @property
    def failures(self) -> list[Failure]:
        """Every failure that the machine dealt with."""
        return [failed.failure for failed in self.decided(ev.Failed)]

    @property
    def over(self) -> bool:
        """Whether the machine has finished."""
        return bool(self.asked(Finish))

    @property
    def result(self) -> RunResult:
        """The end of the run, which has come, once."""
        (finish,) = self.asked(Finish)
        result: RunResult = finish.result
        return result

    def state(self, name: str) -> TaskState:
        """The state of a task."""
        return self.machine.state.records[task(name)].state

    def _answer(self, action: Action) -> None:
        match action:
            case Spawn(who, attempt, _) if self.warming:
                self.waiting[who] = attempt
            case Spawn(who, attempt, _):
                self._spawn(who, attempt)
            case Signal(who, attempt) if self.waiting.get(who) == attempt:
                del self.waiting[who]
                self.send(ev.SpawnFailed(who, attempt, ev.NEVER_STARTED))
            case Signal(who, _, number) if str(who) in self.live - self.unreachable:
                self._signal(str(who), number)
            case Sweep(who, attempt):
                if str(who) not in self.unswept:
                    self.send(ev.Swept(who, attempt))
                if str(who) not in self.clinging:
                    self._drained(who, attempt)
            case CloseOutput(who, attempt):
                self._drained(who, attempt)
            case Inspect(look) if self.unlooked and look is not ev.Look.GLANCE:
                pass
            case Inspect(look):
                usual = ev.Vitals(1, self.listening, "S")
                vitals = {name: self.vitals.get(name, usual) for name in sorted(self.live)}
                seen = {task(name): replace(of, attempt=self.attempts[name]) for name, of in vitals.items()}
                self.send(ev.Inspected(seen, look, None if look is ev.Look.GLANCE else f"{look}-1.txt"))
            case Inject(number) if number not in self.unanswered:
                self.send(ev.FaultTook(number, self.futile.get(number, "done"), number not in self.futile))
            case _:
                silent = Signal | Record | DumpStacks | Inject | Heal | HurrySteps | Answer | Finish
                assert isinstance(action, silent | BeginProfile | EndProfile | Avoid | Refresh)

    def _signal(self, name: str, number: int) -> None:
        self.reached.setdefault(name, []).append(number)
        if number == SIGTERM and name in self.polite:
            self.exits(name, code=0)
        elif number == SIGKILL or (number not in HARMLESS and name not in self.stubborn):
            self.exits(name, signal=number)

    def _spawn(self, who: Task, attempt: int) -> None:
        name = str(who)
        assert name not in self.live, f"two live attempts of {name}"
        self.attempts[name] = attempt
        if name in self.unspawnable:
            self.send(ev.SpawnFailed(who, attempt, self.unspawnable[name]))
            return
        self.live.add(name)
        self.send(ev.Spawned(who, attempt, f"pid {100 + len(self.actions)}", forked=self.forked))
        if self.checkpoint is not None and not self.late_scan and (attempt > 1 or self.job.resume):
            self.send(ev.CheckpointFound(who, attempt, self.checkpoint))

    def _drained(self, who: Task, attempt: int) -> None:
        tail, exception = self.last_words.pop(str(who), ((), None))
        self.send(ev.Drained(who, attempt, tail, exception))
