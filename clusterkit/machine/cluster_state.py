"""The state of the cluster: every task's record, the timers and the actions that the current event has led to."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from clusterkit.machine.before import Before
from clusterkit.machine.census import Census
from clusterkit.machine.timers import Holds, Timer, Timers
from clusterkit.words.actions import Action, Record, Signal, Spawn
from clusterkit.words.errors import ImpossibleTransition
from clusterkit.words.events import AttemptEnded, Changed, Decided, Paused, TrainsWith, Warned
from clusterkit.words.job import JobSpec
from clusterkit.words.model import ALIVE, SETTLED, TRANSITIONS, Task, TaskState
from clusterkit.words.outcome import Asked, Exit, Failure

SIGTERM, SIGKILL, SIGCONT, SIGSTOP = 15, 9, 18, 19
UNHANDLED_GRACE = 1.0  # seconds
EDIT_GRACE = 1.0  # seconds, where something in the task handles SIGTERM: what it trains is replaced
DEATH_WITHIN = 10.0  # seconds after SIGKILL
HEAD_START = 0  # a reason to hold back the coordinator's start; other reasons are the numbers of faults
BY_HAND = 0  # the reason for pausing a task on request; faults count from 1


@dataclass(slots=True)
class TaskRecord:
    """The state of a task; every field but the attempt's number is about the current attempt."""

    task: Task
    state: TaskState = TaskState.WAITING
    attempt: int = 0
    held_by: set[int] = field(default_factory=set)  # why the next start is held back: faults, and HEAD_START
    held_reason: str = ""  # the value of CLUSTERKIT_RESTART_REASON in the held-back start
    where: str = ""  # the backend's name for the process
    forked: bool = False
    started: float = 0.0
    stood: float = 0.0  # the total time that tasks had spent in the debugger when the attempt started
    spawned: float | None = None  # when its process existed
    exit: Exit | None = None
    exited: float = 0.0
    asked: Asked | None = None
    grace: float = 0.0
    terminated: float | None = None  # when SIGTERM was sent last
    reached: tuple[int, ...] = ()  # the signals that were sent before it exited
    sigterm_handled: bool = True  # assumed until the task reports it
    swept: bool = False
    drained: bool = False
    tail: tuple[str, ...] = ()
    exception: str | None = None
    ready: bool = False
    ready_at: float | None = None
    listened: bool = False  # its port was open
    trains_with: TrainsWith | None = None  # the last report of its runtime
    phases: dict[str, float] = field(default_factory=dict)  # current phases without steps, and when each began
    paused_by: set[int] = field(default_factory=set)  # the faults that stop it, and BY_HAND
    first_step: int | None = None
    last_step: int | None = None
    resumed_step: int | None = None
    resumed_from: str | None = None
    checkpoint_found: str | None = None
    checkpoint_known: tuple[int, str] | None = None  # the newest checkpoint when the attempt began
    from_step: int | None = None  # the step at which it began, until its checkpoint is known

    @property
    def alive(self) -> bool:
        """A process exists or was asked for."""
        return self.state in ALIVE

    @property
    def is_untouched(self) -> bool:
        """Whether the task runs and was not asked to end."""
        return self.alive and self.asked is None

    @property
    def settled(self) -> bool:
        """Whether no process of the task is left and nothing has to wait for the task."""
        return self.state in SETTLED


