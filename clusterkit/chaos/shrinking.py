"""Shrinking: searches for the smallest schedule that still fails, by trying one candidate after another."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace

from clusterkit.words.events import FaultInjected
from clusterkit.words.faults import Fault, Moment, Target, Trigger
from clusterkit.words.grammar import parse_fault
from clusterkit.words.model import Task

Schedule = tuple[Fault, ...]
Shrinking = Generator[Schedule, bool, Schedule]  # yields candidates; receives True if one fails; returns the smallest

_NUMBER = re.compile(r"(\d+(?:, )?|\.|\bsteps?\b|\battempts?\b)+")
SHORTEST_FAULT = 0.5  # seconds; shorter faults are not tried


def pinned(faults: Sequence[FaultInjected]) -> Schedule:
    """Return a run's faults in the order of injection. Random targets are replaced by the tasks that were hit.

    Random targets depend on a fault's position in the schedule, which shrinking changes.
    """
    return tuple(_pinned(parse_fault(event.fault), event) for event in faults)


def _pinned(fault: Fault, event: FaultInjected) -> Fault:
    others = _target_of(event.others) if fault.others else ()
    trigger = fault.trigger
    if trigger is not None and (trigger.every or trigger.probability < 1):
        trigger = None if event.step is None else Trigger(Moment.STEP, event.step)
    return replace(fault, targets=_target_of(event.tasks), others=others, trigger=trigger)


def _target_of(tasks: Sequence[Task]) -> tuple[Target, ...]:
    return tuple(Target(task.type, task.index) for task in tasks)


def have_common(violations: Sequence[str], others: Sequence[str]) -> bool:
    """Return whether two runs have a violation in common, apart from numbers in the text.

    If not, the runs failed for different reasons.
    """
    return not {_NUMBER.sub("", one) for one in violations}.isdisjoint(_NUMBER.sub("", one) for one in others)


def shrink(start: Schedule, failing: Schedule = ()) -> Shrinking:
    """Find the smallest schedule that fails like `start`. `failing` is `start` without random choices: see `pinned`.

    First reduce the number of faults (Zeller's ddmin), then simplify each fault: fewer targets, shorter durations,
    triggers with rounder numbers. No candidate is tried twice.
    """
    tried: dict[Schedule, bool] = {start: True}
    best = start
    if failing and (yield from _fails(failing, tried)):
        best = failing
    best = yield from _fewer(best, tried)
    return (yield from _simpler(best, tried))


def _fails(candidate: Schedule, tried: dict[Schedule, bool]) -> Generator[Schedule, bool, bool]:
    if candidate not in tried:
        tried[candidate] = bool(candidate) and (yield candidate)
    return tried[candidate]


def _fewer(faults: Schedule, tried: dict[Schedule, bool]) -> Shrinking:
    parts = 2
    while len(faults) > 1:
        cuts = [round(n * len(faults) / parts) for n in range(parts + 1)]
        chunks = [(cuts[n], cuts[n + 1]) for n in range(parts)]
        candidates = [faults[a:b] for a, b in chunks] + [faults[:a] + faults[b:] for a, b in chunks]
        for candidate in candidates:
            if len(candidate) < len(faults) and (yield from _fails(candidate, tried)):
                faults, parts = candidate, max(2, min(parts - 1, len(candidate)))
                break
        else:
            if parts >= len(faults):
                break
            parts = min(2 * parts, len(faults))
    return faults


def _simpler(faults: Schedule, tried: dict[Schedule, bool]) -> Shrinking:
    """Simplify each fault in turn, as long as the schedule still fails."""
    place = 0
    while place < len(faults):
        for fault in _simplified(faults[place]):
            candidate = (*faults[:place], fault, *faults[place + 1 :])
            if (yield from _fails(candidate, tried)):
                faults = candidate
                break
        else:
            place += 1
    return faults


def _simplified(fault: Fault) -> Iterator[Fault]:
    """Yield variants of the fault, each of which is simpler in one respect. The simplest variant is first."""
    if len(fault.targets) > 1:
        yield from (replace(fault, targets=(target,)) for target in fault.targets)
    if len(fault.others) > 1:
        yield from (replace(fault, others=(target,)) for target in fault.others)
    if fault.seconds is not None and fault.seconds / 2 >= SHORTEST_FAULT:
        yield replace(fault, seconds=round(fault.seconds / 2, 3))
    if fault.trigger is not None:
        yield from (replace(fault, trigger=trigger) for trigger in _simpler_triggers(fault.trigger))


def _simpler_triggers(trigger: Trigger) -> Iterator[Trigger]:
    """Yield simpler triggers: with rounder numbers, or with the first event of a kind instead of a later one."""
    if trigger.moment in (Moment.CHECKPOINT, Moment.RESTART, Moment.READY, Moment.PHASE):
        if trigger.at > 1:
            yield replace(trigger, at=1)
        return
    whole = int(trigger.at)
    for digits in range(1, len(str(whole))):
        scale = 10 ** (len(str(whole)) - digits)
        if (rounded := whole // scale * scale) != trigger.at:
            yield replace(trigger, at=rounded)
    if trigger.moment is Moment.TIME and whole != trigger.at and whole:
        yield replace(trigger, at=whole)
