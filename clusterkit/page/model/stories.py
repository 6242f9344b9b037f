"""Stories: turns the recovery report into a readable description of each incident."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import PurePath

from clusterkit.page.model.entities import Story, StoryLine
from clusterkit.text.durations import shown
from clusterkit.text.printable import printable
from clusterkit.views.naming import counted, died, same_error
from clusterkit.words.account import Death, InjectedFault, Recovery, RecoveryReport
from clusterkit.words.explanation import Explanation
from clusterkit.words.model import number_of
from clusterkit.words.outcome import RunResult

MOST_TOLD = 8  # the maximum number of deaths of the same kind that a story lists individually
UNCHANGED = 0.85  # the fraction of its usual speed from which on training was not slowed by a fault
MOST_STORIES = 1000  # a run has at most this many stories, the newest
SAME = " with the same error, on its own"


Pace = Callable[[float, float], float | None]  # returns the steps per second between two times, or None if unknown


def no_pace(begin: float, end: float) -> float | None:
    """Stand for a pace that is not known."""
    return None


def stories(report: RecoveryReport, result: RunResult | None = None, pace: Pace = no_pace) -> list[Story]:
    """Return a story for each recovery, and for each fault that killed no task, in chronological order.

    The explanation of a task's failure becomes part of the story of the last recovery in which that task failed on its
    own, and not because of an injected fault.
    """
    explanations = () if result is None else result.explanations
    last = {one.task: recovery for recovery in report.recoveries for one in _failures(recovery) if one.fault is None}
    (begun, alone), found = report.beginnings(), list[Story]()
    for recovery, faults in begun:
        why = [one for one in explanations if one.task is not None and last.get(one.task) is recovery]
        found.append(_of_recovery(recovery, faults, why, _unrepaired(result)))
    found += (_of_fault(fault, pace) for fault in alone)
    return sorted(found, key=lambda story: story.at)[-MOST_STORIES:]


def _failures(recovery: Recovery) -> Iterator[Death]:
    yield from filter(None, (recovery.cause, *recovery.same, *recovery.collateral))


def _unrepaired(result: RunResult | None) -> str:
    """Return the reason why nothing was restarted after the last failure."""
    if result is None or not (result.repeated or result.usage_error):
        return "Nothing was restarted"
    again = " again" if result.restarts else ""
    return f"Not restarted{again}: {'the same error twice' if result.repeated else 'it would fail the same way'}"


def _of_recovery(
    recovery: Recovery, begun_by: Sequence[InjectedFault], why: Sequence[Explanation], unrepaired: str
) -> Story:
    cause = recovery.cause
    reasons = [StoryLine(recovery.at if cause is None else cause.at, printable(str(one)), "why") for one in why]
    lines = [*_injections(begun_by), *_deaths(recovery), *reasons, *_return(recovery, unrepaired)]
    return Story(
        at=recovery.at,
        title=_title(recovery),
        lines=tuple(sorted(lines, key=lambda line: line.at)),
        seconds=recovery.seconds,
        lost=recovery.lost,
        detected=recovery.detected,
        planned=recovery.planned,
        up=recovery.up,
        first_step=recovery.first_step,
        checkpoint=recovery.checkpoint,
        log=None if cause is None else (str(cause.task), cause.attempt),
        kind="failure" if recovery.planned is None else "recovery",
        went_on=recovery.went_on,
    )


def _title(recovery: Recovery) -> str:
    if recovery.cause is not None:
        alike, exception = [one.task for one in recovery.same], recovery.cause.exception
        return same_error([recovery.cause.task, *alike], exception) if alike and exception else died(recovery.cause)
    tasks = counted([one.task for one in recovery.returns])
    if recovery.host is not None:
        return printable(f"The host {recovery.host} left")
    if recovery.allocation is not None:
        return f"The run continued in allocation {recovery.allocation}"
    return f"{tasks} restarted as asked" if tasks else "A restart was asked for"


def _injections(faults: Sequence[InjectedFault]) -> Iterator[StoryLine]:
    for fault in faults:
        step = "" if fault.step is None else f", at step {fault.step}"
        detail = f" ({fault.detail})" if fault.detail else ""
        yield StoryLine(fault.injected, f"Fault {fault.number}: {fault.fault}{step}{detail}", "fault")
        if fault.healed is not None:
            yield StoryLine(fault.healed, f"Fault {fault.number} is healed, since {fault.why}", "back")


def _deaths(recovery: Recovery) -> Iterator[StoryLine]:
    if recovery.cause is not None:
        others = recovery.same or recovery.collateral
        plain = recovery.faults or recovery.cause.exception is not None or not others
        yield _death(recovery.cause, "cause", "" if plain else ": this is the cause")
    for deaths, kind, why in (
        (recovery.same, "cause", SAME),
        (recovery.collateral, "collateral", ": collateral"),
    ):
        yield from (_death(death, kind, why) for death in deaths[:MOST_TOLD])
        if len(deaths) > MOST_TOLD:
            rest = deaths[MOST_TOLD:]
            yield StoryLine(rest[0].at, f"{number_of('more task', len(rest))} failed{why}", kind)


def _death(death: Death, kind: str, why: str) -> StoryLine:
    by = ", as requested" if death.requested else "" if death.fault is None else f", by fault {death.fault}"
    how = f"{death.task} failed" if why == SAME else died(death)
    return StoryLine(death.at, f"{how}{by}{why}", kind, str(death.task))


def _return(recovery: Recovery, unrepaired: str) -> Iterator[StoryLine]:
    tasks = counted([one.task for one in recovery.returns])
    if recovery.planned is None:
        last = max([recovery.at, *(death.at for death in (*recovery.same, *recovery.collateral))])
        yield StoryLine(last, unrepaired, "warning")
    else:
        why = ", as asked" if recovery.asked and recovery.host is None else ""
        verb = "restart" if len(recovery.returns) > 1 else "restarts"
        yield StoryLine(recovery.planned, f"{tasks} {verb}{why}", "restart")
    if recovery.up is not None:
        are = "are" if len(recovery.returns) > 1 else "is"
        numbers = {one.attempt for one in recovery.returns}
        attempt = f", attempt {numbers.pop()}" if len(numbers) == 1 else ""
        yield StoryLine(recovery.up, f"{tasks} {are} up again{attempt}", "back")
    if recovery.went_on and recovery.planned is not None:
        at = recovery.planned if recovery.up is None else recovery.up
        yield StoryLine(at, "Training continued meanwhile", "step")
    elif recovery.first_step is not None:
        yield StoryLine(recovery.first_step, f"First new step{_origin(recovery)}", "step")


def _origin(recovery: Recovery) -> str:
    text = ""
    if recovery.checkpoint is not None:
        text = f", from {PurePath(recovery.checkpoint).name}"
    elif recovery.resumed_step:
        text = f", from step {recovery.resumed_step}"
    if recovery.lost:
        text += f"; {number_of('step', recovery.lost)} {'was' if recovery.lost == 1 else 'were'} computed again"
    return text


def _of_fault(fault: InjectedFault, pace: Pace) -> Story:
    lines = list(_injections([fault]))
    if not fault.done:
        lines.append(StoryLine(fault.injected, f"It could not be injected: {fault.detail}", "warning"))
    if fault.detected is not None:
        lines.append(StoryLine(fault.detected, "A stall was noticed", "warning"))
    if fault.went_on:
        lines.append(StoryLine(fault.healed or fault.injected, _pace_during(fault, pace), "step"))
    elif fault.first_step is not None:
        stood = shown(fault.first_step - fault.injected)
        lines.append(StoryLine(fault.first_step, f"First step after the fault; no steps for {stood}", "step"))
    return Story(
        at=fault.injected,
        title=f"Fault {fault.number}: {fault.fault}",
        lines=tuple(sorted(lines, key=lambda line: line.at)),
        seconds=None if fault.went_on or fault.first_step is None else fault.first_step - fault.injected,
        detected=fault.detected,
        first_step=fault.first_step,
        kind="fault",
        went_on=fault.went_on,
    )


def _pace_during(fault: InjectedFault, pace: Pace) -> str:
    """Say how fast training went on while the fault lasted. Without a known end, say only that no task has died."""
    if fault.healed is None:
        return "No task has died of it"
    before = pace(fault.injected - (fault.healed - fault.injected), fault.injected)
    during = pace(fault.injected, fault.healed)
    if before is None or during is None or before <= 0:
        return "No task died, and training went on until then"
    if during >= UNCHANGED * before:
        return f"No task died; training went on at {during:.3g} steps/s until then, {before:.3g} before"
    return f"No task died; training was slowed to {during:.3g} steps/s until then, from {before:.3g} before"
