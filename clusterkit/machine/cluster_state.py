"""The state of the cluster: every task's record, the timers, and the actions that follow from the current event."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from clusterkit.machine.before import RunHistory
from clusterkit.machine.blame import looks_collateral
from clusterkit.machine.census import Census
from clusterkit.machine.timers import Holds, Timer, Timers
from clusterkit.words.actions import Action, Record, Signal, Spawn
from clusterkit.words.errors import ImpossibleTransition
from clusterkit.words.events import AttemptEnded, Changed, Decided, Paused, TrainsWith, Warned
from clusterkit.words.job import JobSpec
from clusterkit.words.model import ALIVE, SETTLED, TRANSITIONS, Task, TaskState
from clusterkit.words.outcome import Asked, Exit, Failure

SIGTERM, SIGKILL, SIGCONT, SIGSTOP = 15, 9, 18, 19
UNHANDLED_GRACE = 1.0  # seconds; the grace period of a task that does not handle SIGTERM
EDIT_GRACE = 1.0  # seconds; short, since the edited program will replace the result of the task's training
DEATH_WITHIN = 10.0  # seconds; the time that a process has to die after SIGKILL
HEAD_START = 0  # a reason for holding back the coordinator's start; other reasons are the numbers of faults
BY_HAND = 0  # the reason for pausing a task on request; other reasons are the numbers of faults, from 1


@dataclass(slots=True)
class TaskRecord:
    """The state of a task. A new attempt resets all fields except the number of the attempt."""

    task: Task
    state: TaskState = TaskState.WAITING
    attempt: int = 0
    held_by: set[int] = field(default_factory=set)  # reasons for holding back the next start: faults, HEAD_START
    held_reason: str = ""  # the value of CLUSTERKIT_RESTART_REASON in the held-back start
    where: str = ""  # the backend's name for the process
    forked: bool = False
    started: float = 0.0
    stood: float = 0.0  # the total time that tasks had spent in the debugger when the attempt started
    spawned: float | None = None  # when the process was created
    exit: Exit | None = None
    exited: float = 0.0
    asked: Asked | None = None
    grace: float = 0.0
    terminated: float | None = None  # when SIGTERM was last sent
    reached: tuple[int, ...] = ()  # the signals that were sent before the process exited
    sigterm_handled: bool = True  # assumed until the task reports it
    swept: bool = False
    drained: bool = False
    tail: tuple[str, ...] = ()
    exception: str | None = None
    ready: bool = False
    ready_at: float | None = None
    listened: bool = False  # True once the task's port was seen open
    trains_with: TrainsWith | None = None  # the last report of the task's runtime
    phases: dict[str, float] = field(default_factory=dict)  # the current phases without steps, and when each began
    paused_by: set[int] = field(default_factory=set)  # the reasons for the task's pause: faults, and BY_HAND
    first_step: int | None = None
    last_step: int | None = None
    resumed_step: int | None = None
    resumed_from: str | None = None
    checkpoint_found: str | None = None
    checkpoint_known: tuple[int, str] | None = None  # the newest checkpoint when the attempt began
    from_step: int | None = None  # the attempt's first step; None once the checkpoint is known

    @property
    def alive(self) -> bool:
        """Whether a process exists or was requested."""
        return self.state in ALIVE

    @property
    def is_untouched(self) -> bool:
        """Whether the task runs and was not asked to end."""
        return self.alive and self.asked is None

    @property
    def settled(self) -> bool:
        """Whether no process of the task is left, and the run need not wait for the task."""
        return self.state in SETTLED


class ClusterState:
    """The mutable state and the methods that change it, without any decisions."""

    def __init__(self, job: JobSpec, seed: int, before: RunHistory) -> None:
        self.job = job
        self.seed = seed
        self.before = before
        self.now = 0.0
        self.began = before.began or 0.0
        self.records = {task: TaskRecord(task, attempt=before.newest.get(task, 0)) for task in job.tasks}
        self.census = Census(job)
        self.holding: tuple[Callable[[Task], set[int]], ...] = ()  # functions that return reasons to hold back a start
        self.placed: Mapping[Task, str] = {}  # the host of each task; empty on one machine
        self.cut_off: set[str] = set()  # hosts without connection, which may come back or be lost
        self.kept_up: dict[Task, float] = {}  # servers that run until the coordinator is down; see ending.py
        self.paused: set[Task] = set()  # tasks that were paused, maybe in an earlier attempt
        self.slowed: set[Task] = set()  # tasks that a slow fault repeatedly stops for short times
        self.timers = Timers()
        self.holds = Holds()
        self.out: list[Action] = []
        self.attempts: dict[tuple[Task, int], AttemptEnded] = dict(before.ended)  # finished attempts
        self.progress_at: float | None = None
        self.stepped_at: float | None = None  # when training last made a new step
        self.newest_checkpoint = before.checkpoint
        self.metrics = dict(before.metrics)  # the newest metrics of each task
        self.problem = ""  # why the current files of the program can't run; empty if they can
        self.waiting = False  # True while the failed job, without running tasks, awaits a changed program
        self.known: tuple[Task, ...] = ()  # the workers that were given up before the leader started
        self._story: dict[Task, deque[str]] = {task: deque(maxlen=20) for task in job.tasks}

    def record(self, event: Decided) -> None:
        self.out.append(Record(event))

    def warn(self, text: str, task: Task | None = None) -> None:
        """Warn the user about something that does not stop the run."""
        self.record(Warned(text, task))

    def current(self, task: Task, attempt: int) -> TaskRecord | None:
        """Return the task's record, or None if the event belongs to an attempt that is over."""
        record = self.records.get(task)
        return record if record and record.attempt == attempt else None

    @property
    def is_leader_done(self) -> bool:
        """Whether the leader exited with code 0 by itself, and only its remaining processes and output are awaited."""
        leader = self.records[self.job.leader]
        ok = leader.exit is not None and leader.exit.ok
        return ok and leader.state is TaskState.DRAINING and not self.was_asked(leader)

    def was_asked(self, record: TaskRecord) -> bool:
        """Whether the task exited because the state machine ended it.

        A leader that exited with code 0 and was not reached by SIGTERM was done by itself: SIGKILL leads to no exit
        code, and a late signal has no effect. The loss of a host is never requested.
        """
        if record.exit is not None and record.exit.host is not None:
            return False
        ok = record.exit is not None and record.exit.ok
        done = ok and record.task == self.job.leader and SIGTERM not in record.reached
        return record.asked not in (None, Asked.STALL) and not done

    def failure(self, record: TaskRecord) -> Failure:
        """Return the current attempt, which has ended, as a failure."""
        assert record.exit is not None
        key = record.task, record.attempt
        fault = self.attempts[key].fault if key in self.attempts else None
        told = record.tail, record.exception, record.last_step, fault
        failure = Failure(record.task, record.attempt, record.exit, record.exited, *told)
        paused = (task for task in sorted(self.paused) if (fault or BY_HAND) in self.records[task].paused_by)
        return replace(failure, paused=tuple(paused)) if looks_collateral(failure) else failure

    def alive(self, tasks: Iterable[Task] | None = None) -> list[TaskRecord]:
        """Return the records of tasks with a process, among `tasks` or all tasks."""
        return [record for task in (self.records if tasks is None else tasks) if (record := self.records[task]).alive]

    def move(self, record: TaskRecord, state: TaskState) -> None:
        """Change a task's state. Raises ImpossibleTransition, with the task's history, if the change is not allowed."""
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
        """Continue the job without these workers. Only the end of their processes is awaited."""
        self.drop_held(tasks)
        for record in [self.records[task] for task in sorted(tasks)]:
            if record.alive:
                self.end(record, Asked.GANG, 0.0)
        self.census.give_up(tasks)
        self.job = replace(self.job, given_up=tuple(sorted({*self.job.given_up, *tasks})))

    def spawn(self, tasks: Collection[Task], reason: str) -> None:
        """Start tasks that have no process, servers first, since the coordinator's start may have to wait for servers.

        A start with reasons to hold it back takes place when the last reason is removed.
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
        # On one machine each task sees the newest checkpoint at once, maybe one that is newer than recorded here.
        newest = self.newest_checkpoint if self.job.hosts.count else None
        restore = None if newest is None else newest[1]
        self.out.append(Spawn(fresh.task, fresh.attempt, record.held_reason, restore, self.known))

    def end(self, record: TaskRecord, asked: Asked, grace: float) -> None:
        """End a task: SIGTERM now, then SIGKILL after `grace` seconds; with 0, SIGKILL now.

        The signals go to the whole process group, and the task is stopping until the whole group has ended. If nothing
        in the task handles SIGTERM, the grace period is cut to UNHANDLED_GRACE.
        """
        late = self.kept_up.pop(record.task, None) is not None
        if not record.sigterm_handled:
            grace = min(grace, UNHANDLED_GRACE)
        again, record.asked = record.asked is not None, record.asked or asked
        if record.state is TaskState.STARTING:
            # If the process exists already, it gets the signal again after Spawned.
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
        elif record.state is TaskState.STOPPING:  # with an earlier, maybe longer grace period
            if late:
                self.signal(record, SIGTERM)
            self.timers.hurry(Timer.KILL, self.now + grace, record.task)

    def end_for_edit(self, tasks: Iterable[Task]) -> None:
        """End tasks at once. A task that may handle SIGTERM gets a moment to save its state."""
        self.drop_held(tasks)
        for task in sorted(tasks):
            record = self.records[task]
            if record.alive:
                self.end(record, Asked.EDIT, EDIT_GRACE if record.sigterm_handled else 0.0)

    def close(self, record: TaskRecord, fault: int | None = None) -> None:
        """Record the end of the current attempt. `fault` is the number of the fault that explains a failure."""
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
        """Replace the recorded decision about a finished attempt."""
        key = attempt.task, attempt.attempt
        if self.attempts.get(key) != attempt:
            self.attempts[key] = attempt
            self.record(attempt)

    def pause(self, record: TaskRecord, by: int) -> None:
        """Pause a task until every fault or request that paused it has ended."""
        if not record.paused_by:
            self.signal(record, SIGSTOP)
            self.record(Paused(record.task, record.attempt, True))
        record.paused_by.add(by)
        self.paused.add(record.task)

    def unpause(self, record: TaskRecord, *by: int) -> None:
        """Remove these reasons for pausing the task, and let the task continue if none is left."""
        if record.paused_by.intersection(by):
            record.paused_by.difference_update(by)
            if not record.paused_by:
                self.signal(record, SIGCONT)
                self.record(Paused(record.task, record.attempt, False))

    def signal(self, record: TaskRecord, signal: int, grace: float = 0.0) -> None:
        """Send a signal to a task's process. With `grace`, the process group has that many seconds to end."""
        if signal == SIGTERM:
            record.terminated = self.now
        self.out.append(Signal(record.task, record.attempt, signal, grace))
        if signal == SIGKILL:
            self.timers.set(Timer.DEATH, self.now + DEATH_WITHIN, record.task)
