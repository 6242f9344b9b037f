"""Handles events about an attempt, from its start until all its processes have ended and its output is complete."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import assert_never

from clusterkit.machine.cluster_state import BY_TERMINAL, KILL_TIMEOUT, SIGKILL, SIGTERM, ClusterState, TaskRecord
from clusterkit.machine.ending import Ending, end_kept_server
from clusterkit.machine.exits import Exits
from clusterkit.machine.fault_schedule import FaultSchedule
from clusterkit.machine.monitors.lone_training import LoneTraining
from clusterkit.machine.monitors.progress_monitor import ProgressMonitor
from clusterkit.machine.recovery import Recoveries
from clusterkit.machine.timers import HoldReason, Timer
from clusterkit.words import events as ev
from clusterkit.words.actions import CloseOutput, Sweep
from clusterkit.words.model import TaskState, number_of
from clusterkit.words.outcome import PREEMPTED, Asked, Exit


@dataclass(slots=True)
class AttemptEvents:
    """Handles the events of current attempts. Events of older attempts are discarded before they reach this class."""

    state: ClusterState
    ending: Ending
    recoveries: Recoveries
    progress: ProgressMonitor
    faults: FaultSchedule
    exits: Exits
    lone_training: LoneTraining

    def handle(self, record: TaskRecord, event: ev.OfAttempt) -> None:
        match event:
            case ev.Spawned():
                self._spawned(record, event)
            case ev.SpawnFailed():
                self._spawn_failed(record, event)
            case ev.Exited():
                self._exited(record, event)
            case ev.Swept():
                self._swept(record, event)
            case ev.Drained():
                self._drained(record, event)
            case ev.Progressed():
                self._progressed(record, event)
            case ev.Checkpointed():
                self.progress.checkpointed(record, event)
                self.faults.checkpointed()
            case ev.CheckpointFound():
                self.progress.checkpoint_found(record, event)
            case ev.Resumed():
                self.progress.resumed(record, event)
            case ev.Ready():
                self.progress.reported_ready(record)
            case ev.PhaseChanged():
                self.progress.phase_changed(record, event)
            case ev.PhaseReached():
                self.faults.phase_reached(event)
            case ev.StepsUnreported():
                self.progress.steps_unreported(record)
            case ev.ProgramEnds():
                self.exits.program_ends(record, event)
            case ev.InDebugger() | ev.EditorAwaited(waits=True):
                self.progress.debugger_entered(record)
            case ev.LeftDebugger():
                self.progress.debugger_left(record)
            case ev.EditorAwaited() | ev.Reached() | ev.Repaired():
                pass  # only readers of the journal use these events
            case ev.StepsTimed():
                self.progress.stragglers.add_step_times(event)
            case ev.TrainsWith():
                self.lone_training.trains_with(record, event)
            case ev.SigtermHandled():
                record.sigterm_handled = event.handled
            case _:
                assert_never(event)

    def on_timer(self, timer: Timer, record: TaskRecord) -> None:
        """Handle an expired deadline of the task."""
        if timer is Timer.KILL and record.task in self.state.kept_servers:
            end_kept_server(self.state, record.task)
        elif timer is Timer.KILL and record.state is TaskState.STOPPING:
            self.state.end(record, record.end_request or Asked.TEARDOWN, 0.0)
        elif timer is Timer.DEATH and record.alive:
            if self.state.placement.get(record.task) in self.state.cut_hosts:
                self._abandon_unreachable(record)
            else:
                self._abandon_unkillable(record)
        elif timer is Timer.DRAIN and not record.drained:
            self.state.actions.append(CloseOutput(record.task, record.attempt))
        elif timer is Timer.EXIT and record.is_not_ending:
            self.exits.exit_overdue(record)
        elif timer is Timer.STARTUP and record.alive and not record.ready:
            self.progress.startup_timer()

    def _spawned(self, record: TaskRecord, event: ev.Spawned) -> None:
        record.process_name, record.forked, record.spawned = event.where, event.forked, self.state.now
        self.state.move(record, TaskState.RUNNING)
        self.progress.spawned(record, event)
        if record.end_request is not None:
            self.state.end(record, record.end_request, record.grace)
        elif self.state.terminal_stopped:
            self.state.pause(record, BY_TERMINAL)

    def _spawn_failed(self, record: TaskRecord, event: ev.SpawnFailed) -> None:
        exit_ = Exit(error=event.error, unfit=event.unfit, unreached=event.unreached, crowded=event.crowded)
        exit_ = exit_ if event.host is None else Exit(host=event.host)
        record.exit, record.exited = replace(exit_, asked=record.end_request), self.state.now
        self._finish_attempt(record)

    def _exited(self, record: TaskRecord, event: ev.Exited) -> None:
        if not record.alive:
            return
        # The kernel counts out-of-memory kills for the whole host, so another process may have been the victim.
        starved = event.exit.out_of_memory and SIGKILL not in event.reached
        record.exit = replace(event.exit, asked=record.end_request, out_of_memory=starved)
        record.exited, record.signals = self.state.now, event.reached
        self._process_ended(record)
        self.state.actions.append(Sweep(record.task, record.attempt))

    def _process_ended(self, record: TaskRecord) -> None:
        """Clear the timers and pauses of a task whose first process has ended."""
        for timer in (Timer.KILL, Timer.DEATH, Timer.STARTUP, Timer.EXIT):
            self.state.timers.clear(timer, record.task)
        record.paused_by.clear()
        for reason in (HoldReason.PAUSE, HoldReason.TERMINAL):
            self.state.release_hold(record, reason)
        self.state.kept_servers.pop(record.task, None)
        if record.task == self.state.job.leader:
            for task in list(self.state.kept_servers):  # servers that were kept running for this task
                end_kept_server(self.state, task)
        self.faults.injections.exited(record)
        self.progress.stragglers.exited(record)
        self.progress.debugger_left(record)
        self.state.move(record, TaskState.DRAINING)

    def _abandon_unreachable(self, record: TaskRecord) -> None:
        """Stop waiting for a task whose host is cut off, since SIGKILL may not reach the task.

        This happens only while the run is ending. The host's agent ends its tasks by itself when its lease expires.
        """
        if not self.ending.begun:
            return
        record.exit = Exit(host=self.state.placement[record.task], asked=record.end_request)
        record.exited, record.swept, record.drained = self.state.now, True, True
        self._process_ended(record)
        self._finish_attempt(record)

    def _abandon_unkillable(self, record: TaskRecord) -> None:
        """Fail the job, and abandon a task that survived SIGKILL. The task still holds its port."""
        what = f"{record.task} ({record.process_name}) did not die within {KILL_TIMEOUT:g} s of SIGKILL"
        self.state.warn(
            f"{what}: a debugger holds it, or it waits in the kernel, for example for a disk or a network file system. "
            "It is left behind.",
            record.task,
        )
        record.swept = True
        self.ending.fail(what)
        if record.state is TaskState.RUNNING:
            self.state.move(record, TaskState.STOPPING)
        self._process_ended(record)
        if not record.drained:
            self.state.actions.append(CloseOutput(record.task, record.attempt))
        self._finish_attempt_when_clear(record)

    def _swept(self, record: TaskRecord, event: ev.Swept) -> None:
        record.swept = True
        if event.unseen:
            self.ending.fail(f"whether a process of {record.task} is left can't be seen ({event.unseen})")
        elif event.stuck:
            pids = ", ".join(map(str, event.stuck))
            self.ending.fail(f"processes of {record.task} do not die of SIGKILL (pid {pids}), so its port is not free")
        elif event.left:
            self.state.warn(
                f"{record.task} left {number_of('process', event.left)} behind, which clusterkit killed.", record.task
            )
        if not record.drained:
            self.state.timers.set(Timer.DRAIN, self.state.now + self.state.job.limits.drain, record.task)
        self._finish_attempt_when_clear(record)

    def _drained(self, record: TaskRecord, event: ev.Drained) -> None:
        record.drained, record.tail, record.exception = True, event.tail, event.exception
        self.state.timers.clear(Timer.DRAIN, record.task)
        self._finish_attempt_when_clear(record)

    def _finish_attempt_when_clear(self, record: TaskRecord) -> None:
        if record.swept and record.drained and record.state is TaskState.DRAINING:
            self._finish_attempt(record)

    def _finish_attempt(self, record: TaskRecord) -> None:
        self.state.move(record, TaskState.DOWN)
        asked, ok = self.state.was_ended_on_request(record), record.exit is not None and record.exit.ok
        is_peer = (self.ending.succeeded or self.ending.gang_failures) and record.task in self.exits.peers
        failed = not (asked or ok) and (is_peer or not self.ending.begun)
        self.state.close_attempt(record, self.faults.injections.fault_explaining(record) if failed else None)
        if failed and is_peer:
            self.exits.peer_failed(record)
        elif failed:
            self.recoveries.failed(record)
            self.exits.blame_early_exits(record)
        elif ok and not asked and self.ending.suspending and record.task == self.state.job.leader:
            self.ending.succeed(record)  # the leader finished before SIGTERM reached it
        elif self.ending.begun or self.state.awaits_change or asked:
            self.exits.peer_ended(record)
        elif record.task == self.state.job.leader:
            self.ending.succeed(record)
            self._warn_of_early_success(record)
            self.exits.leader_succeeded()
        else:
            self.exits.exited_early(record)

    def _warn_of_early_success(self, leader: TaskRecord) -> None:
        """Warn if the leader exited with code 0 soon after SIGTERM: it may have stopped before the job was done."""
        if leader.sigterm_at is None or SIGTERM not in leader.signals:
            return
        seconds = leader.exited - leader.sigterm_at
        if leader.end_request is None and seconds <= self.state.job.limits.grace:
            self.state.warn(
                f"{leader.task} exited with code 0 within {seconds:.1f} s of SIGTERM, so the job counts as done. If it "
                f"is not done, let the program exit with code {PREEMPTED} after SIGTERM: clusterkit then restarts it.",
                leader.task,
            )

    def _progressed(self, record: TaskRecord, event: ev.Progressed) -> None:
        first, record.steps_total = record.first_step is None, event.total
        self.progress.progressed(record, event)
        if first:
            self.lone_training.schedule_inspection(record)
        if record.task.trains:
            self.faults.progressed(event.step)
        if record.task == self.state.job.leader and "loss" in event.metrics:
            self.ending.loss_reported(event.step, event.metrics["loss"])
