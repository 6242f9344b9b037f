"""Handles the events of attempts, from the start of a process until nothing of the process is left."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import assert_never

from clusterkit.machine.alone import Alone
from clusterkit.machine.cluster_state import DEATH_WITHIN, SIGKILL, SIGTERM, ClusterState, TaskRecord
from clusterkit.machine.ending import Ending, end_server
from clusterkit.machine.exits import Exits
from clusterkit.machine.faults import FaultSchedule
from clusterkit.machine.recovery import Recoveries
from clusterkit.machine.timers import Timer
from clusterkit.machine.watch import Watch
from clusterkit.words import events as ev
from clusterkit.words.actions import CloseOutput, Sweep
from clusterkit.words.model import TaskState, number_of
from clusterkit.words.outcome import PREEMPTED, Asked, Exit


@dataclass(slots=True)
class AttemptEvents:
    """Handles the events of current attempts. Events of older attempts are filtered out earlier."""

    state: ClusterState
    ending: Ending
    recoveries: Recoveries
    watch: Watch
    faults: FaultSchedule
    exits: Exits
    alone: Alone

    def take(self, record: TaskRecord, event: ev.OfAttempt) -> None:
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
                self.watch.checkpointed(record, event)
                self.faults.checkpointed()
            case ev.CheckpointFound():
                self.watch.checkpoint_found(record, event)
            case ev.Resumed():
                self.watch.resumed(record, event)
            case ev.Ready():
                self.watch.said_ready(record)
            case ev.PhaseChanged():
                self.watch.phase_changed(record, event)
            case ev.PhaseReached():
                self.faults.phase_reached(event)
            case ev.StepsUnreported():
                self.watch.steps_unreported(record)
            case ev.ProgramEnds():
                self.exits.program_ends(record, event)
            case ev.InDebugger() | ev.EditorAwaited(waits=True):
                self.watch.held(record)
            case ev.LeftDebugger():
                self.watch.released(record)
            case ev.EditorAwaited() | ev.Reached():
                pass  # only readers of the journal use these events
            case ev.StepsTimed():
                self.watch.paces.timed(event)
            case ev.TrainsWith():
                self.alone.trains_with(record, event)
            case ev.SigtermHandled():
                record.sigterm_handled = event.handled
            case _:
                assert_never(event)

    def due(self, timer: Timer, record: TaskRecord) -> None:
        """Handle a deadline of the task, which has passed."""
        if timer is Timer.KILL and record.task in self.state.kept_up:
            end_server(self.state, record.task)
        elif timer is Timer.KILL and record.state is TaskState.STOPPING:
            self.state.end(record, record.asked or Asked.TEARDOWN, 0.0)
        elif timer is Timer.DEATH and record.alive:
            if self.state.placed.get(record.task) in self.state.cut_off:
                self._out_of_reach(record)
            else:
                self._will_not_die(record)
        elif timer is Timer.DRAIN and not record.drained:
            self.state.out.append(CloseOutput(record.task, record.attempt))
        elif timer is Timer.EXIT and record.is_untouched:
            self.exits.overdue(record)
        elif timer is Timer.STARTUP and record.alive and not record.ready:
            self.watch.startup_due()

    def _spawned(self, record: TaskRecord, event: ev.Spawned) -> None:
        record.where, record.forked, record.spawned = event.where, event.forked, self.state.now
        self.state.move(record, TaskState.RUNNING)
        self.watch.spawned(record, event)
        if record.asked is not None:
            self.state.end(record, record.asked, record.grace)

    def _spawn_failed(self, record: TaskRecord, event: ev.SpawnFailed) -> None:
        how = Exit(error=event.error, unfit=event.unfit, unreached=event.unreached, crowded=event.crowded)
        how = how if event.host is None else Exit(host=event.host)
        record.exit, record.exited = replace(how, asked=record.asked), self.state.now
        self._down(record)

    def _exited(self, record: TaskRecord, event: ev.Exited) -> None:
        if not record.alive:
            return
        # The kernel counts out-of-memory kills for the whole host, so another process may have been the victim.
        starved = event.exit.out_of_memory and SIGKILL not in event.reached
        record.exit = replace(event.exit, asked=record.asked, out_of_memory=starved)
        record.exited, record.reached = self.state.now, event.reached
        self._over(record)
        self.state.out.append(Sweep(record.task, record.attempt))

    def _over(self, record: TaskRecord) -> None:
        """Clear the timers and pauses of a task whose first process has ended."""
        for timer in (Timer.KILL, Timer.DEATH, Timer.STARTUP, Timer.EXIT):
            self.state.timers.clear(timer, record.task)
        record.paused_by.clear()
        self.state.kept_up.pop(record.task, None)
        if record.task == self.state.job.leader:
            for task in list(self.state.kept_up):  # servers that were kept running for this task
                end_server(self.state, task)
        self.faults.injections.exited(record)
        self.watch.paces.exited(record)
        self.watch.released(record)
        self.state.move(record, TaskState.DRAINING)

    def _out_of_reach(self, record: TaskRecord) -> None:
        """Stop waiting for a task whose host is cut off: nobody can tell whether SIGKILL ended the task.

        Do so only if the run is ending. The agent ends its tasks by itself when its lease expires.
        """
        if not self.ending.begun:
            return
        record.exit = Exit(host=self.state.placed[record.task], asked=record.asked)
        record.exited, record.swept, record.drained = self.state.now, True, True
        self._over(record)
        self._down(record)

    def _will_not_die(self, record: TaskRecord) -> None:
        """Fail the job, and leave behind a task that SIGKILL did not end. The task still holds its port."""
        what = f"{record.task} ({record.where}) did not die within {DEATH_WITHIN:g} s of SIGKILL"
        self.state.warn(
            f"{what}: a debugger holds it, or it waits in the kernel, for example for a disk or a network file system. "
            "It is left behind.",
            record.task,
        )
        record.swept = True
        self.ending.fail(what)
        if record.state is TaskState.RUNNING:
            self.state.move(record, TaskState.STOPPING)
        self._over(record)
        if not record.drained:
            self.state.out.append(CloseOutput(record.task, record.attempt))
        self._down_when_clear(record)

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
        self._down_when_clear(record)

    def _drained(self, record: TaskRecord, event: ev.Drained) -> None:
        record.drained, record.tail, record.exception = True, event.tail, event.exception
        self.state.timers.clear(Timer.DRAIN, record.task)
        self._down_when_clear(record)

    def _down_when_clear(self, record: TaskRecord) -> None:
        if record.swept and record.drained and record.state is TaskState.DRAINING:
            self._down(record)

    def _down(self, record: TaskRecord) -> None:
        self.state.move(record, TaskState.DOWN)
        asked, ok = self.state.was_asked(record), record.exit is not None and record.exit.ok
        is_peer = (self.ending.succeeded or self.ending.spoiled) and record.task in self.exits.peers
        failed = not (asked or ok) and (is_peer or not self.ending.begun)
        self.state.close(record, self.faults.injections.explaining(record) if failed else None)
        if failed and is_peer:
            self.exits.peer_failed(record)
        elif failed:
            self.recoveries.failed(record)
            self.exits.explain(record)
        elif ok and not asked and self.ending.suspending and record.task == self.state.job.leader:
            self.ending.succeed(record)  # the leader finished before it received the signal that the allocation ends
        elif self.ending.begun or self.state.waiting or asked:
            self.exits.peer_ended(record)
        elif record.task == self.state.job.leader:
            self.ending.succeed(record)
            self._doubt(record)
            self.exits.leader_succeeded()
        else:
            self.exits.exited(record)

    def _doubt(self, leader: TaskRecord) -> None:
        """Warn if the leader's exit code 0 soon after SIGTERM may mean that it stopped before the job was done."""
        if leader.terminated is None or SIGTERM not in leader.reached:
            return
        seconds = leader.exited - leader.terminated
        if leader.asked is None and seconds <= self.state.job.limits.grace:
            self.state.warn(
                f"{leader.task} exited with code 0 within {seconds:.1f} s of SIGTERM, so the job counts as done. If it "
                f"is not done, let the program exit with code {PREEMPTED} after SIGTERM: clusterkit then restarts it.",
                leader.task,
            )

    def _progressed(self, record: TaskRecord, event: ev.Progressed) -> None:
        first = record.first_step is None
        self.watch.progressed(record, event)
        if first:
            self.alone.watch(record)
        if record.task.trains:
            self.faults.progressed(event.step)
        if record.task == self.state.job.leader and "loss" in event.metrics:
            self.ending.loss_reported(event.step, event.metrics["loss"])
