"""The state machine's interface: takes one event, and returns the actions that follow from the event."""

from __future__ import annotations

from clusterkit.machine.alone import Alone
from clusterkit.machine.attempts import AttemptEvents
from clusterkit.machine.before import RunHistory
from clusterkit.machine.cluster_state import ClusterState
from clusterkit.machine.edits import Edits
from clusterkit.machine.ending import Ending, Verdict
from clusterkit.machine.exits import Exits
from clusterkit.machine.faults import FaultSchedule
from clusterkit.machine.held_starts import DelayedStarts, HeadStart
from clusterkit.machine.hosts import HostRecords
from clusterkit.machine.injections import Injections
from clusterkit.machine.recovery import Recoveries
from clusterkit.machine.requests import Requests
from clusterkit.machine.timers import Timer
from clusterkit.machine.watch import Silence, Watch
from clusterkit.words import events as ev
from clusterkit.words.actions import Action
from clusterkit.words.job import JobSpec
from clusterkit.words.outcome import Asked, RunState

ALLOCATIONS = 100  # the highest number of allocations of one run
SIGINT = 2


class Machine:
    """The cluster's state machine: a pure function of the job, the seed, the history, and the events so far.

    All times are in seconds of one monotonic clock, and never decrease.
    """

    def __init__(self, job: JobSpec, seed: int, before: RunHistory | None = None) -> None:
        self.state = ClusterState(job, seed, before or RunHistory())
        self.ending = Ending(self.state)
        self.hosts = HostRecords(self.state)
        self.recoveries = Recoveries(self.state, self.ending, self.hosts)
        self.edits = Edits(self.state, self.ending, self.recoveries)
        self.watch = Watch(self.state, self.ending)
        self.delayed_starts = DelayedStarts(self.state)
        self.head_start = HeadStart(self.state)
        self.state.holding = (self.delayed_starts.reasons, self.head_start.reasons)
        self.faults = FaultSchedule(self.state, self.ending, Injections(self.state, self.delayed_starts))
        injections = self.faults.injections
        self.exits = Exits(self.state, self.ending, self.recoveries, self.watch.stalls, injections)
        self.watch.left_judged = self.exits.judged
        self.ending.not_injected = self.faults.not_injected
        self.requests = Requests(self.state, self.ending, self.recoveries, self.faults)
        self.alone = Alone(self.state)
        self.attempts = AttemptEvents(
            self.state, self.ending, self.recoveries, self.watch, self.faults, self.exits, self.alone
        )
        self.ending.undistributed = self.alone.judge
        self.silence = Silence(self.state, self.ending, self.faults)
        self._interrupts = 0

    def handle(self, event: ev.Happened, now: float) -> list[Action]:
        """Process an event; return the resulting actions in order.

        Consequences of several events are settled after each event. Recoveries are decided before faults: a fault may
        wait for a restart and hold back one of its starts, so starts come after faults. The ending comes last, when
        nothing else can add work.
        """
        self.state.now, self.state.out = now, []
        self.state.timers.stood = self.state.holds.seconds(now)
        self._take(event)
        self.recoveries.settle()
        self.faults.settle()
        self.recoveries.respawn()
        self.head_start.settle()
        self.silence.settle()
        self.ending.settle(self.recoveries.restarts)
        return self.state.out

    def deadline(self) -> float | None:
        """Return when to send Ticked, unless another event arrives first."""
        times = (self.state.timers.next(), self.recoveries.next(), self.faults.next())
        return min((at for at in times if at is not None), default=None)

    def _take(self, event: ev.Happened) -> None:
        match event:
            case ev.Began():
                self._begin()
            case ev.Continued():
                self._continue(event)
            case ev.AllocationEnding(why, grace):
                self.ending.suspend(why, grace)
            case ev.Ticked():
                self._ticked()
            case ev.Profiled():
                self.requests.profiled(event)
            case ev.Inspected():
                self.watch.inspected(event)
                self.alone.looked(event.look)
            case ev.Interrupted():
                self._interrupted(event)
            case ev.Requested():
                self.requests.take(event)
            case ev.ProgramChanged():
                self.edits.changed(event)
            case ev.FaultTook():
                self.faults.injections.took(event)
            case ev.LifelineLost():
                self.ending.lose(f"{event.who} is gone, so everything was ended at once")
                self.ending.kill_all()
            case ev.Impaired():
                self.state.warn(event.what)
            case ev.DashboardLost():
                self.state.warn(f"The dashboard is not available: {event.why}. The run continues without it.")
            case ev.TensorBoardLost():
                self.state.warn(f"TensorBoard is not available: {event.why}. The run continues without it.")
            case ev.Crashed():
                self.ending.crashed(event, self.recoveries.restarts)
            case ev.StorageFailed():
                self.ending.fail(event.error)
            case ev.HostDraining(host):
                self.hosts.take(event)
                self._drained(host)
            case ev.Placed() | ev.HostJoined() | ev.HostCut() | ev.HostBack() | ev.HostLost():
                self.hosts.take(event)
            case ev.Noted() | ev.TensorBoardReady() | ev.DashboardReady():
                pass  # these events change nothing here
            case _:
                self._of_attempt(event)

    def _begin(self) -> None:
        self.state.began = self.state.now
        self._start("resume" if self.state.job.resume else "")

    def _continue(self, event: ev.Continued) -> None:
        """Start every task again from the newest checkpoint: all processes of the previous allocation are lost."""
        before = self.state.before
        self.recoveries.restarts = before.restarts
        self.faults.injections.count, self.faults.step = before.injected, before.step
        for ended in before.lost():
            self.state.note(ended)
        for number, fault in sorted(before.open.items()):
            why = "the allocation that it was injected in has ended"
            self.state.record(ev.FaultHealed(number, fault.fault, fault.action, fault.tasks, why))
        if before.done is not None:
            self.ending.verdict = Verdict(RunState.SUCCEEDED, 0, f"{before.done} exited with code 0")
        elif before.stopped is not None:
            self.ending.fail(f"{before.stopped}; its supervisor was lost before it had ended every task")
        elif event.allocation > ALLOCATIONS:
            self.ending.fail(f"it has had {ALLOCATIONS} allocations, as many as a run may have")
        else:
            self._start("continued")

    def _start(self, reason: str) -> None:
        if limit := self.state.job.limits.job:
            self.state.timers.set(Timer.JOB, max(self.state.now, self.state.now + limit - self.state.before.spent))
        self.faults.begin()
        self.state.spawn(self.state.job.tasks, reason)

    def _drained(self, host: str) -> None:
        """Move the tasks of a host that is about to leave, together with the tasks that restart with them."""
        there = self.state.alive(task for task, where in self.state.placed.items() if where == host)
        if self.ending.begun:
            for record in there:
                self.state.end(record, Asked.DRAIN, self.state.job.limits.grace)
        elif there:
            self.recoveries.asked({record.task for record in there}, host=host)

    def _of_attempt(self, event: ev.OfAttempt) -> None:
        if record := self.state.current(event.task, event.attempt):
            self.attempts.take(record, event)
            if isinstance(event, ev.Progressed) and record.task.trains:
                self.edits.progressed(record, event)

    def _ticked(self) -> None:
        for timer, task in self.state.timers.due(self.state.now):
            if timer is Timer.JOB:
                limit = self.state.job.limits.job
                self.ending.stop(RunState.TIMED_OUT, 124, f"the job took longer than its timeout of {limit:g} s")
            elif timer is Timer.FINISH:
                self.ending.leader_is_done()
            elif timer is Timer.HEAD_START:
                self.head_start.due()
            elif timer is Timer.STALL:
                self.watch.stalls.due()
            elif timer is Timer.LEFT:
                self.exits.due()
            elif timer is Timer.ALONE:
                self.alone.due()
            elif timer is Timer.PACE:
                self.watch.paces.due()
            elif timer is Timer.SILENCE:
                self.silence.due()
            elif timer is Timer.READINESS:
                self.faults.look()
            elif timer is Timer.EVALUATOR:
                for record in self.state.alive():
                    self.ending.evaluator_is_done(record)
            elif timer is Timer.LATE_START and task is not None:
                self.delayed_starts.due(task)
            elif task is not None:
                self.attempts.due(timer, self.state.records[task])

    def _interrupted(self, event: ev.Interrupted) -> None:
        self._interrupts += event.signal == SIGINT
        if self.ending.begun and event.signal == SIGINT and self._interrupts > 1:
            self.ending.kill_all()
        name = {1: "SIGHUP", 2: "SIGINT", 15: "SIGTERM"}.get(event.signal, f"signal {event.signal}")
        self.ending.stop(RunState.STOPPED, 128 + event.signal, f"clusterkit got {name}", event.signal == SIGINT)
