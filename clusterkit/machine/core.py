"""The machine's door: one event in, the actions it leads to out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from clusterkit.machine.cluster_state import DEATH_WITHIN, SIGTERM, ClusterState, TaskRecord
from clusterkit.machine.delayed_starts import DelayedStarts
from clusterkit.machine.ending import Ending
from clusterkit.machine.faults import Faults
from clusterkit.machine.headstart import HeadStart
from clusterkit.machine.injections import Injections
from clusterkit.machine.profiles import Profiles
from clusterkit.machine.recovery import Recoveries
from clusterkit.machine.requests import Requests
from clusterkit.machine.silence import Silence
from clusterkit.machine.timers import Timer
from clusterkit.machine.watch import Watch
from clusterkit.words import events as ev
from clusterkit.words.actions import Action, CloseOutput, SpawnWaiting, Sweep
from clusterkit.words.job import JobSpec, RestartPolicy
from clusterkit.words.outcome import PREEMPTED, Asked, Exit, RunState
from clusterkit.words.states import TaskState

SIGINT = 2


class Machine:
    """The cluster's state machine: a pure function of the job, the seed and the events so far.

    `handle` takes times in seconds of one monotonic clock and never decreasing; `deadline` is in the same.
    """

    def __init__(self, job: JobSpec, seed: int) -> None:
        self.state = ClusterState(job, seed)
        self.ending = Ending(self.state)
        self.recoveries = Recoveries(self.state, self.ending)
        self.watch = Watch(self.state, self.ending)
        self.delayed_starts = DelayedStarts(self.state)
        self.faults = Faults(self.state, self.ending, Injections(self.state, self.delayed_starts))
        self.ending.not_injected = self.faults.not_injected
        self.profiles = Profiles(self.state)
        self.requests = Requests(self.state, self.ending, self.recoveries, self.faults, self.profiles)
        self.head_start = HeadStart(self.state)
        self.silence = Silence(self.state, self.ending, self.faults)
        self._interrupts = 0
        self._verbs: dict[type, Callable[[Any], None]] = {
            ev.Began: self._began,
            ev.Ticked: self._ticked,
            ev.Spawned: self._spawned,
            ev.CheckpointFound: self._reported(self.watch.checkpoint_found),
            ev.SpawnFailed: self._spawn_failed,
            ev.ForkServerReady: self._fork_server_changed,
            ev.ForkServerLost: self._fork_server_changed,
            ev.StartsCold: lambda event: None,  # as good a start as any
            ev.Exited: self._exited,
            ev.Swept: self._swept,
            ev.Drained: self._drained,
            ev.Progressed: self._reported(self._progressed),
            ev.Checkpointed: self._reported(self._checkpointed),
            ev.Resumed: self._reported(self.watch.resumed),
            ev.Ready: self._reported(lambda record, _: self.watch.said_ready(record)),
            ev.PhaseChanged: self._reported(self.watch.phase_changed),
            ev.Profiled: self.profiles.took,
            ev.TensorBoardReady: lambda event: None,  # whoever looks at it, the run is the same
            ev.TensorBoardLost: self._tensorboard_lost,
            ev.Inspected: self.watch.inspected,
            ev.Interrupted: self._interrupted,
            ev.Requested: self.requests.take,
            ev.FaultTook: self._fault_took,
            ev.LifelineLost: self._guardian_lost,
            ev.Impaired: lambda event: self.state.warn(event.what),
            ev.Crashed: lambda event: self.ending.crashed(event, self.recoveries.restarts),
            ev.StorageFailed: lambda event: self.ending.fail(event.error),
        }

    def handle(self, event: ev.Happened, now: float) -> list[Action]:
        """Take in one event; return what has to be done, in order."""
        self.state.now, self.state.out = now, []
        self._verbs[type(event)](event)
        self.recoveries.settle()
        self.faults.settle()
        self.delayed_starts.settle()
        self.head_start.settle()
        self.silence.settle()
        self.ending.settle(self.recoveries.restarts)
        return self.state.out

    def deadline(self) -> float | None:
        """When to send Ticked if nothing happens before."""
        times = (self.state.timers.next(), self.recoveries.next(), self.faults.next())
        return min((at for at in times if at is not None), default=None)

    def _began(self, event: ev.Began) -> None:
        self.head_start.warm = event.warm
        self.state.began = self.state.now
        if limit := self.state.job.limits.job:
            self.state.timers.set(Timer.JOB, self.state.now + limit)
        self.faults.begin()
        for record in list(self.state.records.values()):
            self.state.spawn(record, "resume" if self.state.job.resume else "")

    def _ticked(self, _: ev.Ticked) -> None:
        for timer, task in self.state.timers.due(self.state.now):
            if timer is Timer.JOB:
                limit = self.state.job.limits.job
                self.ending.stop(RunState.TIMED_OUT, 124, f"the job took longer than its timeout of {limit:g} s")
            elif timer is Timer.FINISH:
                self.ending.leader_is_done()
            elif timer is Timer.HEAD_START:
                self.head_start.let_go()
            elif timer is Timer.STALL:
                self.watch.stalls.due()
            elif timer is Timer.SILENCE:
                self.silence.due()
            elif timer is Timer.READINESS:
                self.faults.look()
            elif timer is Timer.EVALUATOR:
                for record in self.state.alive():
                    self.ending.evaluator_is_done(record)
            elif task is not None:
                self._task_timer(timer, self.state.records[task])

    def _task_timer(self, timer: Timer, record: TaskRecord) -> None:
        if timer is Timer.KILL and record.state is TaskState.STOPPING:
            self.state.end(record, record.asked or Asked.TEARDOWN, 0.0)
        elif timer is Timer.DEATH and record.alive:
            self._will_not_die(record)
        elif timer is Timer.DRAIN and not record.drained:
            self.state.out.append(CloseOutput(record.task, record.attempt))
        elif timer is Timer.LATE_START:
            self.delayed_starts.let_go(record.task)
        elif timer is Timer.STARTUP and record.alive and not record.ready:
            self.watch.startup_due()

    def _spawned(self, event: ev.Spawned) -> None:
        if (record := self.state.current(event.task, event.attempt)) is None:
            return
        record.pid, record.spawned = event.pid, self.state.now
        self.state.move(record, TaskState.RUNNING)
        self.watch.spawned(record, event)
        if record.asked is not None:
            self.state.end(record, record.asked, record.grace)

    def _spawn_failed(self, event: ev.SpawnFailed) -> None:
        if (record := self.state.current(event.task, event.attempt)) is None:
            return
        record.exit, record.exited = Exit(error=event.error, asked=record.asked), self.state.now
        self._down(record)

    def _fork_server_changed(self, event: ev.ForkServerReady | ev.ForkServerLost) -> None:
        self.head_start.warm = isinstance(event, ev.ForkServerReady)
        self.state.out.append(SpawnWaiting())

    def _exited(self, event: ev.Exited) -> None:
        record = self.state.current(event.task, event.attempt)
        if record is None or not record.alive:
            return
        exit_ = event.exit
        record.exit = Exit(exit_.code, exit_.signal, exit_.error, exit_.out_of_memory, record.asked)
        record.exited, record.reached = self.state.now, event.reached
        self._over(record)
        self.state.out.append(Sweep(record.task, record.attempt))

    def _over(self, record: TaskRecord) -> None:
        """Nothing of the task's first process is waited for any more."""
        for timer in (Timer.KILL, Timer.DEATH, Timer.STARTUP):
            self.state.timers.clear(timer, record.task)
        self.faults.injections.exited(record)
        self.state.move(record, TaskState.DRAINING)

    def _will_not_die(self, record: TaskRecord) -> None:
        """SIGKILL did not end it. The run ends without it, since its port is taken."""
        what = f"{record.task} (pid {record.pid}) did not die within {DEATH_WITHIN:g} s of SIGKILL"
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

    def _swept(self, event: ev.Swept) -> None:
        if (record := self.state.current(event.task, event.attempt)) is None:
            return
        record.swept = True
        if event.unseen:
            self.ending.fail(f"whether a process of {record.task} is left can't be seen ({event.unseen})")
        elif event.stuck:
            pids = ", ".join(map(str, event.stuck))
            self.ending.fail(f"processes of {record.task} do not die of SIGKILL (pid {pids}), so its port is not free")
        elif event.left:
            self.state.warn(f"{record.task} left {event.left} process(es) behind; they were killed.", record.task)
        if not record.drained:
            self.state.timers.set(Timer.DRAIN, self.state.now + self.state.job.limits.drain, record.task)
        self._down_when_clear(record)

    def _drained(self, event: ev.Drained) -> None:
        if (record := self.state.current(event.task, event.attempt)) is None:
            return
        record.drained, record.tail, record.exception = True, event.tail, event.exception
        self.state.timers.clear(Timer.DRAIN, record.task)
        self._down_when_clear(record)

    def _down_when_clear(self, record: TaskRecord) -> None:
        if record.swept and record.drained and record.state is TaskState.DRAINING:
            self._down(record)

    def _down(self, record: TaskRecord) -> None:
        self.state.move(record, TaskState.DOWN)
        asked, ok = self._was_asked(record), record.exit is not None and record.exit.ok
        failed = not (self.ending.begun or asked or ok)
        self.state.close(record, self.faults.injections.explaining(record) if failed else None)
        if failed:
            self.recoveries.failed(record)
        elif self.ending.begun or asked or self._is_collateral(record):
            return
        elif record.task == self.state.job.leader:
            self.ending.succeed(record)
            self._doubt(record)
        elif self.state.job.restart.policy is RestartPolicy.ALWAYS:
            self.recoveries.ended_well(record)

    def _was_asked(self, record: TaskRecord) -> bool:
        """Whether the exit answers a request of the machine's.

        The leader's code 0 does so only where SIGTERM reached it. SIGKILL is not answered with a code, and what comes
        too late reaches nobody: then the leader was done before.
        """
        ok = record.exit is not None and record.exit.ok
        done = ok and record.task == self.state.job.leader and SIGTERM not in record.reached
        return record.asked not in (None, Asked.STALL) and not done

    def _doubt(self, leader: TaskRecord) -> None:
        """Code 0 right after a fault's SIGTERM, or one by hand, is taken at its word, as one from outside would be."""
        if leader.terminated is None or SIGTERM not in leader.reached:
            return
        seconds = leader.exited - leader.terminated
        if leader.asked is None and seconds <= self.state.job.limits.grace:
            self.state.warn(
                f"{leader.task} exited with code 0 within {seconds:.1f} s of SIGTERM, so the job counts as done. If it "
                f"is not done, let the program exit with code {PREEMPTED} after SIGTERM: clusterkit then restarts it.",
                leader.task,
            )

    def _is_collateral(self, record: TaskRecord) -> bool:
        """A task that ended well while its gang waits to restart just waits with it."""
        ok = record.exit is not None and record.exit.ok
        return ok and record.task != self.state.job.leader and self.recoveries.covers(record.task)

    def _reported(self, take: Callable[[TaskRecord, Any], None]) -> Callable[[Any], None]:
        def verb(event: Any) -> None:
            if record := self.state.current(event.task, event.attempt):
                take(record, event)

        return verb

    def _progressed(self, record: TaskRecord, event: ev.Progressed) -> None:
        self.watch.progressed(record, event)
        if record.task.trains:
            self.faults.progressed(event.step)

    def _checkpointed(self, record: TaskRecord, event: ev.Checkpointed) -> None:
        self.watch.checkpointed(record, event)
        self.faults.checkpointed()

    def _fault_took(self, event: ev.FaultTook) -> None:
        if event.done:
            self.faults.injections.took(event.number)
        else:
            self.faults.injections.failed(event.number, event.detail)

    def _tensorboard_lost(self, event: ev.TensorBoardLost) -> None:
        self.state.warn(f"There is no TensorBoard: {event.why}. The run goes on without it.")

    def _interrupted(self, event: ev.Interrupted) -> None:
        self._interrupts += event.signal == SIGINT
        if self.ending.begun and event.signal == SIGINT and self._interrupts > 1:
            self.ending.kill_all()
        name = {1: "SIGHUP", 2: "SIGINT", 15: "SIGTERM"}.get(event.signal, f"signal {event.signal}")
        self.ending.stop(RunState.STOPPED, 128 + event.signal, f"clusterkit got {name}")

    def _guardian_lost(self, event: ev.LifelineLost) -> None:
        self.ending.fail(f"{event.who} is gone, so everything was ended at once")
        self.ending.kill_all()
