"""The state machine's interface: takes one event, and returns the actions that follow from the event."""

from __future__ import annotations

from clusterkit.machine.attempt_events import AttemptEvents
from clusterkit.machine.cluster_state import ClusterState
from clusterkit.machine.edits import Edits
from clusterkit.machine.ending import Ending, Verdict
from clusterkit.machine.exits import Exits
from clusterkit.machine.fault_schedule import FaultSchedule
from clusterkit.machine.held_starts import DelayedStarts, HeadStart
from clusterkit.machine.history import RunHistory
from clusterkit.machine.hosts import HostRecords
from clusterkit.machine.injections import Injections
from clusterkit.machine.monitors.job_timeout import JobTimeout
from clusterkit.machine.monitors.lone_training import LoneTraining
from clusterkit.machine.monitors.progress_monitor import ProgressMonitor, UnreportedSteps
from clusterkit.machine.recovery import Recoveries
from clusterkit.machine.requests import Requests
from clusterkit.machine.timers import Timer
from clusterkit.words import events as ev
from clusterkit.words.actions import Action
from clusterkit.words.job import JobSpec
from clusterkit.words.outcome import Asked, RunState
from clusterkit.words.reports import Look

ALLOCATIONS = 100  # the maximum number of allocations of a run
SIGINT = 2


