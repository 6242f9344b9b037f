"""The state of the cluster: every task's record, the timers, and the actions that follow from the current event."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace

from clusterkit.machine.blame import looks_collateral
from clusterkit.machine.census import Census
from clusterkit.machine.history import RunHistory
from clusterkit.machine.timers import HoldReason, Holds, Timer, Timers
from clusterkit.words.actions import Action, Record, Signal, Spawn
from clusterkit.words.errors import ImpossibleTransition
from clusterkit.words.events import AttemptEnded, Changed, Decided, Paused, TrainsWith, Warned
from clusterkit.words.job import JobSpec
from clusterkit.words.model import ALIVE, SETTLED, TRANSITIONS, Task, TaskState, TaskType
from clusterkit.words.outcome import Asked, Exit, Failure

SIGTERM, SIGKILL, SIGCONT, SIGSTOP = 15, 9, 18, 19
UNHANDLED_GRACE = 1.0  # seconds; the grace period of a task that does not handle SIGTERM
EDIT_GRACE = 1.0  # seconds; the grace period after an edit: short, since the edited program trains again
KILL_TIMEOUT = 10.0  # seconds; the time limit for a process to die after SIGKILL
HEAD_START = 0  # stands for HeadStart in `held_by`; all other numbers are faults' numbers, which begin at 1
ON_REQUEST = 0  # stands for a user's request in `paused_by`; all positive numbers are faults' numbers
BY_TERMINAL = -1  # stands for a stopped terminal in `paused_by`
_HOLDS = {ON_REQUEST: HoldReason.PAUSE, BY_TERMINAL: HoldReason.TERMINAL}  # the pauses that are no stall


@dataclass(slots=True)
class TaskRecord:
    """The state of a task. A new attempt resets all fields except the number of the attempt."""

    task: Task
    state: TaskState = TaskState.WAITING
    attempt: int = 0
    held_by: set[int] = field(default_factory=set)  # reasons for holding back the start: numbers of faults, HEAD_START
    held_reason: str = ""  # the value of CLUSTERKIT_RESTART_REASON for the start that is held back
    process_name: str = ""  # the backend's name for the process
    forked: bool = False
    started: float = 0.0
    suspended_before: float = 0.0  # the total time that tasks had been held when the attempt started
    spawned: float | None = None  # when the process was created
    exit: Exit | None = None
    exited: float = 0.0
    end_request: Asked | None = None
    grace: float = 0.0
    sigterm_at: float | None = None  # when SIGTERM was last sent
    signals: tuple[int, ...] = ()  # the signals that were sent before the process exited
    sigterm_handled: bool = True  # whether the task handles SIGTERM; assumed until the task reports otherwise
    swept: bool = False
    drained: bool = False
    tail: tuple[str, ...] = ()
    exception: str | None = None
    ready: bool = False
    ready_at: float | None = None
    port_was_open: bool = False  # True once the task's port was seen open
    trains_with: TrainsWith | None = None  # the latest report on how the task trains
    phases: dict[str, float] = field(default_factory=dict)  # the current phases without steps, and when each began
    paused_by: set[int] = field(
        default_factory=set
    )  # the reasons for pausing the task: faults, ON_REQUEST, BY_TERMINAL
    first_step: int | None = None
    last_step: int | None = None
    steps_total: int | None = None  # the total number of steps of the training, if the program reports it
    resumed_step: int | None = None
    resumed_from: str | None = None
    checkpoint_found: str | None = None
    checkpoint_known: tuple[int, str] | None = None  # the newest checkpoint when the attempt began
    checkpoints_known: Mapping[str, tuple[int, str]] = field(default_factory=dict)  # those of each directory
    unverified_step: int | None = None  # the step at which a restarted task began, while no checkpoint is known

    @property
    def alive(self) -> bool:
        """Return whether a process exists or was requested."""
        return self.state in ALIVE

    @property
    def is_not_ending(self) -> bool:
        """Return whether the task is running and has not been asked to end."""
        return self.alive and self.end_request is None

    @property
    def settled(self) -> bool:
        """Return whether no attempt of the task is in progress, so that the run need not wait for the task."""
        return self.state in SETTLED


class ClusterState:
    """The mutable state of the cluster, with the methods that change the state; decisions are made elsewhere."""

    def __init__(self, job: JobSpec, seed: int, history: RunHistory) -> None:
        self.job = job
        self.seed = seed
        self.history = history
        self.now = 0.0
        self.began = history.began or 0.0
        self.records = {task: TaskRecord(task, attempt=history.newest_attempts.get(task, 0)) for task in job.tasks}
        self.census = Census(job)
        self.hold_rules: tuple[Callable[[Task], set[int]], ...] = ()  # rules that return reasons to hold back a start
        self.placement: Mapping[Task, str] = {}  # the host of each task; empty on one machine
        self.cut_hosts: set[str] = set()  # disconnected hosts, which may reconnect or be lost
        self.kept_servers: dict[Task, float] = {}  # deadlines of servers that stay up until the coordinator is down
        self.terminal_stopped = False  # True while the terminal has stopped the run's command
        self.paused: set[Task] = set()  # tasks that were paused, maybe in an earlier attempt
        self.slowed: set[Task] = set()  # tasks that a slow fault repeatedly stops for short periods
        self.timers = Timers()
        self.full_holds = Holds()  # those that also suspend the job's own deadline: not pauses on request
        self.holds = Holds()  # the tasks that are held for any reason
        self.actions: list[Action] = []
        self.attempts: dict[tuple[Task, int], AttemptEnded] = dict(history.finished)  # finished attempts
        self.progress_at: float | None = None
        self.stepped_at: float | None = None  # when training last completed a new step
        self.newest_checkpoint = history.checkpoint
        # The newest checkpoint in each directory. A program may save in several ones, such as one for each `fit`.
        self.checkpoints: dict[str, tuple[int, str]] = {}
        if history.checkpoint is not None:
            self.checkpoints[directory_of(history.checkpoint[1])] = history.checkpoint
        self.metrics = dict(history.metrics)  # the newest metrics of each task
        self.program_problem = ""  # why the program's current files can't run; empty if they can
        self.awaits_change = False  # True if the job failed, no task runs, and the run waits for a changed program
        self.omitted: tuple[Task, ...] = ()  # the workers that were given up before the leader started
        self._transitions: dict[Task, deque[str]] = {task: deque(maxlen=20) for task in job.tasks}

    def record(self, event: Decided) -> None:
        self.actions.append(Record(event))

    def warn(self, text: str, task: Task | None = None) -> None:
        """Warn the user about something that does not stop the run."""
        self.record(Warned(text, task))

    def current(self, task: Task, attempt: int) -> TaskRecord | None:
        """Return the task's record, or None if `attempt` is not the task's current attempt."""
        record = self.records.get(task)
        return record if record and record.attempt == attempt else None

    @property
    def is_leader_done(self) -> bool:
        """Return whether the leader exited with code 0 by itself, but some of its processes or output remain."""
        leader = self.records[self.job.leader]
        ok = leader.exit is not None and leader.exit.ok
        return ok and leader.state is TaskState.DRAINING and not self.was_ended_on_request(leader)

    def was_ended_on_request(self, record: TaskRecord) -> bool:
        """Return whether the task exited because the state machine ended it.

        If a leader exits with code 0 and was never sent SIGTERM, it ended of its own accord, even if SIGKILL was sent:
        a process killed by SIGKILL has no exit code. A task that was lost with its host was not ended on request.
        """
        if record.exit is not None and record.exit.host is not None:
            return False
        ok = record.exit is not None and record.exit.ok
        done = ok and record.task == self.job.leader and SIGTERM not in record.signals
        return record.end_request not in (None, Asked.STALL) and not done

    def failure(self, record: TaskRecord) -> Failure:
        """Return a Failure for the task's current attempt, which must have ended."""
        assert record.exit is not None
        ended = self.attempts.get((record.task, record.attempt))
        output = record.tail, record.exception, record.last_step, ended.fault if ended else None
        failure = Failure(record.task, record.attempt, record.exit, record.exited, *output)
        paused = (one for one in sorted(self.paused) if (failure.fault or ON_REQUEST) in self.records[one].paused_by)
        return replace(failure, paused=tuple(paused)) if looks_collateral(failure) else failure

    def alive(self, tasks: Iterable[Task] | None = None) -> list[TaskRecord]:
        """Return the records of those tasks that have a process, among the given tasks or all tasks."""
        return [record for task in (self.records if tasks is None else tasks) if (record := self.records[task]).alive]

    def move(self, record: TaskRecord, state: TaskState) -> None:
        """Change a task's state. Raises ImpossibleTransition, with the task's history, if the change is not allowed."""
        transitions = self._transitions[record.task]
        transitions.append(f"{self.now:.3f} {record.state} -> {state} (attempt {record.attempt})")
        if state not in TRANSITIONS[record.state]:
            raise ImpossibleTransition(f"{record.task}:\n" + "\n".join(transitions))
        record.state = state
        ended_well = record.exit is not None and record.exit.ok
        self.census.moved(record.task, state, record.forked, record.ready, ended_well)
        request = record.end_request if state is TaskState.STOPPING else None
        self.record(Changed(record.task, record.attempt, state, request))

    def give_up(self, tasks: Collection[Task]) -> None:
        """Continue the job without these workers. The run still waits until the workers' processes have ended."""
        self.drop_held(tasks)
        for record in [self.records[task] for task in sorted(tasks)]:
            if record.alive:
                self.end(record, Asked.GANG, 0.0)
        self.census.give_up(tasks)
        self.job = replace(self.job, given_up=tuple(sorted({*self.job.given_up, *tasks})))

    def spawn(self, tasks: Collection[Task], reason: str) -> None:
        """Start tasks that have no process, servers first, since the coordinator's start may have to wait for servers.

        A start that is held back takes place when the last reason for holding it back is removed.
        """
        self.omitted = self.job.given_up if self.job.leader in tasks else self.omitted
        for task in sorted(tasks, key=lambda task: (not self.job.is_server(task), task)):
            record = self.records[task]
            if record.state is TaskState.DOWN:
                self.move(record, TaskState.WAITING)
            record.held_by = {why for reasons in self.hold_rules for why in reasons(task)}
            record.held_reason = reason
            if not record.held_by:
                self._start(record)
            elif record.state is not TaskState.HELD:
                self.move(record, TaskState.HELD)

    def release(self, task: Task, *reasons: int) -> None:
        """Remove these reasons for holding back the task's start, and start the task if none is left."""
        record = self.records[task]
        record.held_by.difference_update(reasons)
        if record.state is TaskState.HELD and not record.held_by:
            self._start(record)

    def drop_held(self, tasks: Iterable[Task]) -> None:
        for task in sorted(tasks):
            record = self.records[task]
            if record.state is TaskState.HELD:
                record.held_by.clear()
                self.move(record, TaskState.DOWN)

    def _start(self, record: TaskRecord) -> None:
        fresh = TaskRecord(
            record.task, record.state, record.attempt + 1, started=self.now, suspended_before=self.timers.held
        )
        self.records[record.task] = fresh
        self.move(fresh, TaskState.STARTING)
        self.omitted = self.job.given_up if fresh.task == self.job.leader else self.omitted
        # On one machine, each task finds the newest checkpoint itself, which may be newer than the one recorded here.
        restore = self.newest_checkpoint[1] if self.newest_checkpoint and self.job.hosts.count else None
        self.actions.append(Spawn(fresh.task, fresh.attempt, record.held_reason, restore, self.omitted))

    def end(self, record: TaskRecord, request: Asked, grace: float) -> None:
        """End a task: send SIGTERM now, and SIGKILL `grace` seconds later; if `grace` is 0, send SIGKILL now.

        The signals go to the whole process group, and the task counts as stopping until the whole group has ended. If
        nothing in the task handles SIGTERM, the grace period is cut to UNHANDLED_GRACE.
        """
        was_kept = self.kept_servers.pop(record.task, None) is not None
        if not record.sigterm_handled:
            grace = min(grace, UNHANDLED_GRACE)
        already_ending, record.end_request = record.end_request is not None, record.end_request or request
        if record.state is TaskState.STARTING:
            # If the process already exists, it receives the signal again after Spawned.
            record.grace = min(record.grace, grace) if already_ending else grace
            self.actions.append(Signal(record.task, record.attempt, SIGTERM if grace > 0 else SIGKILL, max(0.0, grace)))
        if record.state is TaskState.RUNNING:
            self.move(record, TaskState.STOPPING)
            if grace > 0:
                self.signal(record, SIGTERM, grace)
                self.unpause(record, *record.paused_by)  # a stopped process can't handle SIGTERM
                self.timers.set(Timer.KILL, self.now + grace, record.task)
        if record.state is TaskState.STOPPING and grace <= 0:
            self.timers.clear(Timer.KILL, record.task)
            self.signal(record, SIGKILL)
        elif record.state is TaskState.STOPPING:  # the task already has a grace period, maybe a longer one
            if was_kept:
                self.signal(record, SIGTERM, grace)
            self.timers.bring_forward(Timer.KILL, self.now + grace, record.task)

    def end_for_edit(self, tasks: Iterable[Task]) -> None:
        """End tasks at once. A task that may handle SIGTERM gets a moment to save its state."""
        self.drop_held(tasks)
        for task in sorted(tasks):
            record = self.records[task]
            if record.alive:
                self.end(record, Asked.EDIT, EDIT_GRACE if record.sigterm_handled else 0.0)

    def close_attempt(self, record: TaskRecord, fault: int | None = None) -> None:
        """Record the end of the current attempt. `fault` is the number of the fault that explains a failure."""
        self.update_attempt(AttemptEnded(
            task=record.task,
            attempt=record.attempt,
            started=record.started - self.began,
            ended=None if record.exit is None else self.now - self.began,
            exit=record.exit,
            first_step=record.first_step, last_step=record.last_step,
            resumed_step=record.resumed_step,
            resumed_from=record.resumed_from,
            fault=fault,
        ))  # fmt: skip

    def update_attempt(self, attempt: AttemptEnded) -> None:
        """Record the facts and decisions about a finished attempt, unless they are recorded already."""
        key = attempt.task, attempt.attempt
        if self.attempts.get(key) != attempt:
            self.attempts[key] = attempt
            self.record(attempt)

    def pause(self, record: TaskRecord, cause: int) -> None:
        """Pause a task until every fault or request that paused it has ended."""
        if not record.paused_by:
            self.signal(record, SIGSTOP)
            self.record(Paused(record.task, record.attempt, True, cause == BY_TERMINAL))
        record.paused_by.add(cause)
        self.paused.add(record.task)
        # Training does not wait for the evaluator.
        if cause in _HOLDS and record.task.type is not TaskType.EVALUATOR:
            self.hold(record, _HOLDS[cause])

    def unpause(self, record: TaskRecord, *causes: int) -> None:
        """Remove these reasons for pausing the task, and let the task continue if none is left."""
        if record.paused_by.intersection(causes):
            record.paused_by.difference_update(causes)
            for cause in causes:
                if cause in _HOLDS:
                    self.release_hold(record, _HOLDS[cause])
            if not record.paused_by:
                self.signal(record, SIGCONT)
                self.record(Paused(record.task, record.attempt, False, BY_TERMINAL in causes))

    def hold(self, record: TaskRecord, reason: HoldReason) -> None:
        """Expect no progress until the task is released: whoever debugs or pauses a task knows that it stands still."""
        self.holds.enter((reason, record.task), self.now)
        if reason is not HoldReason.PAUSE:
            self.full_holds.enter((reason, record.task), self.now)

    def release_hold(self, record: TaskRecord, reason: HoldReason) -> bool:
        """Return True if the task was held for this reason, and no task is held for any reason any more."""
        self.full_holds.leave((reason, record.task), self.now)
        return self.holds.leave((reason, record.task), self.now)

    def signal(self, record: TaskRecord, signal: int, grace: float = 0.0) -> None:
        """Send a signal to a task's process. With `grace`, the process group has that many seconds to end."""
        if signal == SIGTERM:
            record.sigterm_at = self.now
        self.actions.append(Signal(record.task, record.attempt, signal, grace))
        if signal == SIGKILL:
            self.timers.set(Timer.DEATH, self.now + KILL_TIMEOUT, record.task)


def directory_of(checkpoint: str) -> str:
    """Return the directory of a checkpoint's path."""
    return checkpoint.rpartition("/")[0]
