"""Stalls: detects that training completes no steps without a legitimate reason, and finds the task to blame."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from clusterkit.machine.cluster_state import ClusterState, TaskRecord
from clusterkit.machine.ending import Ending
from clusterkit.machine.timers import Timer
from clusterkit.words.actions import Inspect
from clusterkit.words.events import Look, Stalled, Vitals
from clusterkit.words.job import JobSpec
from clusterkit.words.model import Shape, Task, TaskState, TaskType
from clusterkit.words.outcome import Asked

LONGEST_PHASE = 600.0  # seconds; the longest pause that a phase without steps excuses


@dataclass(slots=True)
class Stalls:
    """Requests an inspection when a deadline has passed, and evaluates which task is stuck.

    While the program compiles, checkpoints or evaluates, a quick inspection comes first: only a task that is stopped or
    hangs in the kernel can be to blame then.
    """

    state: ClusterState
    ending: Ending
    warned: bool = False
    steps_unseen: bool = False  # True if steps are no longer read, so that their absence is no sign of a stall
    glance_pending: bool = False
    requested_at: float | None = None  # when the pending inspection was requested
    killed_at: float = 0.0
    phase_ended_at: float = 0.0
    # The tasks that open faults act on, each with the fault as text.
    faults: Callable[[], Mapping[Task, str]] = dict

    def expect_progress(self) -> None:
        """Expect progress from now on. An existing timer is kept: it can only fire too early, and is then set again."""
        if self.warned or not self.state.timers.is_set(Timer.STALL):
            self.warned = False
            self._set_timer()

    def phase_ended(self) -> None:
        """Note the end of a phase without steps: the next step is expected from now on."""
        self.phase_ended_at = self.state.now
        self.expect_progress()

    def on_timer(self) -> None:
        """Check for how long training has completed no steps, and whether there is an excuse."""
        since, now = self._no_progress_since(), self.state.now
        if since is None or self.ending.begun:
            return
        if not self._is_overdue(since):
            self._set_timer()
        elif (until := self._excused_until()) > now:
            self.glance_pending = True
            self.state.actions.append(Inspect())
            self.state.timers.set(Timer.STALL, min(until, now + min(self._limits())))
        else:
            self._request_inspection(now - since)
            self._set_timer()

    def evaluate_quick(self, vitals: Mapping[Task, Vitals]) -> None:
        """Evaluate a quick inspection. If a task is stopped or hangs in the kernel, request a thorough inspection."""
        since = self._no_progress_since()
        if self.glance_pending and since is not None and self._is_overdue(since) and halted_task(self._steps(), vitals):
            self._request_inspection(self.state.now - since)
        self.glance_pending = False

    def evaluate(self, vitals: Mapping[Task, Vitals], report: str | None) -> None:
        """Evaluate an inspection: warn about the stall, or end the stuck task if the stall has lasted too long."""
        requested_at, self.requested_at = self.requested_at, None
        since, now = self._no_progress_since(), self.state.now
        if requested_at is None or since is None or since >= requested_at or self.ending.begun:
            return  # training has continued in the meantime
        steps = self._steps()
        excused = self._excused_until() > now
        stuck = halted_task(steps, vitals) if excused else stuck_task(self.state.job, steps, vitals, self.faults())
        if stuck is None:
            self.state.timers.set(Timer.STALL, now + min(self._limits(), default=math.inf))
            return
        self._report(stuck, vitals, now - since, report)

    def _report(self, stuck: tuple[Task, str], vitals: Mapping[Task, Vitals], idle: float, report: str | None) -> None:
        limits, now = self.state.job.limits, self.state.now
        is_debugged = stuck[0] in vitals and vitals[stuck[0]].state == TRACED
        kills = limits.stall > 0 and idle >= limits.stall and not is_debugged
        finding = verdict(self.state.job, stuck, vitals)
        text = f"No task has reported progress for {idle:.0f} s: {finding}."
        if kills:
            text += f" {stuck[0]} is killed."
        grown = [f"The memory of {task} {seen.growth}" for task, seen in sorted(vitals.items()) if seen.growth]
        text += "".join(f" {sentence}." for sentence in grown[:MOST_NAMED])
        if is_debugged:  # the time counts from the last moment at which the debugger was seen
            self.phase_ended_at = now
        report_text = f" What was seen of every task is in {report}." if report else ""
        hint = (
            "" if limits.stall or is_debugged else " --stall-timeout ends the stuck task after a time that you choose."
        )
        self.state.record(Stalled(text + report_text + hint, stuck[0], idle, vitals, report, finding))
        self.warned = True
        self.killed_at = now if kills else self.killed_at
        self._set_timer()
        if kills:
            self.state.end(self.state.records[stuck[0]], Asked.STALL, 0.0)

    def _request_inspection(self, idle: float) -> None:
        if self.requested_at is None:
            self.requested_at = self.state.now
            self.state.actions.append(Inspect(Look.STALL, f"no progress for {idle:.0f} s"))

    def _limits(self) -> list[float]:
        """Return the limits that still apply. After a warning, the limit for warnings no longer applies."""
        if self.steps_unseen:
            return []
        limits = self.state.job.limits
        return [wait for wait in (0.0 if self.warned else limits.stall_warning, limits.stall) if wait]

    def _is_overdue(self, since: float) -> bool:
        return any(self.state.now >= since + wait for wait in self._limits())

    def _set_timer(self) -> None:
        if not (limits := self._limits()) or (since := self._no_progress_since()) is None:
            return
        future = [since + wait for wait in limits if since + wait > self.state.now]
        if future:
            self.state.timers.set(Timer.STALL, min(future))

    def _steps(self) -> dict[Task, int | None]:
        return {r.task: r.last_step for r in self.state.alive() if r.task.type is not TaskType.EVALUATOR}

    def _no_progress_since(self) -> float | None:
        """Return the time since which progress has been expected; None before the leader is ready.

        During a recovery, and while a task is in the debugger or paused on request, this is the current time. After a
        restart of a training task, the returned time is not earlier than the restart.
        """
        if self.state.holds.current:
            return self.state.now
        begun = self.state.progress_at
        if begun is None:
            begun = self.state.records[self.state.job.leader].ready_at
        if begun is None:
            return None
        training = [self.state.records[task] for task in self.state.job.training]
        if not all(record.alive or _is_done(record) for record in training):
            return self.state.now
        return max(
            begun,
            self.killed_at,
            self.phase_ended_at,
            self.state.holds.ended_at,
            *(record.started for record in training),
        )

    def _excused_until(self) -> float:
        """Return when the last excuse for a lack of progress ends or ended; infinity before the first progress."""
        if self.state.progress_at is None:
            return math.inf
        steppers = self.state.alive(self.state.job.steppers)
        pauses = [at + LONGEST_PHASE for record in steppers for at in self._excuses(record)]
        startup = self.state.job.limits.startup
        starts = [record.started + startup for record in self.state.alive() if self._is_starting(record)]
        return max(pauses + starts, default=-math.inf)

    def _excuses(self, record: TaskRecord) -> list[float]:
        """Return when the current phases without steps began and, before a first step, when the compilation began."""
        assert self.state.progress_at is not None
        pauses = list(record.phases.values())
        if record.first_step is None and record.ready_at is not None and record.started >= self.state.progress_at:
            pauses.append(record.ready_at)
        return pauses

    def _is_starting(self, record: TaskRecord) -> bool:
        """Return whether the task is starting and has a start-up deadline."""
        if record.ready or record.task.type is TaskType.EVALUATOR or self.state.job.shape is Shape.SINGLE:
            return False
        return self.state.timers.is_set(Timer.STARTUP, record.task)


def _is_done(record: TaskRecord) -> bool:
    """Return whether the task ended well, and is not about to restart."""
    return record.state is not TaskState.HELD and record.exit is not None and record.exit.ok


# Letters that denote a process's state in /proc/PID/stat, the worst first.
TRACED = "t"
_HALTED = {"T": "is stopped (T)", TRACED: "is stopped by a debugger (t)", "D": "hangs in the kernel (D)"}
MOST_NAMED = 3  # the maximum number of further tasks with the same activity that a text names; other tasks are counted


def halted_task(tasks: Collection[Task], vitals: Mapping[Task, Vitals]) -> tuple[Task, str] | None:
    """Return the first task that is stopped or hangs in the kernel, and its state as text; None if no task is."""
    for letter, condition in _HALTED.items():
        for task in sorted(tasks):
            if task in vitals and vitals[task].state == letter:
                return task, condition
    return None


def stuck_task(
    job: JobSpec,
    steps: Mapping[Task, int | None],
    vitals: Mapping[Task, Vitals],
    faults: Mapping[Task, str] = MappingProxyType({}),
) -> tuple[Task, str] | None:
    """Return the live task to blame for a stall, and the reason as text; None if no task can be blamed.

    A task that is stopped or hangs in the kernel is blamed before its peers, which are only waiting for it. Otherwise,
    blame a task whose log ends with an exception of its own; then a training task in its own code while another
    training task waits in TensorFlow; then a task that an open fault acts on (`faults`, as text); then the reporting
    task that is furthest behind; then the leader.
    """
    if found := halted_task(steps, vitals):
        return found
    raised = [task for task in sorted(steps) if task in vitals and vitals[task].error]
    if raised:
        return raised[0], _with_activity(vitals, raised[0], f"has raised {vitals[raised[0]].error}")
    training = {task: steps[task] for task in job.steppers if task in steps}
    own = {task: step for task, step in training.items() if task in vitals and vitals[task].own}
    others_wait = any(task in vitals and vitals[task].doing and not vitals[task].own for task in training)
    hit = [task for task in sorted(steps) if task in faults]
    if hit and not (own and others_wait):
        return hit[0], _with_activity(vitals, hit[0], f"is under the fault {faults[hit[0]]}")
    blamed = (_furthest_behind(own) or min(own)) if own and others_wait else _furthest_behind(steps)
    if blamed is None:
        blamed = job.leader
        return (blamed, _with_activity(vitals, blamed, "leads the job")) if blamed in steps else None
    if blamed in own and others_wait:
        return blamed, vitals[blamed].doing
    step, furthest = steps[blamed], max(step for step in steps.values() if step is not None)
    place = f"is at step {step}" if step == furthest else f"is the furthest behind (step {step})"
    return blamed, _with_activity(vitals, blamed, place)


def verdict(job: JobSpec, stuck: tuple[Task, str], vitals: Mapping[Task, Vitals]) -> str:
    """Describe the stuck task, then its peers: `worker:1 is stopped (T); chief:0 waits in ClusterCoordinator.join`."""
    by_activity: dict[str, list[Task]] = {}
    for task in job.steppers:
        if task in vitals and vitals[task].doing and task != stuck[0]:
            by_activity.setdefault(vitals[task].doing, []).append(task)
    waiting = [_same_activity(tasks, what) for what, tasks in by_activity.items()]
    return "; ".join([f"{stuck[0]} {stuck[1]}", *waiting])


def activity_of(task: Task, vitals: Mapping[Task, Vitals]) -> str:
    """Describe what a task is doing: `worker:1 waits for a socket at train.py:7`; only its name if nothing is known."""
    found = halted_task([task], vitals)
    return f"{task} {found[1] if found else vitals[task].doing if task in vitals else ''}".strip()


def unanswered(leader: Task, vitals: Mapping[Task, Vitals]) -> str:
    """Return the warning that the leader's strategy is connecting to a cluster in which a task does not answer."""
    waits = activity_of(leader, vitals)
    if halted := halted_task(vitals.keys() - {leader}, vitals):
        return f"{waits}, and {halted[0]} does not answer, because it {halted[1]}."
    return (
        f"{waits}, and a task of its cluster does not answer. If the program gives the cluster, leave out the "
        "evaluator and tasks that this job does not have, write an IPv6 address as [::1]:2222, or run the job with "
        "--tf-config ours."
    )


def _furthest_behind(steps: Mapping[Task, int | None]) -> Task | None:
    reported = sorted((step, task) for task, step in steps.items() if step is not None)
    return reported[0][1] if reported else None


def _with_activity(vitals: Mapping[Task, Vitals], task: Task, what: str) -> str:
    doing = vitals[task].doing if task in vitals else ""
    return f"{what} and {doing}" if doing else what


def _same_activity(tasks: list[Task], what: str) -> str:
    first, *others = map(str, tasks)
    if not others:
        return f"{first} {what}"
    more = others[:MOST_NAMED] + ([f"{len(others) - MOST_NAMED} more"] if len(others) > MOST_NAMED else [])
    return f"{first} {what}, as {'do' if len(others) > 1 else 'does'} {' and '.join(', '.join(more).rsplit(', ', 1))}"
