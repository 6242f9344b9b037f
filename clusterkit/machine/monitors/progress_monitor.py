"""Watches whether every task starts up, training continues, and restarted programs resume at the right step."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from clusterkit.machine.cluster_state import ClusterState, TaskRecord, directory_of
from clusterkit.machine.ending import Ending
from clusterkit.machine.fault_schedule import FaultSchedule
from clusterkit.machine.monitors.stalls import Stalls, activity_of, unanswered
from clusterkit.machine.monitors.stragglers import StragglerMonitor
from clusterkit.machine.timers import HoldReason, Timer
from clusterkit.words.actions import Inspect
from clusterkit.words.events import (
    Checkpointed,
    CheckpointFound,
    Impaired,
    Inspected,
    Look,
    PhaseChanged,
    Progressed,
    Resumed,
    Spawned,
    Vitals,
)
from clusterkit.words.faults import Moment
from clusterkit.words.job import JobSpec
from clusterkit.words.model import Shape, Task, TaskType


@dataclass(slots=True)
class ProgressMonitor:
    """Follows progress; requests an inspection of the tasks only when a deadline has passed."""

    state: ClusterState
    ending: Ending
    stalls: Stalls = field(init=False)
    stragglers: StragglerMonitor = field(init=False)
    startup_overdue: bool = False
    strategy_checked: bool = False  # True once an inspection was requested to find out why no step followed the start
    warned_unreported: bool = False  # True once the user was told that the program reports no steps
    explained_by_exits: Callable[[Mapping[Task, Vitals]], bool] = lambda vitals: False  # whether exits explain a stall

    def __post_init__(self) -> None:
        self.stalls = Stalls(self.state, self.ending)
        self.stragglers = StragglerMonitor(self.state, self.ending)

    def spawned(self, record: TaskRecord, event: Spawned) -> None:
        """Set the startup deadline of a task that may have peers to connect to."""
        record.checkpoint_found, record.checkpoint_known = event.checkpoint, self.state.newest_checkpoint
        record.checkpoints_known = dict(self.state.checkpoints)
        limit = self.state.job.limits.startup
        if limit and record.task.type is not TaskType.EVALUATOR:
            self.state.timers.set(Timer.STARTUP, self.state.now + limit, record.task)
        if record.attempt > 1 and record.task.trains:
            self.stalls.expect_progress()

    def checkpoint_found(self, record: TaskRecord, event: CheckpointFound) -> None:
        """Note the checkpoint that existed when the attempt began; the report may arrive after the first step."""
        record.checkpoint_found = event.path
        if record.unverified_step is not None:
            self._warn_of_unread_checkpoint(record, event.path)

    def ready(self, record: TaskRecord) -> None:
        """Note that the task is connected. The time from now to the task's first step counts as compilation."""
        if not record.ready:
            record.ready, record.ready_at = True, self.state.now
            self.state.census.connected(record.task)
        self.state.timers.clear(Timer.STARTUP, record.task)

    def reported_ready(self, record: TaskRecord) -> None:
        """Note that the program itself reported that it is ready."""
        self.ready(record)
        record.ready_at = self.state.now
        if record.task == self.state.job.leader:
            self.stalls.expect_progress()

    def phase_changed(self, record: TaskRecord, event: PhaseChanged) -> None:
        """Note that the program began or ended a phase without steps."""
        self.ready(record)
        if event.begun:
            record.phases[event.phase] = self.state.now
        elif record.phases.pop(event.phase, None) is not None and record.task.type is not TaskType.EVALUATOR:
            self.stalls.phase_ended()
        self.stragglers.phase_changed()

    def debugger_entered(self, record: TaskRecord) -> None:
        """Note that the task is held in the debugger. No progress is expected until its release."""
        if record.alive:
            self.state.hold(record, HoldReason.DEBUGGER)
            self.stragglers.interrupt()

    def debugger_left(self, record: TaskRecord) -> None:
        """Note that the task left the debugger or ended. Once no task is held, progress is expected again."""
        if self.state.release_hold(record, HoldReason.DEBUGGER):
            self.stragglers.interrupt()
            self.stalls.phase_ended()

    def progressed(self, record: TaskRecord, event: Progressed) -> None:
        self.ready(record)
        if record.first_step is None:
            record.first_step = event.step
            if record.resumed_step is None:
                self._check_resumption(record, event.step)
        previous_step, record.last_step = record.last_step, event.step
        self.state.metrics[record.task] = event.added_to(self.state.metrics.get(record.task, {}))
        if record.task.type is TaskType.EVALUATOR:  # an evaluator also reports while training completes no steps
            self.ending.evaluator_reported(record)
            return
        if event.step == previous_step:  # a repeated report of the same step
            return
        self.state.progress_at = self.state.now
        self.stalls.steps_unseen = False
        if event.step > (record.resumed_step or 0):
            self.state.stepped_at = self.state.now
        self.stalls.expect_progress()
        self.stragglers.progressed()

    def impaired(self, event: Impaired) -> None:
        """Pass on a warning. Without steps that are seen, no stall can be noticed."""
        self.state.warn(event.what)
        if event.ends_steps:
            self.stalls.steps_unseen = True

    def steps_unreported(self, record: TaskRecord) -> None:
        """Warn once that the program is training but reports no steps, unless a task has already reported a step."""
        if self.warned_unreported or self.state.progress_at is not None or not record.task.trains:
            return
        self.warned_unreported = True
        self.state.warn(
            f"{record.task} trains, but no step has been reported. The program imports clusterkit.training, so its own "
            "loop has to call training.report(step=…); without that, there are no steps by which to find a stall, to "
            "aim a fault or to see what a restart lost.",
            record.task,
        )

    def checkpointed(self, record: TaskRecord, event: Checkpointed) -> None:
        """Note the newest checkpoint. After a restart, its step may be lower than that of an older checkpoint."""
        self.ready(record)
        self.state.newest_checkpoint = (event.step, event.path)
        self.state.checkpoints[directory_of(event.path)] = (event.step, event.path)

    def resumed(self, record: TaskRecord, event: Resumed) -> None:
        """Note the step from which the program continues."""
        self.reported_ready(record)
        if event.path is None and record.resumed_from is not None:
            return  # the program has restored a checkpoint, and now begins something else, such as a second `fit`
        record.resumed_step, record.resumed_from = event.step, event.path
        self._check_resumption(record, event.step, event.path)
        if event.path is not None and self.state.newest_checkpoint is None:
            self.state.newest_checkpoint = (event.step, event.path)
            self.state.checkpoints[directory_of(event.path)] = (event.step, event.path)

    def startup_timer(self) -> None:
        """Request an inspection when a task has reported nothing in time, since its server may already be listening."""
        if not self.startup_overdue:  # one inspection covers all overdue tasks
            self.startup_overdue = True
            self.state.actions.append(Inspect())

    def inspected(self, event: Inspected) -> None:
        """Evaluate an inspection. Ignore tasks that have been restarted since."""
        records = self.state.records
        of_job = {task: seen for task, seen in event.vitals.items() if task in records}
        current = {task: seen for task, seen in of_job.items() if seen.attempt == records[task].attempt}
        if event.look is Look.PACE:
            self.stragglers.evaluate(current)
            return
        for task, seen in current.items():
            records[task].port_was_open |= seen.listening
            if seen.listening and event.look is not Look.STALL:  # at a stall, the port may have opened long ago
                self.ready(records[task])
        halted = {task for task in self.state.slowed & current.keys() if current[task].state == "T"}
        vitals = current | {task: replace(current[task], state="S") for task in halted}  # stopped only for a moment
        if event.look is Look.STARTUP:
            self._fail_startup(vitals, event.report)
        elif event.look is Look.STALL:
            self._warn_of_unanswered_task(vitals)
            if not self.explained_by_exits(vitals):
                self.stalls.evaluate(vitals, event.report)
        else:
            self._evaluate_quick(vitals)

    def _evaluate_quick(self, vitals: Mapping[Task, Vitals]) -> None:
        limit = self.state.job.limits.startup
        if self.startup_overdue and not self.ending.begun:
            if late := ", ".join(map(str, self._unconnected(vitals))):
                self.state.actions.append(Inspect(Look.STARTUP, f"not connected after {limit:g} s: {late}"))
            elif self.state.progress_at is None and not self.strategy_checked:
                self.strategy_checked = True
                self.state.actions.append(Inspect(Look.STALL, f"no progress {limit:g} s after the start"))
        self.startup_overdue = False
        self.stalls.evaluate_quick(vitals)

    def _warn_of_unanswered_task(self, vitals: Mapping[Task, Vitals]) -> None:
        """Warn if the leader's strategy is still connecting to its cluster, which the program may have defined."""
        leader = self.state.job.leader
        if leader in vitals and vitals[leader].connects:
            self.state.warn(unanswered(leader, vitals), leader)

    def _unconnected(self, vitals: Mapping[Task, Vitals]) -> list[Task]:
        """Return the tasks that have not connected in time. Time in which tasks were held is not counted."""
        limit = self.state.job.limits.startup
        return [
            record.task
            for record in self.state.alive()
            if record.task in vitals
            and not record.ready
            and record.end_request is None
            and self.state.job.shape is not Shape.SINGLE
            and record.task.type is not TaskType.EVALUATOR  # an evaluator may wait for a checkpoint
            and self.state.now >= record.started + limit + self.state.timers.held - record.suspended_before
            and self.state.job.listens(record.task)
        ]

    def _fail_startup(self, vitals: Mapping[Task, Vitals], report: str | None) -> None:
        late = self._unconnected(vitals)
        if not late or self.ending.begun or self.state.is_leader_done:
            return
        # "Its": the task may have opened another port, such as one that the program chose.
        ports = "its port" if len(late) == 1 else "their ports"
        doing = "; ".join(text for task in late if (text := activity_of(task, vitals)) != str(task))
        limit = f"{self.state.job.limits.startup:g} s"
        self.ending.give_up(
            f"{', '.join(map(str, late))} did not open {ports} and reported no progress within {limit} of the start"
            + (f": {doing}. " if doing else ". ")
            + (f"What was seen of every task is in {report}. " if report else "")
            + "--startup-timeout gives more time, 0 any amount"
        )

    def _check_resumption(self, record: TaskRecord, step: int, path: str | None = None) -> None:
        """Warn if a checkpoint existed, but the program continued from an earlier step.

        Checkpoints in different directories are not compared: they may belong to different programs of a script, or to
        different calls of `fit`. `path` is the checkpoint that the program restored, if it is known.
        """
        if record.task.type is TaskType.EVALUATOR or (record.attempt == 1 and not self.state.job.resume):
            return
        known, found = record.checkpoints_known, record.checkpoint_found
        newest = None
        if path is not None:
            newest = known.get(directory_of(path))
        elif len(known) == 1:
            newest = next(iter(known.values()))
        if newest is not None and step < newest[0]:
            self._warn_of_lost_steps(record, f"{newest[1]} (step {newest[0]})", step)
        elif not known and step <= 1:
            if found is None:
                record.unverified_step = step
            else:
                self._warn_of_unread_checkpoint(record, found)

    def _warn_of_lost_steps(self, record: TaskRecord, checkpoint: str, step: int) -> None:
        where = "started again at step 0" if step <= 1 else f"continued from step {step}"
        self.state.warn(
            f"{record.task} {where} although the checkpoint {checkpoint} was there. "
            f"The program does not restore it, or could not read it; steps are lost.",
            record.task,
        )

    def _warn_of_unread_checkpoint(self, record: TaskRecord, checkpoint: str) -> None:
        """Warn of a checkpoint that was found. The program may still restore it, such as in a second `fit`."""
        record.unverified_step = None
        self.state.warn(
            f"{record.task} started again at step 0 although the checkpoint {checkpoint} was there. Unless the program "
            "restores it later, such as in a second fit, it does not restore it, or could not read it, and steps are "
            "lost.",
            record.task,
        )


