"""Faults that wait for their trigger. All random choices follow from the seed."""

from __future__ import annotations

from dataclasses import dataclass, field

from clusterkit.faults.aim import choose_targets, targets_of
from clusterkit.machine.cluster_state import ClusterState
from clusterkit.machine.ending import Ending
from clusterkit.machine.injections import Injections
from clusterkit.machine.timers import Timer
from clusterkit.text.spelling import listed
from clusterkit.words.actions import HurrySteps, Inspect, Record
from clusterkit.words.events import PhaseReached, RestartPlanned
from clusterkit.words.faults import (
    ON_NETWORK,
    ON_STORAGE,
    Fault,
    FaultAction,
    Moment,
    Phase,
    Trigger,
    plain,
    seeded_uniform,
)
from clusterkit.words.model import Task
from clusterkit.words.outcome import NotInjected

READINESS_INTERVAL = 1.0  # seconds between checks of the tasks' ports while a fault waits for all tasks to be ready
RUN_START = Trigger(Moment.TIME, 0)
WHEN_READY = Trigger(Moment.READY)
_BEFORE_READY = ON_NETWORK | ON_STORAGE | {FaultAction.HANG_START}  # faults that make sense before a task is ready


@dataclass(slots=True)
class ArmedFault:
    """A fault that waits for its trigger. `next_at` is the next time, step or count at which the fault fires."""

    index: int
    fault: Fault
    trigger: Trigger
    next_at: float
    fire_count: int = 0
    is_spent: bool = False
    draw_count: int = 0  # the number of times that chance selected the fault for injection
    targets_given_up: bool = False  # True if the fault's targets had been given up when the fault was due
    injection_numbers: list[int] = field(default_factory=list)  # the numbers of the fault's injections
    reached_by: Task | None = None  # the target that has reached the trigger's phase


@dataclass(frozen=True, slots=True)
class TriggeredFault:
    """A fault that has been triggered, and the tasks that were chosen for it."""

    inject_at: float
    armed: ArmedFault
    targets: tuple[Task, ...]
    others: tuple[Task, ...]