class ClusterState:
    """The mutable state and the methods that change it, without any decisions."""

    def __init__(self, job: JobSpec, seed: int, before: Before) -> None:
        self.job = job
        self.seed = seed
        self.before = before
        self.now = 0.0
        self.began = before.began or 0.0
        self.records = {task: TaskRecord(task, attempt=before.newest.get(task, 0)) for task in job.tasks}
        self.census = Census(job)
        self.holding: tuple[Callable[[Task], set[int]], ...] = ()  # return why to hold a start back
        self.placed: Mapping[Task, str] = {}  # the host of each task; empty on one machine
        self.cut_off: set[str] = set()  # hosts that may come back, or be lost
        self.kept_up: dict[Task, float] = {}  # see ending.py
        self.slowed: set[Task] = set()  # tasks that a slow fault stops again and again for moments
        self.timers = Timers()
        self.holds = Holds()
        self.out: list[Action] = []
        self.attempts: dict[tuple[Task, int], AttemptEnded] = dict(before.ended)  # the attempts that are over
        self.progress_at: float | None = None
        self.stepped_at: float | None = None  # when training last made a new step
        self.newest_checkpoint = before.checkpoint
        self.metrics = dict(before.metrics)  # the newest of each task
        self.problem = ""  # why the program's files can't run as they are now
        self.waiting = False  # the job failed, and waits for a change of its program: no task is alive for long
        self.known: tuple[Task, ...] = ()  # workers that were given up before the leader started
        self._story: dict[Task, deque[str]] = {task: deque(maxlen=20) for task in job.tasks}

    def record(self, event: Decided) -> None:
        """Add an action that records this decision."""
        self.out.append(Record(event))

    def warn(self, text: str, task: Task | None = None) -> None:
        """Tell the user something that does not stop the run."""
        self.record(Warned(text, task))

    def current(self, task: Task, attempt: int) -> TaskRecord | None:
        """Return the task's record, or None if the event belongs to an attempt that is over."""
        record = self.records.get(task)
        return record if record and record.attempt == attempt else None

    @property
    def is_leader_done(self) -> bool:
        """Whether the leader has exited with code 0 by itself, and only what it leaves behind is waited for."""
        leader = self.records[self.job.leader]
        ok = leader.exit is not None and leader.exit.ok
        return ok and leader.state is TaskState.DRAINING and not self.was_asked(leader)

    def was_asked(self, record: TaskRecord) -> bool:
        """Whether the exit answers a request of the machine's.

        The leader's code 0 does so only where SIGTERM reached it. SIGKILL is not answered with a code, and what comes
        too late reaches nobody: then the leader was done before. A host that is lost answers nothing.
        """
        if record.exit is not None and record.exit.host is not None:
            return False
        ok = record.exit is not None and record.exit.ok
        done = ok and record.task == self.job.leader and SIGTERM not in record.reached
        return record.asked not in (None, Asked.STALL) and not done

    def failure(self, record: TaskRecord) -> Failure:
        """The task's present attempt, which ended, as a failure."""
        assert record.exit is not None
        told = record.tail, record.exception, record.last_step
        return Failure(record.task, record.attempt, record.exit, record.exited, *told)

    def alive(self, tasks: Iterable[Task] | None = None) -> list[TaskRecord]:
        """Tasks with a process, of these or of all."""
        return [record for task in (self.records if tasks is None else tasks) if (record := self.records[task]).alive]

    def move(self, record: TaskRecord, state: TaskState) -> None:
        """Change a task's state. Raises an error with the task's history if the transition is not allowed."""
        story = self._story[record.task]
        story.append(f"{self.now:.3f} {record.state} -> {state} (attempt {record.attempt})")
        if state not in TRANSITIONS[record.state]:
            raise ImpossibleTransition(f"{record.task}:\n" + "\n".join(story))
        record.state = state
        well = record.exit is not None and record.exit.ok
        self.census.moved(record.task, state, record.forked, record.ready, well)
        asked = record.asked if state is TaskState.STOPPING else None
        self.record(Changed(record.task, record.attempt, state, asked))

    def give_up(self, tasks: Collection[Task]) -> None:
        """The job continues without these workers. Only the end of their processes is waited for."""
        self.drop_held(tasks)
        for record in [self.records[task] for task in sorted(tasks)]:
            if record.alive:
                self.end(record, Asked.GANG, 0.0)
        self.census.give_up(tasks)
        self.job = replace(self.job, given_up=tuple(sorted({*self.job.given_up, *tasks})))

    def spawn(self, tasks: Collection[Task], reason: str) -> None:
        """Start tasks that have no process, servers first: the coordinator's start may have to wait for theirs.

        Where there are reasons to hold a start back, it comes when the last of them is gone.
        """
        self.known = self.job.given_up if self.job.leader in tasks else self.known
        for task in sorted(tasks, key=lambda task: (not self.job.is_server(task), task)):
            record = self.records[task]
            if record.state is TaskState.DOWN:
                self.move(record, TaskState.WAITING)
            record.held_by = {why for reasons in self.holding for why in reasons(task)}
            record.held_reason = reason
            if not record.held_by:
                self._start(record)
            elif record.state is not TaskState.HELD:
                self.move(record, TaskState.HELD)

    def release(self, task: Task, *why: int) -> None:
        """Remove these reasons for holding back the task's start, and start the task if none is left."""
        record = self.records[task]
        record.held_by.difference_update(why)
        if record.state is TaskState.HELD and not record.held_by:
            self._start(record)

    def drop_held(self, tasks: Iterable[Task]) -> None:
        """Cancel the starts of these tasks that are held back."""
        for task in sorted(tasks):
            record = self.records[task]
            if record.state is TaskState.HELD:
                record.held_by.clear()
                self.move(record, TaskState.DOWN)

    def _start(self, record: TaskRecord) -> None:
        fresh = TaskRecord(record.task, record.state, record.attempt + 1, started=self.now, stood=self.timers.stood)
        self.records[record.task] = fresh
        self.move(fresh, TaskState.STARTING)
        self.known = self.job.given_up if fresh.task == self.job.leader else self.known
        # On one machine each task sees the newest checkpoint at once, and maybe a newer one.
        newest = self.newest_checkpoint if self.job.hosts.count else None
        restore = None if newest is None else newest[1]
        self.out.append(Spawn(fresh.task, fresh.attempt, record.held_reason, restore, self.known))

    def end(self, record: TaskRecord, asked: Asked, grace: float) -> None:
        """Ask a task to end: SIGTERM now and SIGKILL after `grace` seconds; SIGKILL now where that is 0.

        Both are for its whole process group, and it is stopping until all of that has ended.
        A task of which it is known that nothing in it handles SIGTERM gets a short grace period only.
        """
        late = self.kept_up.pop(record.task, None) is not None
        if not record.sigterm_handled:
            grace = min(grace, UNHANDLED_GRACE)
        again, record.asked = record.asked is not None, record.asked or asked
        if record.state is TaskState.STARTING:
            # A process that exists already gets the signal again.
            record.grace = min(record.grace, grace) if again else grace
            self.out.append(Signal(record.task, record.attempt, SIGTERM if grace > 0 else SIGKILL, max(0.0, grace)))
        if record.state is TaskState.RUNNING:
            self.move(record, TaskState.STOPPING)
            if grace > 0:
                self.signal(record, SIGTERM, grace)
                self.unpause(record, *record.paused_by)  # a stopped process can't handle SIGTERM
                self.timers.set(Timer.KILL, self.now + grace, record.task)
        if record.state is TaskState.STOPPING and grace <= 0:
            self.timers.clear(Timer.KILL, record.task)
            self.signal(record, SIGKILL)
        elif record.state is TaskState.STOPPING:  # it may have been stopping for a while, with a longer grace period
            if late:
                self.signal(record, SIGTERM)
            self.timers.hurry(Timer.KILL, self.now + grace, record.task)

    def end_for_edit(self, tasks: Iterable[Task]) -> None:
        """End tasks at once. Where something may handle SIGTERM, it gets a moment to save what it wants to keep."""
        self.drop_held(tasks)
        for task in sorted(tasks):
            record = self.records[task]
            if record.alive:
                self.end(record, Asked.EDIT, EDIT_GRACE if record.sigterm_handled else 0.0)

    def close(self, record: TaskRecord, fault: int | None = None) -> None:
        """Close the current attempt, which ended or was abandoned; the fault with this number explains its failure."""
        self.note(AttemptEnded(
            task=record.task,
            attempt=record.attempt,
            started=record.started - self.began,
            ended=None if record.exit is None else self.now - self.began,
            exit=record.exit,
            first_step=record.first_step,
            last_step=record.last_step,
            resumed_step=record.resumed_step,
            resumed_from=record.resumed_from,
            fault=fault,
        ))  # fmt: skip

    def note(self, attempt: AttemptEnded) -> None:
        """Replace the recorded decision about an attempt that is over."""
        key = attempt.task, attempt.attempt
        if self.attempts.get(key) != attempt:
            self.attempts[key] = attempt
            self.record(attempt)

    def pause(self, record: TaskRecord, by: int) -> None:
        """Stop a task until every fault or request that paused it has ended."""
        if not record.paused_by:
            self.signal(record, SIGSTOP)
            self.record(Paused(record.task, record.attempt, True))
        record.paused_by.add(by)

    def unpause(self, record: TaskRecord, *by: int) -> None:
        """Remove these reasons for pausing the task, and let the task continue if none is left."""
        if record.paused_by.intersection(by):
            record.paused_by.difference_update(by)
            if not record.paused_by:
                self.signal(record, SIGCONT)
                self.record(Paused(record.task, record.attempt, False))

    def signal(self, record: TaskRecord, signal: int, grace: float = 0.0) -> None:
        """Signal a task that has a process. With `grace` its group has that many seconds to end."""
        if signal == SIGTERM:
            record.terminated = self.now
        self.out.append(Signal(record.task, record.attempt, signal, grace))
        if signal == SIGKILL:
            self.timers.set(Timer.DEATH, self.now + DEATH_WITHIN, record.task)
