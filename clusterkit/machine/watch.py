"""Watches whether every task starts up, training continues, and restarted programs resume at the right step."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from clusterkit.machine.cluster_state import ClusterState, TaskRecord
from clusterkit.machine.ending import Ending
from clusterkit.machine.faults import FaultSchedule
from clusterkit.machine.paces import Paces
from clusterkit.machine.stalls import Stalls, whereabouts
from clusterkit.machine.timers import Timer
from clusterkit.words.actions import Inspect
from clusterkit.words.events import (
    Checkpointed,
    CheckpointFound,
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
class Watch:
    """Follows progress; requests an inspection of the tasks only when a deadline has passed."""

    state: ClusterState
    ending: Ending
    stalls: Stalls = field(init=False)
    paces: Paces = field(init=False)
    startup_overdue: bool = False
    asked: bool = False  # True once it was asked whether a strategy waits for tasks that do not answer
    hinted: bool = False  # True once the user was told that the program reports no steps
    left_judged: Callable[[Mapping[Task, Vitals]], bool] = lambda vitals: False  # whether exits explain a stall

    def __post_init__(self) -> None:
        self.stalls = Stalls(self.state, self.ending)
        self.paces = Paces(self.state, self.ending)

    def spawned(self, record: TaskRecord, event: Spawned) -> None:
        """Set the startup deadline of a task that may have peers to connect to."""
        record.checkpoint_found, record.checkpoint_known = event.checkpoint, self.state.newest_checkpoint
        limit = self.state.job.limits.startup
        if limit and record.task.type is not TaskType.EVALUATOR:
            self.state.timers.set(Timer.STARTUP, self.state.now + limit, record.task)
        if record.attempt > 1 and record.task.trains:
            self.stalls.expect_progress()

    def checkpoint_found(self, record: TaskRecord, event: CheckpointFound) -> None:
        """Note the checkpoint that existed when the attempt began, which may be reported after the first step."""
        record.checkpoint_found = event.path
        if record.from_step is not None:
            self._warn_of_lost_steps(record, event.path, record.from_step)

    def ready(self, record: TaskRecord) -> None:
        """Note that the task is connected. The time until its first step counts as the first compilation."""
        if not record.ready:
            record.ready, record.ready_at = True, self.state.now
            self.state.census.connected(record.task)
        self.state.timers.clear(Timer.STARTUP, record.task)

    def said_ready(self, record: TaskRecord) -> None:
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
        self.paces.phase_changed()

    def held(self, record: TaskRecord) -> None:
        """Note that the task is held in the debugger. No progress is expected until its release."""
        if record.alive:
            self.state.holds.enter(record.task, self.state.now)
            self.paces.disturb()

    def released(self, record: TaskRecord) -> None:
        """Note that the task left the debugger or ended. After the last release, the time for the next step starts."""
        if self.state.holds.leave(record.task, self.state.now):
            self.paces.disturb()
            self.stalls.phase_ended()

    def progressed(self, record: TaskRecord, event: Progressed) -> None:
        self.ready(record)
        if record.first_step is None:
            record.first_step = event.step
            if record.resumed_step is None:
                self._check_resumption(record, event.step)
        said_before, record.last_step = record.last_step, event.step
        self.state.metrics[record.task] = event.added_to(self.state.metrics.get(record.task, {}))
        if record.task.type is TaskType.EVALUATOR:  # an evaluator also reports while training makes no steps
            self.ending.evaluator_reported(record)
            return
        if event.step == said_before:  # a repeated report of the same step
            return
        self.state.progress_at = self.state.now
        if event.step > (record.resumed_step or 0):
            self.state.stepped_at = self.state.now
        self.stalls.expect_progress()
        self.paces.progressed()

    def steps_unreported(self, record: TaskRecord) -> None:
        """Warn once that the program trains but reports no step, unless another task reports for all tasks."""
        if self.hinted or self.state.progress_at is not None or not record.task.trains:
            return
        self.hinted = True
        self.state.warn(
            f"{record.task} trains, but no step has been reported. The program imports clusterkit.training, so its own "
            "loop has to call training.report(step=…); without that, there are no steps by which to find a stall, to "
            "aim a fault or to see what a restart lost.",
            record.task,
        )

    def checkpointed(self, record: TaskRecord, event: Checkpointed) -> None:
        """Note the newest checkpoint. After a restart, its step may be lower than an older checkpoint's."""
        self.ready(record)
        self.state.newest_checkpoint = (event.step, event.path)

    def resumed(self, record: TaskRecord, event: Resumed) -> None:
        """Note the step from which the program continues."""
        self.said_ready(record)
        record.resumed_step, record.resumed_from = event.step, event.path
        self._check_resumption(record, event.step)
        if event.path is not None and self.state.newest_checkpoint is None:
            self.state.newest_checkpoint = (event.step, event.path)

    def startup_due(self) -> None:
        """Request an inspection after a task's start-up deadline: the task's server may listen nevertheless."""
        if not self.startup_overdue:  # one inspection covers all overdue tasks
            self.startup_overdue = True
            self.state.out.append(Inspect())

    def inspected(self, event: Inspected) -> None:
        """Evaluate an inspection. Ignore tasks that have been restarted since."""
        records = self.state.records
        known = {task: seen for task, seen in event.vitals.items() if task in records}
        found = {task: seen for task, seen in known.items() if seen.attempt == records[task].attempt}
        if event.look is Look.PACE:
            self.paces.seen(found)
            return
        for task, seen in found.items():
            records[task].listened |= seen.listening
            if seen.listening and event.look is not Look.STALL:  # at a stall, the port may have been open for long
                self.ready(records[task])
        halted = {task for task in self.state.slowed & found.keys() if found[task].state == "T"}
        vitals = found | {task: replace(found[task], state="S") for task in halted}  # stopped only for a moment
        if event.look is Look.STARTUP:
            self._judge_startup(vitals, event.report)
        elif event.look is Look.STALL:
            self._tell_who_connects(vitals)
            if not self.left_judged(vitals):
                self.stalls.judge(vitals, event.report)
        else:
            self._glanced(vitals)

    def _glanced(self, vitals: Mapping[Task, Vitals]) -> None:
        limit = self.state.job.limits.startup
        if self.startup_overdue and not self.ending.begun:
            if late := ", ".join(map(str, self._late(vitals))):
                self.state.out.append(Inspect(Look.STARTUP, f"not connected after {limit:g} s: {late}"))
            elif self.state.progress_at is None and not self.asked:
                self.asked = True
                self.state.out.append(Inspect(Look.STALL, f"no progress {limit:g} s after the start"))
        self.startup_overdue = False
        self.stalls.glanced(vitals)

    def _tell_who_connects(self, vitals: Mapping[Task, Vitals]) -> None:
        """Warn if a strategy still waits for tasks of its cluster, which the program may have made up."""
        leader = self.state.job.leader
        if leader in vitals and vitals[leader].connects:
            self.state.warn(
                f"{whereabouts(leader, vitals)}, and a task of its cluster does not answer. If the program gives the "
                "cluster, leave out the evaluator and tasks that this job does not have, write an IPv6 address as "
                "[::1]:2222, or run the job with --tf-config ours.",
                leader,
            )

    def _late(self, vitals: Mapping[Task, Vitals]) -> list[Task]:
        """Return the tasks that are not connected in time. Time in the debugger is not counted."""
        limit = self.state.job.limits.startup
        return [
            record.task
            for record in self.state.alive()
            if record.task in vitals
            and not record.ready
            and record.asked is None
            and self.state.job.shape is not Shape.SINGLE
            and record.task.type is not TaskType.EVALUATOR  # which may wait for a checkpoint
            and self.state.now >= record.started + limit + self.state.timers.stood - record.stood
            and self.state.job.listens(record.task)
        ]

    def _judge_startup(self, vitals: Mapping[Task, Vitals], report: str | None) -> None:
        late = self._late(vitals)
        if not late or self.ending.begun or self.state.is_leader_done:
            return
        doing = "; ".join(told for task in late if (told := whereabouts(task, vitals)) != str(task))
        limit = f"{self.state.job.limits.startup:g} s"
        self.ending.give_up(
            f"{', '.join(map(str, late))} opened no port and reported no progress within {limit} of the start"
            + (f": {doing}. " if doing else ". ")
            + (f"What was seen of every task is in {report}. " if report else "")
            + "--startup-timeout gives more time, 0 any amount"
        )

    def _check_resumption(self, record: TaskRecord, step: int) -> None:
        """Warn if a checkpoint existed, but the program continued from an earlier step."""
        if record.task.type is TaskType.EVALUATOR or (record.attempt == 1 and not self.state.job.resume):
            return
        known, found = record.checkpoint_known, record.checkpoint_found
        if known is not None and step < known[0]:
            there = f"{known[1]} (step {known[0]})"
        elif known is None and found is not None and step <= 1:
            there = found
        elif known is None and step <= 1:
            record.from_step = step
            return
        else:
            return
        self._warn_of_lost_steps(record, there, step)

    def _warn_of_lost_steps(self, record: TaskRecord, there: str, step: int) -> None:
        record.from_step = None
        where = "started again at step 0" if step <= 1 else f"continued from step {step}"
        self.state.warn(
            f"{record.task} {where} although the checkpoint {there} was there. "
            f"The program does not restore it, or could not read it; steps are lost.",
            record.task,
        )