class Machine:
    """The cluster's state machine: a pure function of the job, the seed, the history, and the events so far.

    All times are in seconds of one monotonic clock, so they never decrease.
    """

    def __init__(self, job: JobSpec, seed: int, history: RunHistory | None = None) -> None:
        self.state = ClusterState(job, seed, history or RunHistory())
        self.ending = Ending(self.state)
        self.hosts = HostRecords(self.state)
        self.recoveries = Recoveries(self.state, self.ending, self.hosts)
        self.edits = Edits(self.state, self.ending, self.recoveries)
        self.progress = ProgressMonitor(self.state, self.ending)
        self.job_timeout = JobTimeout(self.state, self.ending)
        self.delayed_starts = DelayedStarts(self.state)
        self.head_start = HeadStart(self.state)
        self.state.hold_rules = (self.delayed_starts.hold_reasons, self.head_start.hold_reasons)
        self.faults = FaultSchedule(self.state, self.ending, Injections(self.state, self.delayed_starts))
        injections = self.faults.injections
        self.exits = Exits(self.state, self.ending, self.recoveries, self.progress.stalls, injections)
        self.progress.explained_by_exits = self.exits.explains_stall
        self.progress.stalls.faults = injections.open_targets
        self.ending.not_injected = self.faults.not_injected
        self.requests = Requests(self.state, self.ending, self.recoveries, self.faults)
        self.lone_training = LoneTraining(self.state)
        self.attempts = AttemptEvents(
            self.state, self.ending, self.recoveries, self.progress, self.faults, self.exits, self.lone_training
        )
        self.ending.undistributed = self.lone_training.judge
        self.unreported_steps = UnreportedSteps(self.state, self.ending, self.faults)
        self._interrupt_count = 0

    def handle(self, event: ev.Happened, now: float) -> list[Action]:
        """Process an event; return the resulting actions in order.

        Decisions that depend on several events are made after each event. Recoveries come before faults, since a fault
        may wait for a restart. Faults come before the starts of tasks, since a fault may hold back a start. The ending
        comes last, when nothing else can add work.
        """
        self.state.now, self.state.actions = now, []
        self.state.timers.halted = self.state.full_holds.seconds(now)
        self.state.timers.held = self.state.holds.seconds(now)
        self._dispatch(event)
        self.recoveries.settle()
        self.faults.settle()
        self.recoveries.respawn()
        self.head_start.settle()
        self.unreported_steps.settle()
        self.ending.settle(self.recoveries.restarts)
        return self.state.actions

    def deadline(self) -> float | None:
        """Return when the event Ticked is due if no other event arrives first; None if no deadline is set."""
        times = (self.state.timers.next_deadline(), self.recoveries.next_deadline(), self.faults.next_deadline())
        return min((at for at in times if at is not None), default=None)

    def _dispatch(self, event: ev.Happened) -> None:
        match event:
            case ev.Began():
                self._begin(event)
            case ev.Continued():
                self._continue(event)
            case ev.AllocationEnding(why, grace):
                self.ending.suspend(why, grace)
            case ev.Ticked():
                self._ticked()
            case ev.Profiled():
                self.requests.profiled(event)
            case ev.Inspected():
                self._inspected(event)
            case ev.Interrupted():
                self._interrupted(event)
            case ev.Requested():
                self.requests.handle(event)
            case ev.ProgramChanged():
                self.edits.program_changed(event)
            case ev.FaultTook():
                self.faults.injections.reported(event)
            case ev.LifelineLost():
                self.ending.abandon(f"{event.who} is gone, so everything was ended at once")
                self.ending.kill_all()
            case ev.Impaired():
                self.progress.impaired(event)
            case ev.DashboardLost():
                self.state.warn(f"The dashboard is not available: {event.why}. The run continues without it.")
            case ev.TensorBoardLost():
                self.state.warn(f"TensorBoard is not available: {event.why}. The run continues without it.")
            case ev.Crashed():
                self.ending.crashed(event, self.recoveries.restarts)
            case ev.StorageFailed():
                self.ending.fail(event.error)
            case ev.HostDraining(host):
                self.hosts.handle(event)
                self._drain_host(host)
            case ev.Placed() | ev.HostJoined() | ev.HostCut() | ev.HostBack() | ev.HostLost():
                self.hosts.handle(event)
            case ev.Noted() | ev.TensorBoardReady() | ev.DashboardReady():
                pass  # these events do not change the state
            case _:
                self._of_attempt(event)

    def _inspected(self, event: ev.Inspected) -> None:
        if event.look is Look.TIMEOUT:
            self.job_timeout.inspected(event.vitals)
        else:
            self.progress.inspected(event)
            self.lone_training.inspected(event.look)

    def _begin(self, event: ev.Began) -> None:
        for text in event.warnings:
            self.state.warn(text)
        if event.verification is not None:
            self.ending.verification = event.verification
            self.state.record(ev.Verified(event.verification))
        self.state.began = self.state.now
        self._start("resume" if self.state.job.resume else "")

    def _continue(self, event: ev.Continued) -> None:
        """Start every task again from the newest checkpoint: all processes of the previous allocation are gone."""
        history = self.state.history
        self.recoveries.restarts = history.restarts
        self.faults.injections.count, self.faults.step = history.fault_count, history.step
        for ended in history.lost_attempts():
            self.state.update_attempt(ended)
        for number, fault in sorted(history.open_faults.items()):
            why = "the allocation that it was injected in has ended"
            self.state.record(ev.FaultHealed(number, fault.fault, fault.action, fault.tasks, why))
        if history.successful_task is not None:
            self.ending.verdict = Verdict(RunState.SUCCEEDED, 0, f"{history.successful_task} exited with code 0")
        elif history.stop_reason is not None:
            self.ending.fail(f"{history.stop_reason}; its supervisor was lost before it had ended every task")
        elif event.allocation > ALLOCATIONS:
            self.ending.fail(f"it has had {ALLOCATIONS} allocations, as many as a run may have")
        else:
            self._start("continued")

    def _start(self, reason: str) -> None:
        if limit := self.state.job.limits.job:
            self.state.timers.set(
                Timer.JOB, max(self.state.now, self.state.now + limit - self.state.history.seconds_spent)
            )
        self.faults.begin()
        self.state.spawn(self.state.job.tasks, reason)

    def _drain_host(self, host: str) -> None:
        """Move the tasks of a host that is about to leave, together with the tasks that restart with them."""
        on_host = self.state.alive(task for task, where in self.state.placement.items() if where == host)
        if self.ending.begun:
            for record in on_host:
                self.state.end(record, Asked.DRAIN, self.state.job.limits.grace)
        elif on_host:
            self.recoveries.request_restart({record.task for record in on_host}, host=host)

    def _of_attempt(self, event: ev.OfAttempt) -> None:
        if record := self.state.current(event.task, event.attempt):
            self.attempts.handle(record, event)
            if isinstance(event, ev.Progressed) and record.task.trains:
                self.edits.progressed(record, event)

    def _ticked(self) -> None:
        for timer, task in self.state.timers.pop_due(self.state.now):
            if timer is Timer.JOB:
                self.job_timeout.on_timer()
            elif timer is Timer.FINISH:
                self.ending.end_remaining_tasks()
            elif timer is Timer.HEAD_START:
                self.head_start.on_timer()
            elif timer is Timer.STALL:
                self.progress.stalls.on_timer()
            elif timer is Timer.EARLY_EXIT:
                self.exits.on_timer()
            elif timer is Timer.LONE_TRAINING:
                self.lone_training.on_timer()
            elif timer is Timer.STRAGGLER:
                self.progress.stragglers.on_timer()
            elif timer is Timer.UNREPORTED_STEPS:
                self.unreported_steps.on_timer()
            elif timer is Timer.READINESS:
                self.faults.check_readiness()
            elif timer is Timer.EVALUATOR:
                for record in self.state.alive():
                    self.ending.end_evaluator(record)
            elif timer is Timer.LATE_START and task is not None:
                self.delayed_starts.on_timer(task)
            elif task is not None:
                self.attempts.on_timer(timer, self.state.records[task])

    def _interrupted(self, event: ev.Interrupted) -> None:
        self._interrupt_count += event.signal == SIGINT
        if self.ending.begun and event.signal == SIGINT and self._interrupt_count > 1:
            self.ending.kill_all()
        name = {1: "SIGHUP", 2: "SIGINT", 15: "SIGTERM"}.get(event.signal, f"signal {event.signal}")
        self.ending.stop(RunState.STOPPED, 128 + event.signal, f"clusterkit got {name}", event.signal == SIGINT)
