"""Schedules: draws the faults of each trial at random. The same seed always gives the same faults."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from clusterkit.chaos.model import Baseline, Trial
from clusterkit.machine.restart import backoff_delay
from clusterkit.words.faults import (
    AMOUNTS,
    ON_NETWORK,
    ON_STORAGE,
    Fault,
    FaultAction,
    Moment,
    Target,
    Trigger,
    seeded_uniform,
)
from clusterkit.words.job import JobSpec, Network, RestartRules
from clusterkit.words.model import TaskType

T = TypeVar("T")

USUAL_RATE = 2.0  # the default average number of faults per run
SPARE_RESTARTS = 3  # allowed restarts besides one per fault, since a partition may cause several restarts in a row
SEEDS = 2**32  # a trial's seed is smaller than this number
SHORTEST_ATTEMPT = 0.1  # seconds; the assumed minimum duration of an attempt

# The relative frequencies of actions, 1 by default. Programs handle kills worst, and cluster engines send SIGTERM.
_WEIGHTS = {FaultAction.KILL: 4.0, FaultAction.TERM: 2.0}
_SECONDS = (1.0, 1.5, 2.0, 3.0, 4.0)  # the durations of faults; TensorFlow abandons peers after 5 s without an answer
_AMOUNTS: Mapping[FaultAction, tuple[float, ...]] = {
    FaultAction.SLOW: (0.1, 0.2, 0.5),
    FaultAction.DELAY: (0.02, 0.05, 0.1, 0.2),
    FaultAction.LOSS: (0.01, 0.05, 0.1),
    FaultAction.RATE: (1e5, 1e6),
}
_ENDLESS_SHARE = 0.3  # in jobs with a stall timeout, the fraction of STOP faults without a duration
_RESTARTING = frozenset({FaultAction.KILL, FaultAction.TERM})
_LATEST_SHARE = 0.95  # faults begin within this fraction of the run, since it may end before later faults begin


def budget(faults: Sequence[Fault], rules: RestartRules) -> int:
    """Return how many restarts a run with these faults may need. Restarts may fail while the disk is full."""
    full = sum(fault.seconds or 0.0 for fault in faults if fault.action is FaultAction.DISK_FULL)
    restarts = len(faults) + SPARE_RESTARTS
    while full > 0:
        restarts += 1
        full -= max(backoff_delay(rules, restarts - len(faults) - SPARE_RESTARTS - 1, 0.0), SHORTEST_ATTEMPT)
    return restarts


class Dice:
    """A sequence of random numbers that depends only on `seed` and `key`."""

    def __init__(self, seed: int, key: str) -> None:
        self._seed, self._key, self._nth = seed, key, 0

    def share(self) -> float:
        """Return the next random number in [0, 1)."""
        self._nth += 1
        return seeded_uniform(self._seed, self._key, self._nth)

    def pick(self, items: Sequence[T]) -> T:
        return items[int(self.share() * len(items))]

    def weighted(self, items: Sequence[tuple[float, T]]) -> T:
        """Return a random item from pairs (weight, item), with a probability proportional to its weight."""
        left = self.share() * sum(weight for weight, _ in items)
        for weight, item in items:
            left -= weight
            if left < 0:
                return item
        return items[-1][1]


@dataclass(frozen=True, slots=True)
class Plan:
    """The input from which schedules are drawn. The faults in `always` are added to every schedule."""

    job: JobSpec
    baseline: Baseline
    actions: tuple[FaultAction, ...]
    rate: float = USUAL_RATE
    always: tuple[Fault, ...] = ()


def possible(job: JobSpec, disk: bool) -> tuple[FaultAction, ...]:
    """Return the actions that are possible for the job. `disk` is True if this machine supports DISK_FULL."""
    network = job.network is Network.VIRTUAL and len(job.tasks) > 1
    missing = (frozenset() if network else ON_NETWORK) | (frozenset() if disk else {FaultAction.DISK_FULL})
    return tuple(action for action in FaultAction if action not in missing)


def useful(actions: Collection[FaultAction], baseline: Baseline) -> tuple[FaultAction, ...]:
    """Return the actions that can affect the job. Storage faults affect only jobs that write checkpoints."""
    return tuple(action for action in actions if baseline.checkpoints or action not in ON_STORAGE)


def trial(plan: Plan, seed: int, number: int) -> Trial:
    """Draw the trial with this number. The number of its faults is between 1 and 2 · rate - 1."""
    dice = Dice(seed, f"run/{number}")
    count = max(1, round(0.5 + dice.share() * (2 * plan.rate - 1) - 1e-9))
    faults: list[Fault] = []
    while len(faults) < count:
        faults += _draw_fault(plan, dice, faults)
    return Trial(number, int(dice.share() * SEEDS), (*plan.always, *faults))


def _draw_fault(plan: Plan, dice: Dice, earlier_faults: Sequence[Fault]) -> list[Fault]:
    action = dice.weighted([(_WEIGHTS.get(action, 1.0), action) for action in plan.actions])
    trigger = _trigger(plan.baseline, dice, any(fault.action in _RESTARTING for fault in earlier_faults))
    if action in ON_STORAGE:
        lasting = _seconds(plan, dice, action)
        how = dice.pick(("flip", "truncate")) if action is FaultAction.CORRUPT else None
        return [Fault(action, seconds=lasting, how=how, trigger=trigger)]
    near, far = _targets(plan.job, dice, action)
    fault = Fault(action, near, far, _seconds(plan, dice, action), _amount(dice, action), trigger=trigger)
    if action is not FaultAction.HANG_START:
        return [fault]
    # HANG_START affects only the next attempt, so also kill the current attempt.
    early = replace(trigger, at=max(1, trigger.at // 2)) if trigger.moment is Moment.STEP else trigger
    return [replace(fault, trigger=early), Fault(FaultAction.KILL, near, trigger=trigger)]


def _targets(job: JobSpec, dice: Dice, action: FaultAction) -> tuple[tuple[Target, ...], tuple[Target, ...]]:
    """Draw the targets: usually the leader or a given task; sometimes random tasks, or one or all tasks of a type."""
    tasks, types = job.tasks, [kind for kind in TaskType if job.counts.get(kind, 0)]
    exact = [Target(task.type, task.index) for task in tasks]
    leader = Target(job.leader.type, job.leader.index)
    ways: list[tuple[float, Callable[[], Target]]] = [
        (3.0, lambda: leader),
        (3.0, lambda: dice.pick(exact)),
        (1.0, lambda: Target(dice.pick(types))),
        (1.0, Target),
        (1.0 if len(tasks) > 1 else 0.0, lambda: Target(dice.pick(types), count=None)),
        (1.0 if len(tasks) > 2 else 0.0, lambda: Target(count=2)),
    ]
    near = dice.weighted(ways)()
    if action is FaultAction.HANG_START:  # the kill must hit the same task
        near = dice.pick(exact)
    if action not in ON_NETWORK:
        return (near,), ()
    if near.index is None:  # a task must not be on both sides
        near = dice.pick(exact)
    far = dice.pick([target for target in exact if target != near])
    return (near,), (far,) if dice.share() < 0.4 else ()


def _trigger(baseline: Baseline, dice: Dice, after_death: bool) -> Trigger:
    """Draw the trigger: usually a step, and often just before or during the write of a checkpoint.

    If a task dies at such a step, the checkpoint must not be damaged.
    """
    last = baseline.last_step
    saved = [step for step in baseline.checkpoints if step < (last or 0)]
    saving = [(step, seconds) for step, seconds in baseline.saving if step < (last or 0)]

    def while_saving() -> Trigger:
        step, seconds = dice.pick(saving)
        return Trigger(Moment.STEP, step, after=round(dice.share() * seconds, 3))

    ways: list[tuple[float, Callable[[], Trigger]]] = [
        (3.0 if last else 0.0, lambda: Trigger(Moment.STEP, max(1, int(dice.share() * (last or 1) * _LATEST_SHARE)))),
        (2.0 if saved else 0.0, lambda: Trigger(Moment.STEP, dice.pick(saved))),
        (2.0 if saving else 0.0, while_saving),
        (1.0 if saved else 0.0, lambda: Trigger(Moment.CHECKPOINT, 1 + int(dice.share() * len(saved)))),
        (1.5 if after_death else 0.0, lambda: Trigger(Moment.RESTART)),
        (1.0, lambda: Trigger(Moment.TIME, round(dice.share() * baseline.duration * _LATEST_SHARE, 1))),
    ]
    return dice.weighted(ways)()


def _seconds(plan: Plan, dice: Dice, action: FaultAction) -> float | None:
    if action in _RESTARTING or action in (FaultAction.RESET, FaultAction.CORRUPT):
        return None
    if action is FaultAction.STOP and plan.job.limits.stall and dice.share() < _ENDLESS_SHARE:
        return None
    return dice.pick(_SECONDS)


def _amount(dice: Dice, action: FaultAction) -> float | None:
    if action in _AMOUNTS:
        return dice.pick(_AMOUNTS[action])
    return AMOUNTS[action].usual if action in AMOUNTS else None