# Seconds; the wait for a first step once all training tasks run. Imports, connections and the first compilation usually
# take less time, so a program that reports steps has reported one by then.
PATIENCE = 60.0
STALL_TIMEOUT = -1  # stands for --stall-timeout in `told`; faults are numbered from 0


@dataclass(slots=True)
class Silence:
    """Warns once about each option or fault that waits for steps while no task reports any."""

    state: ClusterState
    ending: Ending
    faults: FaultSchedule
    told: set[int] = field(default_factory=set)

    def settle(self) -> None:
        """Start to wait for the first step, or stop waiting."""
        timers = self.state.timers
        if not self._waiting() or self.ending.begun or self.state.census.idle:
            timers.clear(Timer.SILENCE)
        elif not timers.is_set(Timer.SILENCE):
            timers.set(Timer.SILENCE, self.state.now + PATIENCE)

    def due(self) -> None:
        waiting = self._waiting()
        names = {armed.index: f"the fault '{armed.fault}'" for armed in self.faults.armed}
        names[STALL_TIMEOUT] = "--stall-timeout"
        if waiting:
            self.state.warn(silence(self.state.job, [names[index] for index in waiting], PATIENCE))
            self.told.update(waiting)

    def _waiting(self) -> list[int]:
        if self.state.progress_at is not None:
            return []
        armed = [a.index for a in self.faults.armed if a.trigger.moment is Moment.STEP and not a.over]
        waiting = [STALL_TIMEOUT, *armed] if self.state.job.limits.stall else armed
        return [index for index in waiting if index not in self.told]


def silence(job: JobSpec, waiting: Sequence[str], seconds: float) -> str:
    """Return the warning that no step was reported for `seconds`. The options and faults in `waiting` need steps."""
    names, verb = " and ".join(waiting), "have" if len(waiting) > 1 else "has"
    return (
        f"No task has reported a step, {seconds:g} s after all of them started. Until one does, {names} {verb} "
        f"no effect. {advice(job)}"
    )


def advice(job: JobSpec) -> str:
    """Return advice how to make a program report its steps."""
    report = "clusterkit.training.report(step=…) or, in Keras, the callback clusterkit.training.ReportProgress()"
    if job.progress_regex is not None:
        return f"No line in the logs matched --progress-regex '{job.progress_regex}'. Change it, or call {report}."
    return f"Call {report}, or have steps read from the logs: --progress-regex 'step (\\d+)'."
