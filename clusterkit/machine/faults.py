"""Faults that wait for their trigger. All random choices follow from the seed."""

from __future__ import annotations

from dataclasses import dataclass, field

from clusterkit.faults.aim import aim, targets_of
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

LOOK_AGAIN = 1.0  # seconds between two checks of whether silent tasks are ready, while a fault waits for readiness
AT_THE_START = Trigger(Moment.TIME, 0)
WHEN_READY = Trigger(Moment.READY)
_EARLY = ON_NETWORK | ON_STORAGE | {FaultAction.HANG_START}  # faults that make sense before a task is ready


@dataclass(slots=True)
class Armed:
    """A fault that waits for its trigger. `at` is the next time, step or count at which it fires."""

    index: int
    fault: Fault
    trigger: Trigger
    at: float
    fired: int = 0
    over: bool = False
    drawn: int = 0  # the number of times that chance selected the fault for injection
    gone: bool = False  # True if the fault's targets had been given up when the fault was due
    numbers: list[int] = field(default_factory=list)  # the numbers of its injections
    by: Task | None = None  # the target that has reached the phase


@dataclass(frozen=True, slots=True)
class Due:
    """A fault that has been triggered, and the tasks that were chosen for it."""

    at: float
    armed: Armed
    near: tuple[Task, ...]
    far: tuple[Task, ...]


