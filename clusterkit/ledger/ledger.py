"""The ledger: the state of a run, computed from all its events in one place, for all readers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import assert_never

from clusterkit.ledger.account import TimeAccount
from clusterkit.ledger.attempts import Attempts
from clusterkit.ledger.incident import Faults
from clusterkit.ledger.incidents import Incidents
from clusterkit.ledger.interruptions import Interruptions
from clusterkit.ledger.startup import StartupLog
from clusterkit.ledger.status import RunPhase, RunStatus, Stragglers
from clusterkit.ledger.subjects import OfFault, OfProgram, OfRun, OfTask, Unrecorded
from clusterkit.words import events as ev
from clusterkit.words.account import Account
from clusterkit.words.faults import FaultAction
from clusterkit.words.job import JobSpec
from clusterkit.words.model import Program, ProgramKind, Task, TaskState
from clusterkit.words.outcome import Exit
from clusterkit.words.reports import EDITOR, Stage

NO_JOB = JobSpec(Program(ProgramKind.SCRIPT, ""), {})  # the job of a run whose job.json can't be read


class Ledger:
    """The state of a run after the events so far, computed in the same way during and after the run.

    Readers use the parts of the ledger directly. A new kind of event is a type error in `add` until the event is
    handled here or is `Unrecorded`.
    """

    def __init__(self, job: JobSpec | None, endpoints: Mapping[Task, str] | None = None) -> None:
        self.job = NO_JOB if job is None else job
        self.began: float | None = None  # when the run began, on the clock of the events
        self.last_event_at = 0.0  # the time of the newest event; never decreases, even if the clock does
        self.seconds_spent = 0.0  # seconds spent in allocations, without the time between allocations
        self.faults = Faults()
        self.run = RunStatus(self.job.tasks, endpoints, self.faults)
        self.attempts = Attempts(self.job)
        self.incidents = Incidents(self.job, self.run, self.attempts, self.faults)
        self.time = TimeAccount(self.incidents)
        self.startup = StartupLog(self.job)
        self.stragglers = Stragglers()
        self.interruptions = Interruptions()

    @property
    def now(self) -> float:
        """Return the time of the newest event, in seconds since the run began."""
        return 0.0 if self.began is None else self.last_event_at - self.began

    def add(self, at: float, event: ev.Event, wall: float | None = None) -> None:
        """Add an event with its time on the run's clock, and its wall time; by default, both times are the same."""
        previous, wall = self.now, at if wall is None else wall
        self._advance(at, event)
        if isinstance(event, ev.Progressed):
            self._progressed(self.now, wall, event)
            return
        if isinstance(event, OfProgram):
            self._of_program(self.now, event)
        elif isinstance(event, OfTask):
            self._of_task(self.now, wall, event)
        elif isinstance(event, OfFault):
            self._of_fault(self.now, event)
        elif not isinstance(event, Unrecorded):
            self._of_run(self.now, wall, previous, event)
        self.interruptions.add(self.now, event)
        self.time.update_activity()

    def account(self, now: float | None = None) -> Account:
        """Return the account up to `now`, on the clock of the events; by default, up to the last event."""
        incidents = self.incidents.report()
        goodput = self.time.goodput(None if now is None else now - (self.began or 0.0))
        return Account(incidents.recoveries, incidents.faults, goodput, self.startup.report(), self.stragglers.report())

    def _advance(self, at: float, event: ev.Event) -> None:
        if self.began is None:
            self.began = self.last_event_at = self.run.clock_start = at
        elif not isinstance(event, ev.Began | ev.Continued):
            self.seconds_spent += max(0.0, at - self.last_event_at)
        self.last_event_at = max(at, self.last_event_at)
        self.time.advance(self.now)

    def _of_program(self, now: float, event: OfProgram) -> None:
        task, attempt = event.task, event.attempt
        status, trains = self.run.current(task, attempt), self.attempts.trains(task)
        match event:
            case ev.Checkpointed():
                self._mark_up(now, task, attempt)
                self.run.checkpoint, self.run.saved_at = (event.step, event.path), now
                self.attempts.save(now, task, attempt, event.step)
                if trains:
                    self.time.saved(event.step)
            case ev.Resumed() if event.path is None and self.attempts.has_restored(task, attempt):
                pass  # the program has restored a checkpoint, and now begins something else, such as a second `fit`
            case ev.Resumed():
                self.startup.reach(now, task, attempt, Stage.PREPARED, event.step)
                self.attempts.resume(now, task, attempt, event.step, event.path)
                if status is not None:
                    status.ready, status.resumed_step, status.last_reached_step = True, event.step, event.step
                    self.incidents.resumed(now, event)
                if event.path is not None and self.run.resumed_checkpoint is None:
                    self.run.resumed_checkpoint = (event.step, event.path)
                if trains:
                    self.time.prepared(event.step)
            case ev.Ready():
                self._mark_up(now, task, attempt)
                self.attempts.mark_up(now, task, attempt)
                self.startup.reach(now, task, attempt, Stage.SERVING)
            case ev.Reached():
                self.startup.reach(now, task, attempt, event.stage)
                if event.stage is Stage.PREPARED and trains:
                    self.time.prepared()
                elif event.stage is Stage.IMPORTED and trains:
                    self.time.imported(task)
            case ev.Repaired():
                self.attempts.repair(task, attempt, event.repair)
            case ev.PhaseChanged():
                if trains:
                    self.time.conditions.phase(task, event.phase, event.begun)
            case ev.ProgramEnds():
                if trains:
                    self.time.conditions.steps_complete = event.begun
            case _:
                assert_never(event)

    def _progressed(self, now: float, wall: float, event: ev.Progressed) -> None:
        task, attempt, step = event.task, event.attempt, event.step
        self.startup.reach(now, task, attempt, Stage.STEPPED, step)
        self.attempts.progress(now, task, attempt, step)
        if trains := self.attempts.trains(task):
            self.run.trained_step = step
        if (status := self.run.current(task, attempt)) is None:
            return
        is_new = status.progressed(wall, event)
        self.incidents.progressed(now, task, attempt, step)
        if trains:
            self.time.progressed(event)
            self.interruptions.step(now, self.incidents, is_new)

    def _mark_up(self, now: float, task: Task, attempt: int) -> None:
        if (status := self.run.current(task, attempt)) is not None:
            status.ready = True
        self.incidents.mark_up(now, task, attempt)

    def _of_task(self, now: float, wall: float, event: OfTask) -> None:
        if isinstance(event, ev.Failed):
            self.incidents.failed(now, event.failure)
            self.time.failed(event.failure.task)
            return
        task, attempt = event.task, event.attempt
        status = self.run.current(task, attempt)
        match event:
            case ev.Changed():
                self._changed(now, event)
            case ev.Spawned():
                self._spawned(now, wall, event)
            case ev.SpawnFailed():
                self.startup.exited(task, attempt)
                self.attempts.exited(now, task, attempt, Exit(error=event.error))
                # If a restart was requested before the process existed, nothing has failed.
                self.time.exited(task, ok=self.run.is_restart_planned(task))
            case ev.Exited():
                self.startup.exited(task, attempt)
                self.attempts.exited(now, task, attempt, event.exit)
                self.stragglers.end(now, task)
                if status is not None:
                    status.exited(event.exit)
                    self.time.exited(task, event.exit.ok)
            case ev.AttemptEnded():
                self._ended(event)
            case ev.Paused():
                self.attempts.pause(now, task, attempt, event.paused)
                self.time.conditions.pause(task, event.paused)
                if status is not None:
                    status.paused = event.paused
            case ev.InDebugger() | ev.LeftDebugger() | ev.EditorAwaited():
                self._of_debugger(event)
            case ev.Straggling():
                straggler = self.stragglers.begin(now, event)
                if status is not None:
                    status.straggling = straggler
            case ev.KeepsUp():
                self.stragglers.end(now, task)
                if status is not None:
                    status.straggling = None
            case _:
                assert_never(event)

    def _changed(self, now: float, event: ev.Changed) -> None:
        if (status := self.run.current(event.task, event.attempt)) is not None:
            if event.attempt > status.attempt:
                status.begin(event.attempt)
            status.state, status.end_request = event.state, event.asked
        if event.state in (TaskState.WAITING, TaskState.HELD, TaskState.STARTING):
            self.run.restarting(event.task)
        if event.state is TaskState.STARTING:
            self.attempts.begin(now, event.task, event.attempt).start_recorded = True
            self.startup.reach(now, event.task, event.attempt, Stage.BEGUN)
        elif event.state is TaskState.STOPPING:
            self.time.conditions.task_ends(event.task)

    def _spawned(self, now: float, wall: float, event: ev.Spawned) -> None:
        task, attempt, reached = event.task, event.attempt, None
        self.run.restarting(task)
        if (status := self.run.current(task, attempt)) is not None:
            if attempt > status.attempt:
                status.begin(attempt)
            status.state, status.pid, status.started = TaskState.RUNNING, event.pid, wall
            reached, status.last_reached_step = status.last_reached_step, None
        self.startup.spawned(now, task, attempt, event.forked)
        self.attempts.begin(now, task, attempt)
        self.incidents.spawned(now, task, attempt, reached)
        self.time.spawned(task, self.attempts.trains(task))

    def _ended(self, event: ev.AttemptEnded) -> None:
        previous = self.attempts.fault_of.get(key := (event.task, event.attempt))
        self.attempts.attempt_ended(event)
        if previous != event.fault:
            self.incidents.explain(key, event.fault)
        if event.exit is not None and (status := self.run.current(*key)) is not None:
            status.last_exit = event.exit

    def _of_debugger(self, event: ev.InDebugger | ev.LeftDebugger | ev.EditorAwaited) -> None:
        status = self.run.current(event.task, event.attempt)
        if isinstance(event, ev.EditorAwaited):
            if event.waits and status is not None:
                status.debugger = EDITOR
            return
        place = event.place if isinstance(event, ev.InDebugger) else None
        if not (isinstance(event, ev.InDebugger) and event.editor):
            self.time.conditions.pause(event.task, place is not None)
        if status is not None:
            status.debugger = place

    def _of_fault(self, now: float, event: OfFault) -> None:
        match event:
            case ev.FaultInjected():
                self.faults.inject(now, event)
                if event.action is FaultAction.PARTITION:
                    self.time.conditions.partition(event.number, event.fault)
            case ev.FaultTook():
                self.faults.injection_reported(event.number, event.detail, event.done)
            case ev.FaultHealed():
                self.faults.heal(now, event.number, event.why)
                self.time.conditions.heal(event.number)
            case _:
                assert_never(event)

    def _of_run(self, now: float, wall: float, previous: float, event: OfRun) -> None:
        match event:
            case ev.Began():
                self.run.began_at, self.run.phase = wall, RunPhase.RUNNING
                self.run.allocations += 1
            case ev.Continued():
                self._continued(now, previous, event.allocation)
            case ev.RestartPlanned():
                self.run.plan_restart(event.tasks)
                self.incidents.planned(now, event)
                self.time.planned(event.tasks)
            case ev.Shrunk():
                self.run.give_up(event.tasks)
                self.incidents.shrunk(event)
            case ev.WaitsForChange():
                self.run.phase, self.run.reason = RunPhase.WAITING, event.reason
            case ev.Stalled():
                self.incidents.stall(now)
                self.faults.stall(now)
                self.attempts.stall(event.text)
                self.time.stalled(event.task)
            case ev.Succeeded():
                self.run.succeed(event.task)
                self.time.run_ends(event)
            case ev.Stopping():
                self.run.stop(event)
                self.time.run_ends(event)
            case ev.Interrupted():  # a second interrupt ends the wait for tasks
                self.run.awaited_tasks = ()
            case ev.LifelineLost():
                self.run.orphaned = True
            case ev.Finished():
                self.run.finish(event.result)
                self.attempts.run_finished(now, event.result)
                self.incidents.finish(now, event.result)
                self.time.run_ends(event)
            case ev.Placed():
                self.run.place(event.hosts, event.endpoints)
            case ev.Requested():
                self.attempts.request(event)
            case _:
                assert_never(event)

    def _continued(self, now: float, previous: float, allocation: int) -> None:
        self.run.resume()
        self.attempts.all_lost(now)
        self.stragglers.all_lost(now)
        self.incidents.continued(now, previous, allocation)
        self.time.continued(self.job.tasks)


def ledger_of(job: JobSpec | None, events: Iterable[tuple[float, ev.Event]]) -> Ledger:
    ledger = Ledger(job)
    for at, event in events:
        ledger.add(at, event)
    return ledger