@dataclass(slots=True)
class FaultSchedule:
    """Tracks the times, steps and events that faults wait for. Times are in seconds of the state machine's clock."""

    state: ClusterState
    ending: Ending
    injections: Injections
    armed: list[ArmedFault] = field(default_factory=list)
    triggered: list[TriggeredFault] = field(default_factory=list)
    step: int | None = None  # the newest step that a training task has reported
    moment_counts: dict[Moment, int] = field(default_factory=lambda: dict.fromkeys(Moment, 0))
    phases: dict[tuple[Task, Phase], int] = field(default_factory=dict)  # how often each task has reached each phase

    def begin(self) -> None:
        """Arm the job's faults when the run begins, before any task starts, since some faults hold back starts.

        In a continued run, skip the faults that were injected in an earlier allocation, unless their trigger recurs.
        """
        if self.state.job.tells_every_step:
            self.state.actions.append(HurrySteps())
        for fault in self.state.job.faults:
            if str(fault) in self.state.history.fault_texts and not (fault.trigger and fault.trigger.every):
                continue
            self.arm(fault, RUN_START if fault.action in _BEFORE_READY else WHEN_READY)
        self.settle()

    def arm(self, fault: Fault, otherwise: Trigger = RUN_START) -> None:
        """Wait for the fault's trigger or, if the fault has no trigger, for `otherwise`."""
        trigger = fault.trigger or otherwise
        at = trigger.at
        match trigger.moment:
            case Moment.TIME:
                at += self.state.now
            case Moment.STEP:
                self.state.actions.append(HurrySteps())
                if trigger.every and self.step is not None:
                    at = self._next_multiple(self.step, trigger.at)
            case Moment.PHASE:
                self.state.actions.append(HurrySteps())  # so that a task that reaches the phase waits there
            case Moment.CHECKPOINT | Moment.RESTART:
                at += self.moment_counts[trigger.moment]
        self.armed.append(ArmedFault(len(self.armed), fault, trigger, at))

    def progressed(self, step: int) -> None:
        """Note the step that a training task has reported. The job counts as ready from now on."""
        self.step, self.moment_counts[Moment.READY] = step, 1

    def checkpointed(self) -> None:
        self.moment_counts[Moment.CHECKPOINT] += 1

    def phase_reached(self, event: PhaseReached) -> None:
        """Note that a task has reached a phase. If a fault is waiting for the phase, the task waits there briefly."""
        key = event.task, event.phase
        self.phases[key] = self.phases.get(key, 0) + 1
        for armed in self.armed:
            if armed.reached_by is None and armed.trigger.phase is event.phase and self.phases[key] >= armed.next_at:
                armed.reached_by = event.task if event.task in targets_of(armed.fault, self.state.job.tasks) else None

    def check_readiness(self) -> None:
        """Check whether the tasks have opened their ports. If the job has only one task, it just has to be running."""
        if len(self.state.job.cluster) > 1:
            self.state.actions.append(Inspect())
        elif self.state.alive():
            self.moment_counts[Moment.READY] = 1

    def settle(self) -> None:
        planned = [a for a in self.state.actions if isinstance(a, Record) and isinstance(a.event, RestartPlanned)]
        self.moment_counts[Moment.RESTART] += len(planned)
        self._settle_readiness()
        if self.ending.begun:
            for armed in self.armed:
                armed.is_spent = True
            self.triggered.clear()
            self.injections.heal_all("the run ends")
        for armed in self.armed:
            while not armed.is_spent and self._is_due(armed):
                self._fire(armed)
        for one in [one for one in self.triggered if self.state.now >= one.inject_at]:
            self.triggered.remove(one)
            self._inject(one)
        self.injections.settle()

    def _inject(self, due: TriggeredFault) -> None:
        """Inject the fault, unless all targets were given up; a fault between two groups needs tasks in both."""
        fault, given_up = due.armed.fault, self.state.job.given_up
        targets, others = (tuple(task for task in side if task not in given_up) for side in (due.targets, due.others))
        if (fault.targets and not targets) or (fault.others and not others):
            due.armed.targets_given_up = True
        else:
            due.armed.injection_numbers.append(self.injections.inject(fault, targets, others, self.step))

    def next_deadline(self) -> float | None:
        """Return the earliest time at which a fault is due or has to be healed."""
        times = [armed.next_at for armed in self.armed if not armed.is_spent and armed.trigger.moment is Moment.TIME]
        times += [one.inject_at for one in self.triggered]
        healed = self.injections.next_deadline()
        return min(times if healed is None else [*times, healed], default=None)

    def not_injected(self) -> tuple[NotInjected, ...]:
        """Return the faults that were never injected, except for faults that were left to chance and not drawn."""
        found = [(armed.fault, self._why_not_injected(armed)) for armed in self.armed]
        return tuple(NotInjected(str(fault), why) for fault, why in found if why)

    def _why_not_injected(self, armed: ArmedFault) -> str:
        reasons = [self.injections.suspects[number].why_no_effect for number in armed.injection_numbers]
        if not all(reasons):
            return ""
        if reasons:
            return reasons[-1]
        if armed.targets_given_up:
            return "the workers that it targets had been given up"
        if armed.draw_count:
            return f"the run ended before its after={plain(armed.trigger.after)}s was over"
        return "" if armed.fire_count else self._why_not_triggered(armed)

    def _why_not_triggered(self, armed: ArmedFault) -> str:
        moment, wanted = armed.trigger.moment, armed.trigger.at
        count = self.moment_counts[moment] - (armed.next_at - wanted)
        match moment:
            case Moment.TIME:
                return f"the run ended before {plain(wanted)} s were over"
            case Moment.STEP if self.step is None:
                return "no step was reported"
            case Moment.STEP:
                return f"step {plain(armed.next_at)} was never reached; the last step was {self.step}"
            case Moment.READY:
                return "not every task became ready"
            case Moment.CHECKPOINT:
                some = f"the job wrote only {plain(count)} of {plain(wanted)} checkpoints"
                return some if count else "no checkpoint was written"
            case Moment.PHASE:
                return self._why_phase_not_reached(armed)
            case Moment.RESTART:
                return f"only {plain(count)} of {plain(wanted)} restarts happened" if count else "no task was restarted"

    def _why_phase_not_reached(self, armed: ArmedFault) -> str:
        tasks, phase = targets_of(armed.fault, self.state.job.tasks), armed.trigger.phase
        most = max((count for (task, one), count in self.phases.items() if one is phase and task in tasks), default=0)
        times = f" only {most} of {plain(armed.trigger.at)} times" if most else ""
        if len(tasks) == 1:
            return f"{next(iter(tasks))} {'' if most else 'never '}reached the phase {phase}{times}"
        return f"none of {listed(sorted(tasks), most=5)} reached the phase {phase}{times.replace('only', 'more than')}"

    def _settle_readiness(self) -> None:
        timers, waiting = (
            self.state.timers,
            [a for a in self.armed if a.trigger.moment is Moment.READY and not a.is_spent],
        )
        if not waiting or self.moment_counts[Moment.READY]:
            timers.clear(Timer.READINESS)
            return
        if not self.state.census.unready:
            self.moment_counts[Moment.READY] = 1
        elif not timers.is_set(Timer.READINESS):
            timers.set(Timer.READINESS, self.state.now + READINESS_INTERVAL)

    def _is_due(self, armed: ArmedFault) -> bool:
        match armed.trigger.moment:
            case Moment.TIME:
                return self.state.now >= armed.next_at
            case Moment.STEP:
                return self.step is not None and self.step >= armed.next_at
            case Moment.PHASE:
                return armed.reached_by is not None
            case moment:
                return self.moment_counts[moment] >= armed.next_at

    def _fire(self, armed: ArmedFault) -> None:
        trigger, key = armed.trigger, f"fault/{armed.index}/{armed.fire_count}"
        armed.fire_count += 1
        armed.is_spent = not trigger.every
        if trigger.moment is Moment.STEP and self.step is not None:
            armed.next_at = self._next_multiple(self.step, trigger.at)
        else:
            armed.next_at += trigger.at
        if seeded_uniform(self.state.seed, key, 0) < trigger.probability:
            armed.draw_count += 1
            tasks, seed = self.state.job.tasks, self.state.seed
            targets, others = choose_targets(
                armed.fault, tasks, lambda n: seeded_uniform(seed, key, n + 1), armed.reached_by
            )
            self.triggered.append(TriggeredFault(self.state.now + trigger.after, armed, targets, others))

    @staticmethod
    def _next_multiple(step: int, distance: float) -> float:
        return (step // distance + 1) * distance