@dataclass(slots=True)
class FaultSchedule:
    """Tracks the times, steps and events for which faults wait. Times are in seconds of the state machine's clock."""

    state: ClusterState
    ending: Ending
    injections: Injections
    armed: list[Armed] = field(default_factory=list)
    due: list[Due] = field(default_factory=list)
    step: int | None = None  # the newest step that a training task has reported
    counts: dict[Moment, int] = field(default_factory=lambda: dict.fromkeys(Moment, 0))
    phases: dict[tuple[Task, Phase], int] = field(default_factory=dict)  # how often each task reached each phase

    def begin(self) -> None:
        """Arm the job's faults at the beginning of the run, before the first starts, which some faults hold back.

        In a continued run, skip the faults that were injected in an earlier allocation.
        """
        for fault in self.state.job.faults:
            if str(fault) in self.state.before.faults and not (fault.trigger and fault.trigger.every):
                continue
            self.arm(fault, AT_THE_START if fault.action in _EARLY else WHEN_READY)
        self.settle()

    def arm(self, fault: Fault, otherwise: Trigger = AT_THE_START) -> None:
        """Wait for the fault's trigger; `otherwise` is used if the fault has no trigger."""
        trigger = fault.trigger or otherwise
        at = trigger.at
        match trigger.moment:
            case Moment.TIME:
                at += self.state.now
            case Moment.STEP:
                self.state.out.append(HurrySteps())
                if trigger.every and self.step is not None:
                    at = self._beyond(self.step, trigger.at)
            case Moment.PHASE:
                self.state.out.append(HurrySteps())  # a task waits at the phase
            case Moment.CHECKPOINT | Moment.RESTART:
                at += self.counts[trigger.moment]
        self.armed.append(Armed(len(self.armed), fault, trigger, at))

    def progressed(self, step: int) -> None:
        """Note the step that a training task has reported. The job counts as ready from then on."""
        self.step, self.counts[Moment.READY] = step, 1

    def checkpointed(self) -> None:
        self.counts[Moment.CHECKPOINT] += 1

    def phase_reached(self, event: PhaseReached) -> None:
        """Note that a task has reached a phase. The task waits a moment there if a fault waits for the phase."""
        key = event.task, event.phase
        self.phases[key] = self.phases.get(key, 0) + 1
        for armed in self.armed:
            if armed.by is None and armed.trigger.phase is event.phase and self.phases[key] >= armed.at:
                armed.by = event.task if event.task in targets_of(armed.fault, self.state.job.tasks) else None

    def look(self) -> None:
        """Check whether silent tasks have opened their ports. A single task has no port; it only has to run."""
        if len(self.state.job.cluster) > 1:
            self.state.out.append(Inspect())
        elif self.state.alive():
            self.counts[Moment.READY] = 1

    def settle(self) -> None:
        planned = [a for a in self.state.out if isinstance(a, Record) and isinstance(a.event, RestartPlanned)]
        self.counts[Moment.RESTART] += len(planned)
        self._settle_readiness()
        if self.ending.begun:
            for armed in self.armed:
                armed.over = True
            self.due.clear()
            self.injections.heal_all("the run ends")
        for armed in self.armed:
            while not armed.over and self._is_due(armed):
                self._fire(armed)
        for one in [one for one in self.due if self.state.now >= one.at]:
            self.due.remove(one)
            self._inject(one)
        self.injections.settle()

    def _inject(self, due: Due) -> None:
        """Inject the fault, unless all of its targets on one side were given up."""
        fault, lost = due.armed.fault, self.state.job.given_up
        near, far = (tuple(task for task in side if task not in lost) for side in (due.near, due.far))
        if (fault.targets and not near) or (fault.others and not far):
            due.armed.gone = True
        else:
            due.armed.numbers.append(self.injections.inject(fault, near, far, self.step))

    def next(self) -> float | None:
        """Return the earliest time at which a fault is due or has to be healed."""
        times = [armed.at for armed in self.armed if not armed.over and armed.trigger.moment is Moment.TIME]
        times += [one.at for one in self.due]
        healed = self.injections.next()
        return min(times if healed is None else [*times, healed], default=None)

    def not_injected(self) -> tuple[NotInjected, ...]:
        """Return the faults that were never injected, except those that their probability excluded."""
        found = [(armed.fault, self._why_not(armed)) for armed in self.armed]
        return tuple(NotInjected(str(fault), why) for fault, why in found if why)

    def _why_not(self, armed: Armed) -> str:
        reasons = [self.injections.suspects[number].why for number in armed.numbers]
        if not all(reasons):
            return ""
        if reasons:
            return reasons[-1]
        if armed.gone:
            return "the workers that it targets had been given up"
        if armed.drawn:
            return f"the run ended before its after={plain(armed.trigger.after)}s was over"
        return "" if armed.fired else self._why_not_due(armed)

    def _why_not_due(self, armed: Armed) -> str:
        moment, wanted = armed.trigger.moment, armed.trigger.at
        came = self.counts[moment] - (armed.at - wanted)
        match moment:
            case Moment.TIME:
                return f"the run ended before {plain(wanted)} s were over"
            case Moment.STEP if self.step is None:
                return "no step was reported"
            case Moment.STEP:
                return f"step {plain(armed.at)} was never reached; the last step was {self.step}"
            case Moment.READY:
                return "not every task became ready"
            case Moment.CHECKPOINT:
                some = f"the job wrote only {plain(came)} of {plain(wanted)} checkpoints"
                return some if came else "no checkpoint was written"
            case Moment.PHASE:
                return self._why_not_reached(armed)
            case Moment.RESTART:
                return f"only {plain(came)} of {plain(wanted)} restarts happened" if came else "no task was restarted"

    def _why_not_reached(self, armed: Armed) -> str:
        tasks, phase = targets_of(armed.fault, self.state.job.tasks), armed.trigger.phase
        most = max((count for (task, one), count in self.phases.items() if one is phase and task in tasks), default=0)
        times = f" only {most} of {plain(armed.trigger.at)} times" if most else ""
        if len(tasks) == 1:
            return f"{next(iter(tasks))} {'' if most else 'never '}reached the phase {phase}{times}"
        return f"none of {listed(sorted(tasks), most=5)} reached the phase {phase}{times.replace('only', 'more than')}"

    def _settle_readiness(self) -> None:
        timers, waits = self.state.timers, [a for a in self.armed if a.trigger.moment is Moment.READY and not a.over]
        if not waits or self.counts[Moment.READY]:
            timers.clear(Timer.READINESS)
            return
        if not self.state.census.unready:
            self.counts[Moment.READY] = 1
        elif not timers.is_set(Timer.READINESS):
            timers.set(Timer.READINESS, self.state.now + LOOK_AGAIN)

    def _is_due(self, armed: Armed) -> bool:
        match armed.trigger.moment:
            case Moment.TIME:
                return self.state.now >= armed.at
            case Moment.STEP:
                return self.step is not None and self.step >= armed.at
            case Moment.PHASE:
                return armed.by is not None
            case moment:
                return self.counts[moment] >= armed.at

    def _fire(self, armed: Armed) -> None:
        trigger, key = armed.trigger, f"fault/{armed.index}/{armed.fired}"
        armed.fired += 1
        armed.over = not trigger.every
        if trigger.moment is Moment.STEP and self.step is not None:
            armed.at = self._beyond(self.step, trigger.at)
        else:
            armed.at += trigger.at
        if seeded_uniform(self.state.seed, key, 0) < trigger.probability:
            armed.drawn += 1
            tasks, seed = self.state.job.tasks, self.state.seed
            near, far = aim(armed.fault, tasks, lambda n: seeded_uniform(seed, key, n + 1), armed.by)
            self.due.append(Due(self.state.now + trigger.after, armed, near, far))

    @staticmethod
    def _beyond(step: int, distance: float) -> float:
        return (step // distance + 1) * distance