# Seconds; the wait for a first step once all training tasks are running. Imports, connections and the first compilation
# usually take less time, so a program that reports steps has reported a step by then.
PATIENCE = 60.0
STALL_TIMEOUT = -1  # stands for --stall-timeout in `warned`; faults are numbered from 0


@dataclass(slots=True)
class UnreportedSteps:
    """Warns once about each option or fault that waits for steps while no task reports any step."""

    state: ClusterState
    ending: Ending
    faults: FaultSchedule
    warned: set[int] = field(default_factory=set)

    def settle(self) -> None:
        """Start to wait for the first step, or stop waiting."""
        timers = self.state.timers
        if not self._waiting() or self.ending.begun or self.state.census.idle:
            timers.clear(Timer.UNREPORTED_STEPS)
        elif not timers.is_set(Timer.UNREPORTED_STEPS):
            timers.set(Timer.UNREPORTED_STEPS, self.state.now + PATIENCE)

    def on_timer(self) -> None:
        waiting = self._waiting()
        names = {armed.index: f"the fault '{armed.fault}'" for armed in self.faults.armed}
        names[STALL_TIMEOUT] = "--stall-timeout"
        if waiting:
            self.state.warn(unreported_steps_warning(self.state.job, [names[index] for index in waiting], PATIENCE))
            self.warned.update(waiting)

    def _waiting(self) -> list[int]:
        if self.state.progress_at is not None:
            return []
        armed = [a.index for a in self.faults.armed if a.trigger.moment is Moment.STEP and not a.is_spent]
        waiting = [STALL_TIMEOUT, *armed] if self.state.job.limits.stall else armed
        return [index for index in waiting if index not in self.warned]


def unreported_steps_warning(job: JobSpec, waiting: Sequence[str], seconds: float) -> str:
    """Return the warning that no step was reported for `seconds`. The options and faults in `waiting` need steps."""
    names, verb = " and ".join(waiting), "have" if len(waiting) > 1 else "has"
    return (
        f"No task has reported a step, {seconds:g} s after all of them started. Until one does, {names} {verb} "
        f"no effect. {advice(job)}"
    )


def advice(job: JobSpec) -> str:
    """Return advice on how to make a program report its steps."""
    report = "clusterkit.training.report(step=…) or, in Keras, the callback clusterkit.training.ReportProgress()"
    if job.progress_regex is not None:
        return f"No line in the logs matched --progress-regex '{job.progress_regex}'. Change it, or call {report}."
    return f"Call {report}, or have steps read from the logs: --progress-regex 'step (\\d+)'."
